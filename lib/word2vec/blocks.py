"""Skip-gram in blocks: many neighbouring words at once, as one product of matrices.

Word2vec reads two rows and changes two rows for every pair and every negative, and
memory, not arithmetic, sets its pace. Here the text is cut into blocks of words. Each
block brings its words' vectors, those of the words around them and of a few negatives
that the whole block shares, and scores all against all in one product; a mask keeps
the band of real neighbours. Every row is read once for dozens of pairs, and the rest
is what matrix libraries do best.

Negatives that are shared go back to Ji et al. 2016, arXiv:1604.04661 (pWord2Vec), who
share them within one window; a block shares them among all its windows.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.word2vec.pairs import window_reach

LONGEST_STEP = 4.0  # of one row in one update, as a Euclidean length
OVERSHOOT = 0.075  # rate times meetings of a word with itself, see `group_size`
MOST_WORDS = 1_024  # of one update
MOST_SUMS = 2**16  # of lengths, see `_all_short`
VISITS = 6  # of each word as a negative, see `shared_size`


def band_masks(block: int, window: int) -> Tensor:
    """Tabulate which columns are neighbours, for any place and any reach.

    A block stands in the middle of its columns, `window` of them on either side.

    Args:
        block: words of a block.
        window: the furthest neighbour on each side.

    Returns:
        float32 `[block · (window + 1)², block + 2 · window]` of 0 and 1. Row
        (place · (window + 1) + left) · (window + 1) + right is the mask of the word at
        `place` with `left` neighbours on its left and `right` on its right.

    Example:
        >>> masks = band_masks(block=2, window=1)
        >>> masks[(0 * 2 + 1) * 2 + 1]  # the first word, with both neighbours
        tensor([1., 0., 1., 0.])
    """
    place, left, right, column = torch.meshgrid(
        torch.arange(block),
        torch.arange(window + 1),
        torch.arange(window + 1),
        torch.arange(block + 2 * window),
        indexing="ij",
    )
    offset = column - window - place
    band = (offset >= -left) & (offset <= right) & (offset != 0)
    return band.float().reshape(-1, block + 2 * window)


def cut_blocks(
    ids: Tensor,
    lengths: Tensor,
    block: int,
    window: int,
    generator: torch.Generator,
    shuffle: bool = True,
) -> tuple[Tensor, Tensor]:
    """Cut a text into blocks, each with the words around it.

    Args:
        ids, lengths: the text, as `flatten` gives it.
        block: words of a block; no mask shows what fills up the last one.
        window: the furthest neighbour on each side; each word draws its own, see
            `window_reach`.
        generator: the source of chance.
        shuffle: whether the blocks come in random order.

    Returns:
        words int32 `[N, block + 2 · window]`, and for each word of the blocks its row
        in `band_masks`, int32 `[N, block]`.
    """
    left, right = window_reach(lengths, window, generator)
    fill = -len(ids) % block
    words = F.pad(ids, (window, window + fill)).unfold(0, block + 2 * window, block)
    reach = F.pad(left * (window + 1) + right, (0, fill)).view(-1, block)
    row = torch.arange(block) * (window + 1) ** 2 + reach  # [N, block]
    if not shuffle:
        return words.int(), row.int()
    order = torch.randperm(len(row), generator=generator)
    return words[order].int(), row[order].int()


def block_step(
    table_in: Tensor,
    table_out: Tensor,
    words: Tensor,
    mask: Tensor,
    negatives: Tensor,
    k: int,
    rate: float,
    midway: bool = False,
) -> None:
    """Take one step on a group of blocks: change both tables in place.

    The step goes down the gradient of the loss summed over all pairs of the group,
    where each pair counts each of the S shared negatives k / S times, except one that
    is the pair's own neighbour.

    Where each pair draws negatives of its own, a negative is pushed a little by one
    pair after another, and each center is pushed by what the pairs before have left. A
    shared negative makes one long step in their place. Where its visits are many, the
    next one corrects that; where they are few, the centers should be pushed by the
    negatives as they stand halfway through their step: the midpoint rule.

    Args:
        table_in, table_out: `[V, d]`.
        words: int32 `[G, H]`, the blocks with the words around them.
        mask: `[G, B, H]`, 1 where a word of the block has a neighbour.
        negatives: int32 `[G, S]`.
        k: how many negatives a pair counts.
        rate: the learning rate.
        midway: whether negatives push the centers from halfway through their step.

    Source: Hairer, Nørsett and Wanner 1993, Solving Ordinary Differential Equations I,
        section II.1, for the midpoint rule.
    """
    block, width = mask.shape[1:]
    window = (width - block) // 2
    centers = words[:, window : window + block]  # [G, B]
    others = torch.cat([words, negatives], dim=1)  # [G, H + S]
    v = F.embedding(centers, table_in)  # [G, B, d]
    u = F.embedding(others, table_out)  # [G, H + S, d]
    weight = torch.cat([mask, shared_weight(words, mask, negatives, k)], dim=2)
    error = torch.bmm(v, u.mT).sigmoid_().mul_(weight)  # [G, B, H + S]
    error[:, :, :width] -= mask
    error *= -rate
    step = torch.bmm(error.mT, v)
    if midway:
        noise = u[:, width:].add_(step[:, width:], alpha=0.5)
        push = torch.bmm(v, noise.mT).sigmoid_().mul_(weight[:, :, width:])
        error[:, :, width:] = push.mul_(-rate)
    add_rows(table_in, centers, torch.bmm(error, u))
    add_rows(table_out, others, step)


def shared_weight(words: Tensor, mask: Tensor, negatives: Tensor, k: int) -> Tensor:
    """Weigh each shared negative by the pairs of each center that may use it.

    Args:
        words, mask, negatives, k: as for `block_step`.

    Returns:
        `[G, B, S]`: k / S for each neighbour of the center that is another word.
    """
    differs = words[:, :, None] != negatives[:, None, :]  # [G, H, S]
    return torch.bmm(mask, differs.to(mask.dtype)).mul_(k / negatives.shape[1])


def add_rows(table: Tensor, rows: Tensor, steps: Tensor) -> None:
    """Add each row's steps to the table; a sum that is too long is shortened.

    A frequent word collects many steps in one update, all taken from the same place.
    Without a bound the sum overshoots, and the next one overshoots further.

    Args:
        table: `[V, d]`, changed in place.
        rows: integers `[...]`, with repeats.
        steps: `[..., d]`.
    """
    rows, steps = rows.flatten(), steps.flatten(0, -2)
    if not table.is_cuda and _all_short(table, rows, steps):
        table.index_add_(0, rows, steps)
        return
    distinct, place = torch.unique(rows, return_inverse=True)  # [R], [N]
    total = table.new_zeros(len(distinct), table.shape[1])  # [R, d]
    if table.is_cuda:  # where index_add_ sums in another order every time
        total.index_put_((place,), steps, accumulate=True)
    else:
        total.index_add_(0, place, steps)
    length = torch.linalg.vector_norm(total, dim=1, keepdim=True)
    total *= (LONGEST_STEP / length).clamp(max=1)
    table.index_add_(0, distinct, total)


def _all_short(table: Tensor, rows: Tensor, steps: Tensor) -> bool:
    """Tell, without summing the steps, that no sum is too long.

    No sum is longer than the lengths of its steps together, and those are cheap to add.
    In a large table several rows share a sum, which makes it no shorter.
    """
    length = torch.linalg.vector_norm(steps, dim=1)
    sums = min(len(table), MOST_SUMS)
    together = length.new_zeros(sums).index_add_(0, rows % sums, length)
    return float(together.max()) <= LONGEST_STEP


def group_size(kept: Tensor, block: int, rate: float) -> int:
    """Say how many blocks may share an update.

    The steps of an update know nothing of each other, and the more of them fall on one
    word, and the longer they are, the more they overshoot.

    Args:
        kept: `[V]`, expected occurrences in the thinned-out text.
        block: words of a block.
        rate: the learning rate.

    Returns:
        As many as let a word meet itself 0.075 / rate times in an update (3 times at
        word2vec's 0.025), an average over the words as they occur; at least 1, and at
        most 1,024 words in all.

    Example:
        >>> group_size(torch.tensor([1.0, 99.0]), block=16, rate=0.025)
        1
        >>> group_size(torch.ones(5_000), block=16, rate=0.025)
        64
    """
    alike = (kept.square().sum() / kept.sum().square()).item()  # two places, one word
    return max(1, min(MOST_WORDS // block, int(OVERSHOOT / (rate * alike * block))))


def shared_size(words: float, block: int) -> int:
    """Say how many negatives a block shares.

    A block's pairs share its negatives, so that a word is a negative in fewer updates
    than if each pair drew its own, and in each counts for more. Where a text is short
    for its vocabulary, the rare words would be pushed by accident or not at all.

    Args:
        words: of the thinned-out text, over all epochs, for each word of the
            vocabulary.
        block: words of a block.

    Returns:
        As many eights as draw a word 6 times on average; from 16 to 64.

    Example:
        >>> shared_size(words=100, block=16), shared_size(words=3, block=16)
        (16, 32)
    """
    return min(64, max(16, 8 * math.ceil(VISITS * block / words / 8)))
