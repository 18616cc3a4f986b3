"""Pairs of one position as clocks, and what a shift does to clocks and to scores.

The pictures are SVG, written here: a few thousand bytes, for the many frames of a
slider. A clock has its zero at twelve and turns clockwise: the sine of a pair is how
far the hand reaches to the right, its cosine how far up.
"""

import math
from collections.abc import Sequence
from html import escape

from lib.checks import check_index, number
from lib.figures.pictures import picture, svg_source
from lib.figures.style import COLORS, GREY

WIDTH = 420  # of every canvas, in pixels of a page
CLOCKS, SHIFT = 480, 400  # heights
PLOT = (12, 190, 396, 160)  # of the score curve: left, top, width, height
INK, SINE, COSINE = COLORS["ink"], COLORS["vermillion"], COLORS["blue"]


def clocks_frame(
    angles: Sequence[float], titles: Sequence[str], note: str, alt: str
) -> str:
    """Draw four pairs of one position as hands, each with its sine and its cosine.

    Args:
        angles: of the four hands, in radians, clockwise from twelve.
        titles: what stands above each clock.
        note: what stands below all of them.
        alt: what one sees, for readers who do not see it.

    Returns:
        An `<img>` element for `lib.interactive`, which shrinks with a narrow page.

    Raises:
        ValueError: not four of each, an angle that is not finite, or an empty alt.

    Example:
        >>> frame = clocks_frame([0, 1, 2, 3], list("abcd"), "place 7", alt="clocks")
        >>> frame[:47], len(frame) < 5_000
        ('<img alt="clocks" width="420" height="480" styl', True)
    """
    _check_fours(angles=angles, titles=titles)
    parts = []
    for place, (angle, title) in enumerate(zip(angles, titles, strict=True)):
        x, y = 108 + 204 * (place % 2), 114 + 206 * (place // 2)
        right, up = _tip(angle, 84)
        parts += [
            _text(x, y - 92, title),
            _face(x, y, 84),
            f"<path d='M{x} {y}h{right}' stroke='{SINE}' stroke-width='6'/>",
            f"<path d='M{x + right:.1f} {y}v{-up}' stroke='{COSINE}' "
            "stroke-width='6'/>",
            _hand(x, y, angle, 84, INK),
        ]
    names = _text(108, 436, "sine", SINE) + _text(312, 436, "cosine", COSINE)
    return _image("".join(parts) + names + _text(210, 466, note), alt, CLOCKS)


def shift_frame(
    before: Sequence[float],
    after: Sequence[float],
    titles: Sequence[str],
    curves: tuple[Sequence[float], Sequence[float]],
    place: int,
    note: str,
    alt: str,
    reach: float = 1.0,
) -> str:
    """Draw what a shift does: four hands before and after, and two curves of scores.

    Args:
        before, after: angles of the four hands, in radians, clockwise from twelve.
        titles: what stands above each clock.
        curves: the scores of the keys 0, 1, … before and after, of one length.
        place: of the query after the shift, one of the keys.
        note: what stands below the curves.
        alt: what one sees, for readers who do not see it.
        reach: the curves are drawn from -reach to reach; frames of one slider share it.

    Returns:
        An `<img>` element for `lib.interactive`, which shrinks with a narrow page.

    Raises:
        ValueError: not four clocks, curves of different lengths or of fewer than two
            scores, a score beyond reach, a reach that is not above 0, an empty alt.
        IndexError: a place that is no key.

    Example:
        >>> four, curve = [0, 1, 2, 3], [0.0, 1.0, 0.0]
        >>> curves = (curve, curve)
        >>> frame = shift_frame(four, four, list("abcd"), curves, 1, "", "still")
        >>> frame[:46], len(frame) < 6_000
        ('<img alt="still" width="420" height="400" styl', True)
    """
    _check_fours(before=before, after=after, titles=titles)
    _check_curves(curves, number("reach", reach, above=0))
    check_index("place", place, len(curves[0]))
    parts = []
    for at, (old, new, title) in enumerate(zip(before, after, titles, strict=True)):
        x, y = 55 + 103 * at, 72
        parts += [_text(x, 18, title), _wedge(x, y, 44, old, new), _face(x, y, 44)]
        parts += [_hand(x, y, old, 44, GREY), _hand(x, y, new, 44, INK)]
    parts += [_text(210, 140, "grey: before the shift", GREY), _axes(curves, place)]
    for curve, look in zip(curves, _looks(), strict=True):
        parts.append(_line(curve, reach, look))
    return _image("".join(parts) + _text(210, 392, note), alt, SHIFT)


def _check_fours(**lists: Sequence) -> None:
    for name, entries in lists.items():
        if len(entries) != 4:
            raise ValueError(f"four {name} fit the picture, got {len(entries)}")
        if name != "titles":
            for angle in entries:
                number("an angle", float(angle))


def _check_curves(curves: Sequence[Sequence[float]], reach: float) -> None:
    sizes = [len(curve) for curve in curves]
    if len(sizes) != 2 or sizes[0] != sizes[1] or sizes[0] < 2:
        raise ValueError(f"two curves of one length, 2 or more, got lengths {sizes}")
    for value in (float(value) for curve in curves for value in curve):
        if not abs(value) <= reach:
            raise ValueError(f"score {value:.3g} lies beyond reach {reach}")


def _tip(angle: float, radius: float) -> tuple[float, float]:
    """Give how far a hand reaches to the right and up."""
    right, up = radius * math.sin(angle), radius * math.cos(angle)
    return round(right, 1) + 0.0, round(up, 1) + 0.0  # no minus zero


def _face(x: float, y: float, radius: float) -> str:
    """Draw the rim, and a tick at twelve."""
    return (
        f"<circle cx='{x}' cy='{y}' r='{radius}' stroke='{GREY}'/>"
        f"<path d='M{x} {y - radius - 4}v8' stroke='{GREY}' stroke-width='2'/>"
    )


def _hand(x: float, y: float, angle: float, radius: float, color: str) -> str:
    right, up = _tip(angle, radius)
    return (
        f"<path d='M{x} {y}l{right} {-up + 0.0}' stroke='{color}' stroke-width='2.5'/>"
        f"<circle cx='{x + right:.1f}' cy='{y - up:.1f}' r='4' fill='{color}'/>"
    )


def _wedge(x: float, y: float, radius: float, old: float, new: float) -> str:
    """Fill what the hand has swept, clockwise, whole turns left out."""
    turn = (new - old) % (2 * math.pi)
    (right, up), (right2, up2) = _tip(old, radius), _tip(new, radius)
    return (
        f"<path d='M{x} {y}l{right} {-up + 0.0}A{radius} {radius} 0 "
        f"{int(turn > math.pi)} 1 {x + right2:.1f} {y - up2:.1f}z' "
        f"fill='{COSINE}' fill-opacity='.2'/>"
    )


def _axes(curves: Sequence[Sequence[float]], place: int) -> str:
    """Draw the line of zero, the query's place, and the names of both axes."""
    left, top, wide, high = PLOT
    last = len(curves[0]) - 1
    x, middle, low = round(left + wide * place / last, 1), top + high / 2, top + high
    return (
        f"<path d='M{left} {middle}h{wide}' stroke='{GREY}' stroke-opacity='.5'/>"
        f"<path d='M{x} {top}v{high}' stroke='{SINE}' stroke-dasharray='4 4'/>"
        + _text(min(max(x, 48), WIDTH - 48), top - 8, f"query at {place}", SINE)
        + _text(left, low + 16, "key 0", GREY, "start")
        + _text(left + wide, low + 16, f"key {last}", GREY, "end")
        + _text(left, middle - 6, "score 0", GREY, "start")
    )


def _looks() -> tuple[str, str]:
    return (
        f"stroke='{GREY}' stroke-width='2' stroke-opacity='.7'",
        f"stroke='{COSINE}' stroke-width='2.5'",
    )


def _line(curve: Sequence[float], reach: float, look: str) -> str:
    left, top, wide, high = PLOT
    step, unit = wide / (len(curve) - 1), high / 2 / reach
    points = [
        f"{left + step * at:.0f},{top + high / 2 - unit * float(value):.1f}"
        for at, value in enumerate(curve)
    ]
    return f"<polyline points='{' '.join(points)}' {look}/>"


def _text(x: float, y: float, text: str, color: str = INK, side: str = "middle") -> str:
    return (
        f"<text x='{x}' y='{y}' fill='{color}' text-anchor='{side}'>"
        f"{escape(text)}</text>"
    )


def _image(body: str, alt: str, height: int) -> str:
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"font-family='DejaVu Sans,sans-serif' font-size='13' fill='none'>{body}</svg>"
    )
    return picture(svg_source(svg), alt, WIDTH, height)
