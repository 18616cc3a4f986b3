"""The smallest language model with two ends: the last words in, the next word out."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import check_size, number
from lib.tied_head import TiedLMHead, untie
from lib.token_embedding import TokenEmbedding


class WindowLM(nn.Module):
    """Guess the next word from the last few, with one hidden layer.

    The last word's row is added to what the layer makes of all of them, as the
    residual path of a transformer adds it, and the sum is normalised before the head.

    Args:
        vocab: words, V.
        dim: width of a row, d.
        window: words that the model sees, W.
        tied: let the head use the table; otherwise it starts as a copy of it.
        std: standard deviation of the table's start.

    Source:
        Bengio et al. 2003, section 2, with a residual path and RMSNorm (Zhang &
        Sennrich 2019) as models have them today.

    Example:
        >>> model = WindowLM(vocab=10, dim=8, window=3)
        >>> model(torch.tensor([[4, 9, 0]])).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        vocab: int,
        dim: int,
        window: int = 4,
        tied: bool = True,
        std: float = 0.02,
    ):
        super().__init__()
        window, dim = check_size("window", window), check_size("dim", dim)
        self.table = TokenEmbedding(vocab, dim, std=std)
        self.mix = nn.Sequential(
            nn.Linear(window * dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )
        head = TiedLMHead(self.table)
        self.head = head if tied else untie(self.table, head)

    def hidden(self, context: Tensor) -> Tensor:
        """Hidden states of length √d: words `[N, W]` to `[N, d]`.

        Args:
            context: ids `[N, W]`.
        """
        x = self.table(context)  # [N, W, d]
        return F.rms_norm(x[:, -1] + self.mix(x.flatten(1)), x.shape[-1:])

    def forward(self, context: Tensor) -> Tensor:
        """Logits of the next word: words `[N, W]` to `[N, V]`.

        Args:
            context: ids `[N, W]`.
        """
        return self.head(self.hidden(context))


@torch.no_grad()
def evaluate(model: nn.Module, windows: Tensor) -> float:
    """Mean loss of a model, in nats a word, over windows `[N, W + 1]`.

    Args:
        model: from ids `[N, W]` to logits `[N, V]`.
        windows: ids `[N, W + 1]`, of which the last is to be said.
    """
    return F.cross_entropy(model(windows[:, :-1]), windows[:, -1]).item()


def train(
    model: nn.Module,
    windows: Tensor,
    held_out: Tensor,
    steps: int,
    generator: torch.Generator,
    every: int = 100,
    batch: int = 192,
    lr: float = 3e-3,
) -> list[float]:
    """Train with Adam on random windows, and look at held-out ones now and then.

    Args:
        model: maps words `[N, W]` to logits `[N, V]`.
        windows: words `[N, W + 1]`; the last of each row is to be guessed.
        held_out: the same, from other text.
        steps: steps of `batch` windows.
        generator: a CPU generator, which draws the batches.
        every: steps between two looks.
        batch: windows in a step.
        lr: learning rate.

    Returns:
        The held-out loss after each `every` steps.

    Raises:
        TypeError, ValueError: steps, every, batch or lr out of range.
        FloatingPointError: a loss is not finite: the rate is too large.

    Example:
        >>> words = torch.arange(40).remainder(5).unfold(0, 3, 1)  # 0 1 2 3 4 0 1 …
        >>> model = WindowLM(5, 8, window=2)
        >>> losses = train(model, words, words, 100, torch.Generator(), every=50)
        >>> len(losses), losses[-1] < 0.5
        (2, True)
    """
    steps = check_size("steps", steps, at_least=0)
    every, batch = check_size("every", every), check_size("batch", batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=number("lr", lr, above=0))
    losses = []
    for step in range(1, steps + 1):
        rows = torch.randint(0, len(windows), (batch,), generator=generator)
        some = windows[rows.to(windows.device)]
        loss = F.cross_entropy(model(some[:, :-1]), some[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0 or step == steps:
            losses.append(_finite(evaluate(model, held_out), step))
    return losses[: steps // every]


def _finite(loss: float, step: int) -> float:
    """Return a loss, or say that training has failed."""
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the loss is {loss} after step {step}: the steps are too long, try a "
            "smaller lr"
        )
    return loss
