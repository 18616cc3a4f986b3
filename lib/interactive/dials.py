"""Dials of RoPE's pairs, which turn as the reader moves a query and a key, no kernel.

The page part is drawn here in its first state, and `dials.js` redraws it. An angle is
written as a rotation of a hand, counter-clockwise, in degrees.
"""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from lib.checks import check_index, check_size, number

PAIRS, PLACES = 6, 100  # dials, and positions from 0 to choose from
WIDE, HIGH = 340, 150  # pixels of the curve
LEFT, RIGHT, TOP, FLOOR = 30, 332, 8, 112  # of its axes
_FOLDER = Path(__file__).parent
_STYLE = f"<style>\n{(_FOLDER / 'dials.css').read_text('utf-8')}</style>"
_SCRIPT = f"<script>\n{(_FOLDER / 'dials.js').read_text('utf-8')}</script>"


def live_dials(
    contents: Mapping[str, int | Sequence[float]],
    bases: Sequence[float],
    trained: Sequence[int],
    key: int = 0,
    query: int = 0,
) -> str:
    """Write six pairs of a query and a key as dials, with their score by distance.

    The reader sets both positions, apart or together, the base, what the two vectors
    say, and the length of training, whose unseen angles are marked on the rims.
    Each pair of either vector has length 1, so that a score is a sum of six cosines.

    Args:
        contents: name → the distance at which all hands of a query meet those of its
            key, or six angles in radians from key to query where none has turned.
        bases: of the speeds; the first is set at first.
        trained: lengths in tokens, at least 2; the first is set at first.
        key, query: positions from 0 to 99.

    Returns:
        HTML, the same for the same arguments on every machine; without a script it
        shows the first state.

    Raises:
        ValueError: an empty menu, other than six angles, a base that is not above 1, or
            a length below 2.
        IndexError: a position beyond 99.

    Source: Su et al. 2021, RoFormer, equation 15.

    Example:
        >>> html = live_dials({"equal": 0}, bases=[100], trained=[16], query=3)
        >>> "Query at 3, key at 0: 3 apart." in html
        True
    """
    angles = {name: _checked(name, content) for name, content in contents.items()}
    bases = [number("base", base, above=1) for base in bases]
    trained = [check_size("trained", length, at_least=2) for length in trained]
    if not (angles and bases and trained):
        raise ValueError("contents, bases and trained need at least 1 entry each")
    key, query = check_index("key", key, PLACES), check_index("query", query, PLACES)
    state = read_dials(next(iter(angles.values())), bases[0], trained[0], key, query)
    settings = json.dumps(list(angles.values()))
    return "\n".join(
        [
            f'<div class="book-dials">{_STYLE}',
            *_controls(list(angles), bases, trained, key, query),
            f'<p role="status">{say_dials(state, key, query)}</p>',
            f'<ul role="list">{"".join(map(_dial, range(PAIRS), state["dials"]))}</ul>',
            _curve(state, query - key),
            f'<script type="application/json">{settings}</script>{_SCRIPT}</div>',
        ]
    )


def _checked(name: str, content: int | Sequence[float]) -> int | list[float]:
    if isinstance(content, int):
        return content
    if len(content) != PAIRS:
        raise ValueError(f"{name!r} has {len(content)} angles, needs {PAIRS}")
    return [round(float(angle), 4) for angle in content]


def read_dials(content, base: float, trained: int, key: int, query: int) -> dict:
    """Work out what the dials show, as the script does, angles in degrees.

    Args:
        content: a distance, or six angles in radians.
        base, trained, key, query: as for `live_dials`.

    Returns:
        "dials", one dict a pair with "speed", "key", "query", "rim" (where the query's
        hand would be at distance 0), "unseen" (degrees of the circle that training
        never saw) and "new" (whether the query's hand is there); "scores", one for each
        distance from -99 to 99; and the "score".
    """
    speeds = [base ** (-pair / PAIRS) for pair in range(PAIRS)]
    starts = content
    if isinstance(content, int):
        starts = [-content * speed for speed in speeds]
    distances = range(1 - PLACES, PLACES)
    pairs = list(zip(speeds, starts, strict=True))
    scores = [sum(math.cos(d * w + start) for w, start in pairs) for d in distances]
    dials = []
    for speed, start in pairs:
        turn, at, rim = (math.degrees(x) for x in (speed, key * speed, start))
        seen = min(360.0, (trained - 1) * turn)
        new = (query - key) * turn % 360 > seen
        angles = {"key": at, "query": query * turn + rim, "rim": at + rim}
        dials.append({"speed": turn, **angles, "unseen": 360 - seen, "new": new})
    return {"dials": dials, "scores": scores, "score": scores[query - key + PLACES - 1]}


def say_dials(state: dict, key: int, query: int) -> str:
    """Say in words what the dials show.

    Args:
        state: what `read_dials` returns.
        key, query: the positions.
    """
    new = [str(i) for i, dial in enumerate(state["dials"]) if dial["new"]]
    where = f"at unseen angles: pairs {', '.join(new)}" if new else "no angle unseen"
    score = f"{state['score']:.2f}".replace("-", "−")
    apart = f"{query - key}".replace("-", "−")
    at = f"Query at {query}, key at {key}: {apart} apart."
    return f"{at} Score {score}, {where}."


def _controls(names, bases, trained, key: int, query: int) -> list[str]:
    """Write the sliders and menus, hidden until the script is there."""
    sliders = [
        f'<label hidden>{name}<input type="range" min="0" max="{PLACES - 1}" '
        f'value="{place}" name="{name}"></label>'
        for name, place in (("query", query), ("key", key))
    ]
    both = '<label hidden><input type="checkbox" name="both">move both</label>'
    menus = {
        "base": [(f"{base:,.0f}", base) for base in bases],
        "content": [(name, at) for at, name in enumerate(names)],
        "trained on": [(f"{length} tokens", length) for length in trained],
    }
    return [*sliders, both, *(_menu(name, menu) for name, menu in menus.items())]


def _menu(name: str, menu: list[tuple[str, float]]) -> str:
    options = "".join(
        f'<option value="{value:g}">{escape(text)}</option>' for text, value in menu
    )
    return f'<label hidden>{name}<select name="{name}">{options}</select></label>'


def _dial(pair: int, dial: dict) -> str:
    """Write one pair: its face and rim, the angle between the hands, and both hands."""
    between = (dial["query"] - dial["key"] + 180) % 360 - 180
    first = dial["query"] if between >= 0 else dial["key"]
    speed, apart = f"{dial['speed']:.3g}° a token", f"{abs(between):.0f}° apart"
    return (
        f"<li{' class=new' if dial['new'] else ''}><span>pair {pair}</span> "
        f"<small>{speed}</small> "
        '<svg viewBox="-1.15 -1.15 2.3 2.3" aria-hidden="true">'
        '<circle r="1" class="face"/>'
        f'<circle r="1" class="unseen" {_sweep(dial["rim"], dial["unseen"])}/>'
        f'<circle r=".25" class="between" {_sweep(first, abs(between))}/>'
        f'<g class="key" {_turn(dial["key"])}><path d="M0 0H.62"/>'
        '<circle cx=".62" r=".09"/></g>'
        f'<g class="query" {_turn(dial["query"])}><path d="M0 0H.85"/>'
        f'<circle cx=".85" r=".09"/></g></svg> <small>{apart}</small></li>'
    )


def _turn(degrees: float) -> str:
    return f'transform="rotate({-(degrees % 360):.1f})"'  # SVG turns clockwise


def _sweep(start: float, length: float) -> str:
    """Write a part of a circle, clockwise from an angle."""
    dash = f'pathLength="360" stroke-dasharray="{length:.1f} 720"'
    return f"{_turn(start)} {dash}"


def _curve(state: dict, distance: int) -> str:
    """Draw the scores over the distance, and where the reader stands on them."""
    points = [_at(d, s) for d, s in enumerate(state["scores"], 1 - PLACES)]
    x, y = _at(distance, state["score"])
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    zero = _at(0, 0)[1]
    texts = [(_at(d, 0)[0], FLOOR + 15, "middle", d) for d in range(-90, 91, 30)]
    texts += [(LEFT - 4, _at(0, s)[1] + 4, "end", s) for s in (-PAIRS, 0, PAIRS)]
    texts += [((LEFT + RIGHT) / 2, HIGH - 6, "middle", "query − key, tokens")]
    written = "".join(
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{_minus(text)}</text>'
        for x, y, anchor, text in texts
    )
    return (
        f'<svg class="curve" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        'aria-label="Score over the distance from −99 to 99 tokens, with a dot at the '
        f'distance that is set"><path class="face" d="M{LEFT} {zero:g}H{RIGHT}"/>'
        f'<polyline points="{line}"/><circle cx="{x:g}" cy="{y:g}" r="5"/>'
        f"{written}</svg>"
    )


def _at(distance: int, score: float) -> tuple[float, float]:
    """Pixels of a point of the curve."""
    share = (distance + PLACES - 1) / (2 * PLACES - 2)
    y = (TOP + FLOOR) / 2 - (FLOOR - TOP) / 2 * score / PAIRS
    return round(LEFT + (RIGHT - LEFT) * share, 1), round(y, 1)


def _minus(text) -> str:
    return str(text).replace("-", "−")
