"""The picture of one head says what its numbers are."""

import pytest
from matplotlib.patches import Rectangle

from lib.figures import draw_attention
from lib.figures.attention import SAID

WORDS = ["old", "dog", "barks"]


def draw(weights=(2 / 3, 1 / 3, 0.0), scores=("ℓ", "0", None), place=1, words=WORDS):
    keys, values = ["k0", "k1", "k2"], ["v0", "v1", "v2"]
    return draw_attention(words, place, "q", keys, scores, weights, values, "m").axes[0]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_every_word_of_a_head_stands_in_the_picture():
    found = texts(draw())
    titles = [title for title, _ in SAID.values()]
    assert {*titles, *WORDS, "q", "k2", "v0", "m", "ℓ", "2/3", "1/3"} <= set(found)
    assert found.count("hidden") == 1


def test_bars_are_as_long_as_weights():
    bars = [patch for patch in draw().patches if isinstance(patch, Rectangle)]
    full, filled = bars[::2], bars[1::2]
    shares = [b.get_width() / a.get_width() for a, b in zip(full, filled, strict=True)]
    assert shares == pytest.approx([2 / 3, 1 / 3, 0])


def widths(ax):
    """Of the arrows that leave a value, in points."""
    arrows = [getattr(text, "arrow_patch", None) for text in ax.texts]
    return sorted(w for a in arrows if a and (w := a.get_linewidth()) > 1.6)


def test_a_hidden_token_hands_nothing_on():
    assert len(widths(draw())) == 3 + 2  # three streams, two values
    ones = ("0", "0", "0")
    assert len(widths(draw((1 / 6, 2 / 3, 1 / 6), ones, place=2))) == 3 + 3


def test_other_than_three_tokens_are_refused():
    with pytest.raises(ValueError, match="three tokens fit the picture, got 2"):
        draw_attention(WORDS[:2], 0, "q", "kk", "ss", [1, 0], "vv", "m")
    with pytest.raises(ValueError, match="3 keys, 3 scores, 1 weights, 3 values"):
        draw(weights=(1.0,))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"place": 3}, IndexError, "place 3 .* 3 rows, places 0 to 2"),
        ({"place": -1}, IndexError, "place -1"),
        ({"place": 1.0}, TypeError, "place must be an int"),
        ({"weights": (5, 0, 0)}, ValueError, "weight 0 must be from 0 to 1, got 5"),
        ({"weights": (0, float("nan"), 0)}, ValueError, "weight 1 .* got nan"),
        ({"weights": (0, 0.5, 0.5)}, ValueError, "key 2 is hidden, its weight is 0.5"),
        ({"scores": [None] * 3, "weights": (0, 0, 0)}, ValueError, "every key is hid"),
    ],
)
def test_a_head_that_cannot_be(change, error, message):
    with pytest.raises(error, match=message):
        draw(**change)
