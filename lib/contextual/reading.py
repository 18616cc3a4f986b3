"""The vectors of a word in its sentences: reading, comparing and probing them."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from lib.byte_pairs import text_bytes, write_token
from lib.checks import check_finite, check_floating, check_index, check_size
from lib.geometry import unit_rows
from lib.transformer import Transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Reading(NamedTuple):
    """What a model made of one word of each text, and of all other tokens.

    Args:
        states: fp32 `[S, N, d]`, the word of each of N texts in S hidden states.
        others: fp32 `[S, M, d]`, the other tokens, but for the first of each text.
        tokens: M strings, the other tokens as they are written.
        text: int64 `[M]`, the number of the text that each of them is from.
    """

    states: Tensor
    others: Tensor
    tokens: list[str]
    text: Tensor

    def centred(self) -> "Reading":
        """Scale each vector to length 1, then subtract the mean of its layer.

        A few tokens have vectors many times as long as the rest in SmolLM2's layers 3
        to 9. Of vectors as they are, the mean would be theirs.
        """
        states, others = unit_rows(self.states), unit_rows(self.others)
        mean = torch.cat([states, others], dim=1).mean(1, keepdim=True)
        return self._replace(states=states - mean, others=others - mean)


@torch.no_grad()
def read_words(
    model: Transformer,
    tokenizer: "Tokenizer",
    texts: Sequence[str],
    words: Sequence[str],
) -> Reading:
    """Read the texts in one batch and take the vectors of one word of each.

    The first token of a text is left out: it sees nothing but itself, and SmolLM2's
    middle layers give it a vector a hundred times as long as the others.

    Args:
        model: as `load_smollm2` gives it.
        tokenizer: the model's.
        texts: N texts.
        words: N words, each one token that begins with a space. The last place in its
            text counts.

    Returns:
        The reading, on the CPU; S = layers + 2 (`Transformer.hidden_states`).

    Raises:
        ValueError: other numbers of texts and words, half a surrogate pair in a text,
            or a text without its word as one token.
    """
    if len(texts) != len(words):
        raise ValueError(f"{len(texts)} texts, but {len(words)} words")
    for text in texts:
        text_bytes(text)  # refuses what the tokenizer does not understand
    encoded = [tokenizer.encode(text) for text in texts]
    places = [_find(e.tokens, word) for e, word in zip(encoded, words, strict=True)]
    ids, real = pad_right([e.ids for e in encoded])
    states = model.hidden_states(ids.to(model.embedding.weight.device))
    states = torch.stack([x.float().cpu() for x in states])  # [S, N, T, d]
    rows, at = torch.arange(len(texts)), torch.tensor(places)
    own = states[:, rows, at]  # [S, N, d]
    real[rows, at] = real[rows, 0] = False
    text, place = real.nonzero().T  # [M] each
    tokens = [
        tokenizer.decode([ids[i, j].item()])
        for i, j in zip(text.tolist(), place.tolist(), strict=True)
    ]
    return Reading(own, states[:, text, place], tokens, text)


def pad_right(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Put ids in one table `[N, T]`, and say which of its places are taken.

    Padding on the right needs no mask: no real token sees what stands after it.
    """
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    real = torch.zeros_like(ids, dtype=torch.bool)
    for row, own in enumerate(rows):
        ids[row, : len(own)] = torch.tensor(own, dtype=torch.int64)
        real[row, : len(own)] = True
    return ids, real


def _find(tokens: list[str], word: str) -> int:
    """The last place of a word that is one token."""
    token = write_token(text_bytes(" " + word))  # as byte-level vocabularies write it
    if token not in tokens:
        raise ValueError(f"{word!r} is no token of its own in {tokens}")
    return len(tokens) - 1 - tokens[::-1].index(token)


def pair_cosines(states: Tensor) -> Tensor:
    """Compute the cosine of every two vectors of a layer: `[S, N, d]` to `[S, N, N]`.

    Args:
        states: floating point `[S, N, d]`, a layer in each row.

    Raises:
        ValueError: a vector that is not finite.

    Example:
        >>> pair_cosines(torch.tensor([[[2.0, 0.0], [0.0, 3.0]]])).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
    """
    units = unit_rows(check_finite("states", check_floating("states", states)))
    return units @ units.mT


def same_and_other(labels: Sequence) -> tuple[Tensor, Tensor]:
    """Say which pairs of different items share a label, and which do not.

    Args:
        labels: one for each of N items.

    Returns:
        Two bool `[N, N]`, each pair once, above the diagonal.

    Example:
        >>> same, other = same_and_other(["a", "b", "a"])
        >>> same.nonzero().tolist(), other.nonzero().tolist()
        ([[0, 2]], [[0, 1], [1, 2]])
    """
    places = [labels.index(label) for label in labels]
    numbers = torch.tensor(places, dtype=torch.int64)
    alike = numbers[:, None] == numbers
    return alike.triu(diagonal=1), (~alike).triu(diagonal=1)


def ordered_share(high: Tensor, low: Tensor) -> Tensor:
    """How often a number drawn from `high` exceeds one drawn from `low`; ties count ½.

    Numbers that differ by less than 1e-6, the rounding of an fp32 cosine, are a tie.

    Args:
        high: `[S, n]`.
        low: `[S, m]`.

    Returns:
        `[S]`, ½ where the two are alike, 1 where they do not overlap.

    Raises:
        ValueError: a number that is not finite.

    Source: Mann and Whitney 1947, U divided by n · m.

    Example:
        >>> ordered_share(torch.tensor([[3.0, 1.0]]), torch.tensor([[2.0, 1.0]]))
        tensor([0.6250])
    """
    check_finite("high", high)
    check_finite("low", low)
    difference = high[:, :, None] - low[:, None, :]  # [S, n, m]
    difference = difference.masked_fill(difference.abs() < 1e-6, 0)
    return (difference.sign().mean((1, 2)) + 1) / 2


def held_out_accuracy(states: Tensor, labels: Tensor) -> Tensor:
    """Score a nearest-centroid probe on items that its centroids have not seen.

    One item of each label is held out at a time, every pair once, and each of the two
    goes to the nearer centroid of the rest. So the centroids always rest on the same
    number of items, and labels drawn at random score ½ on average, not less.

    Args:
        states: `[S, N, d]`; their directions are compared.
        labels: bool `[K, N]`, K labellings, each with at least two items a label.

    Returns:
        float64 `[S, K]`; a tie counts ½.

    Raises:
        ValueError: fewer than two items with a label, shapes that do not fit, or a
            vector that is not finite.

    Example:
        >>> apart = torch.tensor([[[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.0]]])
        >>> held_out_accuracy(apart, torch.tensor([[True, True, False, False]]))
        tensor([[1.]], dtype=torch.float64)
    """
    if labels.dim() != 2 or labels.shape[1] != states.shape[1]:
        found = f"labels {list(labels.shape)}, states {list(states.shape)}"
        raise ValueError(f"labels must be [K, N] for states [S, N, d], got {found}")
    check_finite("states", check_floating("states", states))
    units = unit_rows(states).double()
    products = units @ units.mT  # [S, N, N]
    scores = [_score(products, chosen) for chosen in labels]
    return torch.stack(scores, dim=1)


def _score(products: Tensor, chosen: Tensor) -> Tensor:
    """The accuracy `[S]` of one labelling, from the products of all pairs of items."""
    first, second = chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0]
    if min(len(first), len(second)) < 2:
        found = f"{len(first)} and {len(second)}"
        raise ValueError(f"each label needs 2 items or more, they have {found}")
    to_first = [_distance(products, first[first != a]) for a in first]  # each [S, N]
    to_second = [_distance(products, second[second != b]) for b in second]
    right = []
    for (a, near), (b, far) in itertools.product(
        zip(first, to_first, strict=True), zip(second, to_second, strict=True)
    ):
        gap = far - near  # above 0 where the first centroid is nearer
        gap = gap.masked_fill(gap.abs() < 1e-9, 0)
        right += [gap[:, a].sign(), -gap[:, b].sign()]
    return (torch.stack(right).mean(0) + 1) / 2


def _distance(products: Tensor, group: Tensor) -> Tensor:
    """Squared distance of each item to a group's centroid, up to its own length."""
    centroid = products[:, group][:, :, group].mean((1, 2))  # [S], its squared length
    return centroid[:, None] - 2 * products[:, :, group].mean(2)  # [S, N]


def neighbours(reading: Reading, state: int, row: int, k: int) -> list[str]:
    """List the tokens of other texts that are nearest to a word in its sentence.

    Args:
        reading: centred, as a rule.
        state: which of the S hidden states.
        row: the word's text.
        k: how many different tokens are wanted.

    Returns:
        Tokens, by falling cosine.

    Raises:
        TypeError, IndexError: a state or a row that is not there.
        ValueError: k below 1, or a vector that is not finite.
    """
    layers, texts = reading.states.shape[:2]
    state = check_index("state", state, layers)
    row, k = check_index("row", row, texts), check_size("k", k)
    others = check_finite("others", reading.others[state])
    word = check_finite("states", reading.states[state])[row]
    cosines = unit_rows(others) @ unit_rows(word)
    order = cosines.argsort(descending=True)  # [M]
    elsewhere = order[reading.text[order] != row].tolist()
    return list(dict.fromkeys(reading.tokens[i] for i in elsewhere))[:k]
