"""A picture as an element of a page, and SVG in which any word may stand."""

import re
from html import escape
from urllib.parse import quote

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def picture(source: str, alt: str, width: int, height: int) -> str:
    """Write a picture as an `<img>` element that shrinks with a narrow page.

    Args:
        source: its address, without double quotes, as a rule one of `data:`.
        alt: what one sees on it, for readers who do not see it.
        width, height: in pixels of the page.

    Returns:
        HTML, a frame for `lib.interactive`.

    Raises:
        ValueError: alt is empty.

    Example:
        >>> picture("bank.png", 'a "bank"', 64, 48)[:46]
        '<img alt="a &quot;bank&quot;" width="64" heigh'
    """
    if not alt.strip():
        raise ValueError("alt is empty: say what one sees in the picture")
    return (
        f'<img alt="{escape(alt)}" width="{width}" height="{height}" '
        f'style="max-width:100%;height:auto" src="{source}">'
    )


def svg_source(svg: str) -> str:
    """Write an SVG as an address, to be the source of a picture.

    Args:
        svg: one `<svg>` element. What XML cannot hold, such as a control character or
            half a surrogate pair, becomes U+FFFD; one of them would break the picture.

    Returns:
        The address, without double quotes.

    Example:
        >>> svg_source("<text>a b</text>")
        'data:image/svg+xml,%3Ctext%3Ea b%3C/text%3E'
    """
    whole = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", svg)
    return "data:image/svg+xml," + quote(whole, safe=" /=:;,'()-.")
