"""Skip-gram and CBOW with negative sampling, as modules that autograd trains."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import check_integers
from lib.token_embedding import TokenEmbedding
from lib.word2vec.pairs import PAD


def sgns_loss(center: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """Compute the loss of skip-gram with negative sampling.

    −log σ(v · u) − Σₖ log σ(−v · uₖ), with v the center, u the positive and uₖ the
    negatives: each negative has its own log σ.

    Args:
        center: `[B, d]`.
        positive: `[B, d]`.
        negatives: `[B, K, d]`; K may be 0.

    Returns:
        The mean over B, a scalar.

    Raises:
        ValueError: shapes that do not fit, or B = 0. Nothing is broadcast.

    Source: Mikolov et al. 2013, arXiv:1310.4546, equation 4.

    Example:
        >>> v = torch.tensor([[1.0, 0.0]])
        >>> sgns_loss(v, v, torch.tensor([[[0.0, 1.0], [-1.0, 0.0]]]))
        tensor(1.3197)
    """
    _check_triple(center, positive, negatives)
    hit = (center * positive).sum(-1)  # [B]
    miss = torch.einsum("bd,bkd->bk", center, negatives)  # [B, K]
    return -(F.logsigmoid(hit) + F.logsigmoid(-miss).sum(-1)).mean()


def _check_triple(center: Tensor, positive: Tensor, negatives: Tensor) -> None:
    """Refuse shapes other than `[B, d]`, `[B, d]` and `[B, K, d]` with B ≥ 1."""
    shapes = [tuple(rows.shape) for rows in (center, positive, negatives)]
    batch, *rest = shapes[0] or (0,)
    fits = len(shapes[2]) == 3 and shapes[2][::2] == shapes[0] == shapes[1]
    if not fits or len(rest) != 1 or batch == 0:
        raise ValueError(
            "expected center (B, d), positive (B, d) and negatives (B, K, d) with "
            f"B ≥ 1, got {shapes[0]}, {shapes[1]} and {shapes[2]}"
        )


def mean_rows(lookup: Callable[[Tensor], Tensor], contexts: Tensor) -> Tensor:
    """Average the rows of each context, leaving out where there is no word.

    Args:
        lookup: ids `[B, C]` → rows `[B, C, d]`, such as an embedding.
        contexts: integers `[B, C]`, -1 where there is no word.

    Returns:
        `[B, d]`.

    Raises:
        TypeError: contexts that are not integers.
        ValueError: a context without any word.

    Example:
        >>> table = torch.tensor([[1.0, 0.0], [3.0, 2.0]])
        >>> mean_rows(lambda ids: table[ids], torch.tensor([[0, 1, -1]]))
        tensor([[2., 1.]])
    """
    contexts = check_integers("contexts", contexts).long()
    real = contexts != PAD  # [B, C]
    number = real.sum(dim=1)  # [B]
    if not number.all():
        empty = int((number == 0).nonzero()[0])
        raise ValueError(f"the context in row {empty} has no word, all are {PAD}")
    rows = lookup(contexts.where(real, 0))  # [B, C, d]
    return rows.where(real[..., None], 0).sum(dim=1) / number[:, None]  # [B, d]


class _TwoTables(nn.Module):
    """One vector of each word as input, another as output, as word2vec starts them.

    Args:
        vocab_size: V.
        dim: width of a vector, d.
        generator: the source of chance of the start; torch's own without one.
        sparse: whether lookups give the tables sparse gradients.
        start: half the width of the range of the input table's first numbers, times d.

    Attributes:
        input: table `[V, d]`, uniform within ± start / d at first.
        output: table `[V, d]`, zero at the start.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        generator: torch.Generator | None = None,
        sparse: bool = False,
        start: float = 0.5,
    ):
        super().__init__()
        # Without numbers at first, so that nothing is drawn from torch's own generator.
        self.input = TokenEmbedding(vocab_size, dim, sparse=sparse, device="meta")
        self.output = TokenEmbedding(vocab_size, dim, sparse=sparse, device="meta")
        self.to_empty(device="cpu")
        self.start = start
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Start anew."""
        bound = self.start / self.input.dim
        with torch.no_grad():
            self.input.weight.uniform_(-bound, bound, generator=generator)
            self.output.weight.zero_()

    def vectors(self) -> Tensor:
        """Return the word vectors `[V, d]`, detached: the input table."""
        return self.input.weight.detach()


class SkipGram(_TwoTables):
    """Predict the neighbours of a word from the word.

    Args:
        vocab_size: words, V.
        dim: width of a vector, d.
        generator: the source of chance of the start; torch's own if None.
        sparse: whether lookups give the tables sparse gradients.
        start: word vectors are uniform within ± start / d at first.

    Raises:
        ValueError: a size below 1.
        IndexError: an id outside the tables.

    Source: Mikolov et al. 2013, arXiv:1301.3781, section 3.2; the start as in
        word2vec.c.

    Example:
        >>> model = SkipGram(vocab_size=10, dim=4)
        >>> loss = model(torch.tensor([1]), torch.tensor([2]), torch.tensor([[3, 4]]))
        >>> round(loss.item() / 3, 4)  # −log ½ for each of three words
        0.6931
    """

    def forward(self, centers: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        """Return the loss of centers `[B]`, positives `[B]` and negatives `[B, K]`.

        Args:
            centers: words `[B]`.
            positives: a neighbour of each, `[B]`.
            negatives: `[B, K]`.
        """
        return sgns_loss(
            self.input(centers), self.output(positives), self.output(negatives)
        )


class CBOW(_TwoTables):
    """Predict a word from the mean of its neighbours' vectors.

    The gradient is the mean's own. word2vec.c and gensim give each neighbour the whole
    gradient instead of its share, as if the mean were a sum: the same direction for
    each, but a step that is as many times longer as there are neighbours.

    Args:
        vocab_size, dim, generator, sparse, start: as for `SkipGram`.

    Raises:
        ValueError: a size below 1, or a context without any word.
        IndexError: an id outside the tables.

    Source: Mikolov et al. 2013, arXiv:1301.3781, section 3.1.

    Example:
        >>> model = CBOW(vocab_size=10, dim=4)
        >>> contexts, targets = torch.tensor([[5, 6, -1, -1]]), torch.tensor([7])
        >>> model(contexts, targets, torch.tensor([[3, 4]])).shape
        torch.Size([])
    """

    def forward(self, contexts: Tensor, targets: Tensor, negatives: Tensor) -> Tensor:
        """Return the loss of contexts `[B, C]`, targets `[B]`, negatives `[B, K]`.

        Args:
            contexts: neighbours `[B, C]`, with -1 where there is none.
            targets: the words between them, `[B]`.
            negatives: `[B, K]`.
        """
        center = mean_rows(self.input, contexts)
        return sgns_loss(center, self.output(targets), self.output(negatives))
