"""Layouts say with their shapes what their numbers are."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.patches import Rectangle

from lib.figures import draw_layouts
from lib.figures.pairs import CELL


@pytest.fixture
def ax():
    fig, ax = plt.subplots()
    yield ax
    plt.close(fig)


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
