"""A frame of bars, drawn as a small SVG."""

from collections.abc import Sequence
from html import escape

from lib.checks import number
from lib.figures.pictures import picture, svg_source
from lib.figures.style import COLORS, GREY

WIDTH, HEIGHT = 420, 260  # pixels of the page
LEFT, RIGHT, TOP, FLOOR = 44, 412, 34, 206  # of the axes


def bars_frame(
    shares: Sequence[float],
    names: Sequence[str],
    alt: str,
    top: float = 1.0,
    note: str = "",
    mark: float | None = None,
    label: str = "",
) -> str:
    """Draw shares as bars side by side, for the many frames of a slider; 2 kB a frame.

    Args:
        shares: from 0 to `top`, one a bar.
        names: of the bars, written below them; "" for none.
        alt: what one sees in this frame, for readers who do not see it.
        top: the share at which the axis ends; frames of one slider share it.
        note: a line of text above the bars.
        mark: where a dashed line stands, in bars from the left end of the first.
        label: of the lower axis.

    Returns:
        An `<img>` element that shrinks with a narrow page.

    Raises:
        ValueError: an empty alt, no shares, other numbers of shares and names, a share
            outside 0 to `top`, or a mark that is beside the bars.

    Example:
        >>> bars_frame([0.2, 0.8], ["near", "far"], "two bars")[:43]
        '<img alt="two bars" width="420" height="260'
    """
    number("top", top, above=0)
    if not len(shares) or len(shares) != len(names):
        raise ValueError(f"{len(shares)} shares for {len(names)} names")
    for share in shares:
        if not 0 <= share <= top:
            raise ValueError(f"share {share:.3g} is outside 0 … {top}")
    if mark is not None and not 0 <= mark <= len(shares):
        raise ValueError(f"mark {mark:.3g} is outside 0 … {len(shares)}")
    step = (RIGHT - LEFT) / len(shares)
    parts = [_bars(shares, step, top), *_axes(top)]
    if mark is not None:
        x = LEFT + mark * step
        line = f"M{x:.1f} {TOP}V{FLOOR}"
        color = COLORS["vermillion"]
        parts.append(f"<path d='{line}' stroke='{color}' stroke-dasharray='5 4'/>")
    for place, name in enumerate(names):
        parts.append(_text(name, LEFT + (place + 0.5) * step, FLOOR + 17))
    parts += [_text(label, (LEFT + RIGHT) / 2, HEIGHT - 12), _text(note, LEFT, 18, 0)]
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        "font-family='DejaVu Sans,sans-serif' font-size='13' stroke-width='2' "
        f"fill='{COLORS['ink']}'>{''.join(parts)}</svg>"
    )
    return picture(svg_source(svg), alt, WIDTH, HEIGHT)


def _bars(shares: Sequence[float], step: float, top: float) -> str:
    path = ""
    for place, share in enumerate(shares):
        height = (FLOOR - TOP) * share / top
        x = LEFT + (place + 0.1) * step
        path += f"M{x:.1f} {FLOOR}v{-height:.1f}h{0.8 * step:.1f}v{height:.1f}z"
    return f"<path d='{path}' fill='{COLORS['blue']}'/>"


def _axes(top: float) -> list[str]:
    """Write the floor, and three shares in percent to its left."""
    line = f"<path d='M{LEFT} {FLOOR}H{RIGHT}' stroke='{GREY}' stroke-width='1'/>"
    ticks = (0, top / 2, top)
    heights = [FLOOR + 5 - (FLOOR - TOP) * tick / top for tick in ticks]
    texts = [
        _text(f"{100 * tick:.0f} %", LEFT - 5, height, 2)
        for tick, height in zip(ticks, heights, strict=True)
    ]
    return [line, *texts]


def _text(text: str, x: float, y: float, side: int = 1) -> str:
    """Write a text that starts (0), is centred (1) or ends (2) at x."""
    if not text:
        return ""
    anchor = ("start", "middle", "end")[side]
    words = escape(text)
    return f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}'>{words}</text>"
