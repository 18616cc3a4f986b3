"""A window over a sentence, and the pulls and pushes that move a word in the plane.

The picture is SVG, written here: a few thousand bytes, for the many frames of a slider.
"""

from collections.abc import Mapping, Sequence
from html import escape

from lib.checks import check_integer, check_size, number
from lib.figures.pictures import picture, svg_source
from lib.figures.style import COLORS, GREY

WIDTH, HEIGHT = 460, 470  # of the canvas, in pixels of a page
CENTER = (WIDTH / 2, 266)  # the origin of the plane
UNIT = 60  # pixels from 0 to 1
REACH = 3.3  # from the origin to where the axes end
LETTERS = 42  # in a line of the sentence
HEAD = (
    "<marker id='{0}' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='9' "
    "markerHeight='9' markerUnits='userSpaceOnUse' orient='auto'>"
    "<path d='M0 0L8 4L0 8z' fill='{1}'/></marker>"
)
Step = tuple[float, float]


def window_frame(
    words: Sequence[str],
    points: Mapping[str, Step],
    *,
    alt: str,
    note: str = "",
    place: int | None = None,
    window: int = 0,
    pulls: Sequence[Step] = (),
    pushes: Sequence[Step] = (),
) -> str:
    """Draw a window over a sentence, and what pulls and pushes its middle word.

    Args:
        words: the sentence.
        points: word → where it is in the plane, before any move; within ±3.3.
        alt: what one sees, for readers who do not see it.
        note: a line of text below the plane.
        place: number of the word in the middle of the window; None for no window.
        window: the furthest neighbour on each side.
        pulls, pushes: steps `(x, y)` that the middle word takes one after the other.

    Returns:
        An `<img>` element for `lib.interactive`, which shrinks with a narrow page.

    Raises:
        TypeError: a place or a window that is no integer.
        IndexError: a place that the sentence does not have.
        KeyError: the middle word has no point.
        ValueError: alt is empty, arrows without a place, a window below 0, a step that
            is not finite, or a point beyond ±3.3.

    Example:
        >>> points = {"in": (1, 0), "the": (0, 1)}
        >>> frame = window_frame(["in", "the"], points, alt="two words", place=0)
        >>> frame[:50]
        '<img alt="two words" width="460" height="470" styl'
        >>> len(frame) < 2_500
        True
    """
    _check_window(words, points, place, window, len(pulls) + len(pushes))
    moved, arrows, places = None, "", points
    if place is not None:
        moved = words[place]
        arrows, end = _arrows(points[moved], pulls, pushes)
        places = {**points, moved: end}
    body = _sentence(words, place, window) + _plane(note) + _dots(places, moved)
    return picture(svg_source(_svg(body + arrows)), alt, WIDTH, HEIGHT)


def _check_window(words, points, place, window: int, arrows: int) -> None:
    check_size("window", window, at_least=0)
    if place is None and arrows:
        raise ValueError("pulls and pushes move the word at a place, and place is None")
    if place is not None and not 0 <= check_integer("place", place) < len(words):
        raise IndexError(f"place {place} is outside the sentence of {len(words)} words")
    for word, (x, y) in points.items():
        if not max(abs(x), abs(y)) <= REACH:
            raise ValueError(f"{word!r} at ({x:.3g}, {y:.3g}) is beyond ±{REACH}")


def _svg(body: str) -> str:
    heads = HEAD.format("pull", COLORS["green"]) + HEAD.format(
        "push", COLORS["vermillion"]
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"font-family='sans-serif' font-size='15' fill='none'>{heads}{body}</svg>"
    )


def _sentence(words: Sequence[str], place: int | None, window: int) -> str:
    """Write the sentence in lines, the window's words in bold."""
    lines: list[list[str]] = [[]]
    length = 0
    for at, word in enumerate(words):
        if length + len(word) > LETTERS:
            lines.append([])
            length = 0
        style = _style(None if place is None else abs(at - place), window)
        lines[-1].append(f"<tspan {style}>{escape(word)}</tspan>")
        length += len(word) + 1
    return "".join(
        f"<text x='4' y='{18 + 22 * row}' font-family='monospace' font-size='17'>"
        f"{' '.join(line)}</text>"
        for row, line in enumerate(lines)
    )


def _style(distance: int | None, window: int) -> str:
    """Choose colour and weight of a word by its distance from the middle."""
    if distance == 0:
        return f"fill='{COLORS['blue']}' font-weight='bold'"
    if distance is not None and distance <= window:
        return f"fill='{COLORS['green']}' font-weight='bold'"
    return f"fill='{GREY}'"


def _plane(note: str) -> str:
    """Draw the two axes through the origin, their names and the note."""
    (x, y), reach = CENTER, UNIT * REACH
    return (
        f"<path d='M{x - reach} {y}h{2 * reach}M{x} {y - reach}v{2 * reach}' "
        f"stroke='{GREY}' stroke-opacity='.4'/><g fill='{GREY}' font-size='13'>"
        f"<text x='{x + reach}' y='{y + 16}' text-anchor='end'>first number</text>"
        f"<text x='{x + 5}' y='{y - reach + 10}'>second number</text>"
        f"<text x='4' y='{HEIGHT - 3}'>{escape(note)}</text></g>"
    )


def _dots(places: Mapping[str, Step], moved: str | None) -> str:
    parts = []
    for word, point in places.items():
        x, y = _pixels(point)
        color = COLORS["blue" if word == moved else "ink"]
        parts.append(
            f"<path d='M{CENTER[0]} {CENTER[1]}L{x} {y}' stroke='{GREY}' "
            f"stroke-opacity='.5'/><circle cx='{x}' cy='{y}' r='4.5' fill='{color}'/>"
            f"<text x='{x + 6:.1f}' y='{y - 5:.1f}' fill='{color}'>{escape(word)}"
            "</text>"
        )
    return "".join(parts)


def _arrows(
    start: Step, pulls: Sequence[Step], pushes: Sequence[Step]
) -> tuple[str, Step]:
    """Draw the steps one behind the other; return where they end, too."""
    parts, tip = [], start
    named = [("pull", "green", pulls), ("push", "vermillion", pushes)]
    for name, color, steps in named:
        for x, y in steps:
            begin, tip = tip, (tip[0] + x, tip[1] + y)
            (x1, y1), (x2, y2) = _pixels(begin), _pixels(tip)
            parts.append(
                f"<path d='M{x1} {y1}L{x2} {y2}' stroke='{COLORS[color]}' "
                f"stroke-width='2' marker-end='url(#{name})'/>"
            )
    return "".join(parts), tip


def _pixels(point: Step) -> tuple[float, float]:
    """Turn a point of the plane into pixels from the upper left."""
    x, y = (number("a step", float(value)) for value in point)
    return round(CENTER[0] + UNIT * x, 1), round(CENTER[1] - UNIT * y, 1)
