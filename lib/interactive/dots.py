"""A frame of dots in named groups, drawn as a small SVG."""

from collections.abc import Mapping, Sequence
from html import escape

from lib.checks import number
from lib.figures import picture, svg_source

WIDTH, HEIGHT = 640, 420  # pixels of the page
LINE, LETTER = 22, 10  # pixels: a label's height, and the width of one letter


def dots_frame(
    points: Sequence[Sequence[float]],
    groups: Sequence[str],
    styles: Mapping[str, tuple[str, bool]],
    alt: str,
    reach: float = 1.0,
) -> str:
    """Draw dots, and the name of each group to the right of it; 3 kB a frame.

    Args:
        points: N pairs (x, y), y upwards.
        groups: the name of the group of each point.
        styles: group → a colour such as "#0b62b0", and whether its dots are filled;
            the others are rings.
        alt: what one sees in this frame, for readers who do not see it.
        reach: y is drawn from -reach to reach and x half as far again; frames of one
            slider share it.

    Returns:
        An `<img>` element that shrinks with a narrow page.

    Raises:
        ValueError: an empty alt, other numbers of points and groups, a `reach` that is
            not above 0, or a point that lies beyond it.
        KeyError: a group without a style.

    Example:
        >>> frame = dots_frame([(0, 1)], ["bank"], {"bank": ("#0b62b0", True)}, "a dot")
        >>> frame[:42]
        '<img alt="a dot" width="640" height="420" '
    """
    number("reach", reach, above=0)
    if len(points) != len(groups):
        raise ValueError(f"{len(points)} points for {len(groups)} groups")
    unknown = [name for name in dict.fromkeys(groups) if name not in styles]
    if unknown:
        raise KeyError(f"groups without a style: {unknown}")
    places = [_pixel(point, reach) for point in points]
    marks, ends = [], {}
    for name, (color, filled) in styles.items():
        own = [p for p, group in zip(places, groups, strict=True) if group == name]
        if own:
            marks.append(_marks(own, color, filled))
            ends[name] = max(x for x, _ in own), sum(y for _, y in own) / len(own)
    texts = [_text(name, at, styles[name][0]) for name, at in _apart(ends).items()]
    return _image("".join(marks + texts), alt)


def _pixel(point: Sequence[float], reach: float) -> tuple[int, int]:
    x, y = (float(value) for value in point)
    if not (abs(x) <= 1.5 * reach and abs(y) <= reach):
        raise ValueError(f"point ({x:.3g}, {y:.3g}) lies beyond reach {reach}")
    scale = (HEIGHT / 2 - 10) / reach
    return round(WIDTH / 2 + scale * x), round(HEIGHT / 2 - scale * y)


def _marks(places: Sequence[tuple[int, int]], color: str, filled: bool) -> str:
    color = escape(color)
    look = f"fill='{color}'" if filled else f"fill='none' stroke='{color}'"
    dots = "".join(f"<circle cx='{x}' cy='{y}' r='6'/>" for x, y in places)
    return f"<g {look} stroke-width='2' opacity='.75'>{dots}</g>"


def _apart(ends: Mapping[str, tuple[float, float]]) -> dict:
    """Move labels up or down until none lies over another, nor over its dots."""
    placed: dict[str, tuple[float, float]] = {}
    for name, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        wide = LETTER * len(name)
        left = min(x + 12, WIDTH - wide - 4)
        over = [(px, py, LETTER * len(other)) for other, (px, py) in placed.items()]
        while any(
            left < px + pw and px < left + wide and abs(y - py) < LINE
            for px, py, pw in over
        ):
            y += 1
        placed[name] = left, min(y, HEIGHT - 6)
    return placed


def _text(name: str, at: tuple[float, float], color: str) -> str:
    x, y = at
    return (
        f"<text x='{x:.0f}' y='{y + 6:.0f}' fill='{escape(color)}' stroke='white' "
        f"stroke-width='3' paint-order='stroke'>{escape(name)}</text>"
    )


def _image(drawn: str, alt: str) -> str:
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"font-family='DejaVu Sans,sans-serif' font-size='18'>{drawn}</svg>"
    )
    return picture(svg_source(svg), alt, WIDTH, HEIGHT)
