"""A small language model of characters whose only mark of place is a learned table."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.checks import check_size, number
from lib.learned import LearnedPositionalEmbedding
from lib.token_embedding import TokenEmbedding


class TableLM(nn.Module):
    """Guess the next character: one layer of attention, one of feed-forward.

    Args:
        vocab: characters, V.
        rows: places that the table has.
        dim: width of a row, D.

    Source:
        Radford et al. 2019 (GPT-2) in small: rows of characters plus rows of places,
        then blocks that normalise first.

    Example:
        >>> model = TableLM(vocab=28, rows=64)
        >>> model(torch.zeros(2, 10, dtype=torch.long), torch.arange(10)).shape
        torch.Size([2, 10, 28])
    """

    def __init__(self, vocab: int, rows: int, dim: int = 48):
        super().__init__()
        self.letters, self.head = TokenEmbedding(vocab, dim), nn.Linear(dim, vocab)
        self.places = LearnedPositionalEmbedding(rows, dim)
        self.attend = MultiHeadAttention(dim, num_heads=4)
        self.think = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Logits of the character after each.

        Args:
            ids: characters `[B, T]`.
            positions: the row of each place, `[T]` or `[B, T]`.
            mask: which keys may be seen besides the causal rule, as for
                `causal_attention`.

        Returns:
            `[B, T, V]`.
        """
        x = self.letters(ids) + self.places(positions)  # [B, T, D]
        x = x + self.attend(_norm(x), mask)
        return self.head(_norm(x + self.think(_norm(x))))


def _norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:])


def random_pieces(
    text: Tensor, n: int, length: int, generator: torch.Generator
) -> Tensor:
    """Cut random pieces out of a text, each with the character after it.

    Args:
        text: ids `[N]`.
        n: pieces.
        length: characters of a piece that a model reads.
        generator: a CPU generator, which draws where they begin.

    Returns:
        `[n, length + 1]`, on the device of the text.

    Example:
        >>> random_pieces(torch.arange(9), 1, 8, torch.Generator())
        tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8]])
    """
    n, length = check_size("n", n), check_size("length", length)
    if len(text) <= length:
        raise ValueError(f"a text of {len(text)} characters has no piece of {length}")
    starts = torch.randint(len(text) - length, (n,), generator=generator)
    return text[(starts[:, None] + torch.arange(length + 1)).to(text.device)]


def loss_of(
    model: nn.Module, pieces: Tensor, positions: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Loss of each character of some pieces, in nats.

    Args:
        model: a `TableLM`, or what is called as one is.
        pieces: `[n, T + 1]`.
        positions, mask: as for `TableLM.forward`.

    Returns:
        `[n, T]`.

    Example:
        >>> model = TableLM(vocab=5, rows=8)
        >>> loss_of(model, torch.zeros(3, 9, dtype=torch.long), torch.arange(8)).shape
        torch.Size([3, 8])
    """
    logits = model(pieces[:, :-1], positions, mask)  # [n, T, V]
    return F.cross_entropy(logits.mT, pieces[:, 1:], reduction="none")


def train(
    model: TableLM,
    text: Tensor,
    steps: int,
    generator: torch.Generator,
    length: int | None = None,
    batch: int = 64,
    lr: float = 4e-3,
) -> list[float]:
    """Train in place with Adam on random pieces of a text.

    Args:
        model: what is trained; a table whose `requires_grad` is off stays as it is.
        text: ids `[N]`.
        steps: steps of `batch` pieces.
        generator: a CPU generator, which draws the pieces.
        length: characters of a piece; as many as the table has rows if None.
        batch: pieces in a step.
        lr: learning rate.

    Returns:
        The loss of each step, in nats a character.

    Raises:
        TypeError, ValueError: steps, batch, length or lr out of range.
        IndexError: a length beyond the table.

    Example:
        >>> text = torch.arange(200).remainder(5)
        >>> losses = train(TableLM(5, rows=8), text, 100, torch.Generator(), batch=8)
        >>> len(losses), losses[-1] < 0.5
        (100, True)
    """
    steps = check_size("steps", steps, at_least=0)
    length = (
        len(model.places.weight) if length is None else check_size("length", length)
    )
    positions = torch.arange(length, device=text.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=number("lr", lr, above=0))
    losses = []
    for _ in range(steps):
        pieces = random_pieces(text, batch, length, generator)
        loss = loss_of(model, pieces, positions).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
