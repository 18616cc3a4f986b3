"""Clocks and layouts say with their shapes what their numbers are."""

import math

import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import Rectangle

from lib.figures import draw_clocks, draw_layouts
from lib.figures.pairs import CELL


@pytest.fixture
def ax():
    fig, ax = plt.subplots()
    yield ax
    plt.close(fig)


def test_a_clock_shows_its_sine_its_cosine_and_its_hand():
    angle = 2.0
    fig = draw_clocks([angle, 0.0, 1.0, 3.0], list("abcd"), "position 7")
    ax = fig.axes[0]
    cosine, sine, hand = (line.get_xydata() for line in ax.lines[:3])
    tip = [math.cos(angle), math.sin(angle)]
    assert cosine.tolist() == [[0, 0], [tip[0], 0]]
    assert sine.tolist() == [[tip[0], 0], tip]
    assert hand.tolist() == [[0, 0], tip]
    colors = {line.get_color() for line in ax.lines[:2]}
    assert colors == {text.get_color() for text in fig.texts[:2]}
    assert [ax.get_title() for ax in fig.axes] == list("abcd")
    plt.close(fig)


@pytest.mark.parametrize(("angles", "titles"), [(3, 4), (4, 3), (5, 4)])
def test_clocks_come_in_fours(angles, titles):
    with pytest.raises(ValueError, match="argument"):
        draw_clocks([0.0] * angles, list("abcd")[:titles], "")
    plt.close("all")


def test_layouts_draw_each_feature_twice_and_join_its_two_places(ax):
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    draw_layouts(ax, order)
    assert len([p for p in ax.patches if isinstance(p, Rectangle)]) == 16
    joins = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) == 2]
    assert [(round(top[0]), round(low[0])) for top, low in joins] == [
        (feature, place) for place, feature in enumerate(order)
    ]
    assert joins[0][0][1] == pytest.approx(2.2 - CELL)


@pytest.mark.parametrize("order", [[0, 0], [0, 1, 2], list(range(10)), [1, 2]])
def test_what_is_not_a_layout_is_refused(ax, order):
    with pytest.raises(ValueError, match="permute"):
        draw_layouts(ax, order)
