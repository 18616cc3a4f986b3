"""The three positions of one token after the other, of text and of what is seen.

The picture is SVG, written here: two to three thousand bytes, for the many frames of a
slider. Its letters stay above 9 pixels on a phone.
"""

from collections.abc import Sequence

from lib.checks import check_integer, check_size
from lib.figures.pictures import picture, svg_source
from lib.figures.style import COLORS, GREY

SHOWN = 480  # pixels of the page that the picture is wide, where there is room
WIDTH, HEIGHT = 360, 356  # units of the drawing
LEFT, RIGHT, TOP, BOTTOM = 30, 354, 112, 306  # of the plot
AXES = (("t", "vermillion", 9), ("h", "blue", 5.5), ("w", "green", 2))
Grid = tuple[int, int, int]
Place = tuple[int, int, int, int]  # grid, frame, row, column


def ids_frame(
    ids: Sequence[Sequence[int]], pieces: Sequence[int | Grid], token: int
) -> str:
    """Draw the positions of all tokens up to one: time, height and width.

    A dashed line marks where text would go on behind the piece that the token is in, a
    grey one what counting the tokens would give.

    Args:
        ids: three rows (time, height, width) of one position a token.
        pieces: the sequence in order: a number of words, or the frames, rows and
            columns of a grid of tokens.
        token: the number of the token, from 0.

    Returns:
        An `<img>` element for `lib.interactive`, which shrinks with a narrow page.

    Raises:
        TypeError: a size or a token that is no integer.
        IndexError: a token that the sequence does not have.
        ValueError: an empty piece, or ids of another shape than the pieces.

    Example:
        >>> frame = ids_frame([[0, 1, 1], [0, 1, 1], [0, 1, 2]], [1, (1, 1, 2)], 2)
        >>> frame[10:76]
        'Token 2, row 0, column 1 of a grid: t 1, h 1, w 2. Next text at 3.'
    """
    rows = [[int(number) for number in row] for row in ids]
    sizes, places = _read(pieces)
    if len(rows) != 3 or any(len(row) != len(places) for row in rows):
        shape = [len(rows), *sorted({len(row) for row in rows})]
        raise ValueError(
            f"ids must be [3, {len(places)}] for these pieces, got {shape}"
        )
    if not 0 <= check_integer("token", token) < len(places):
        raise IndexError(f"token {token} is outside 0 … {len(places) - 1}")
    end = next(end for end in _ends(pieces) if end > token)
    free = 1 + max(max(row[:end]) for row in rows)
    name = _name(places[token], sizes)
    here = [row[token] for row in rows]
    numbers = ", ".join(f"{a} {n}" for (a, *_), n in zip(AXES, here, strict=True))
    alt = f"Token {token}, {name}: {numbers}. Next text at {free}"
    alt += f", not at {end}." if free != end else "."
    body = _grids(sizes, places[token]) + _numbers(f"token {token}: {name}", here)
    body += _plot(rows, token, free) + _strip(places, token)
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"font-family='sans-serif' font-size='12' fill='{COLORS['ink']}'>{body}</svg>"
    )
    return picture(svg_source(svg), alt, SHOWN, round(SHOWN * HEIGHT / WIDTH))


def _read(pieces: Sequence[int | Grid]) -> tuple[list[Grid], list[Place | None]]:
    """List the grids, and the place of each token in them; a word has none."""
    sizes, places = [], []
    for piece in pieces:
        if isinstance(piece, int):
            places += [None] * check_size("piece", piece)
            continue
        if len(piece) != 3:
            raise ValueError(f"a grid is (frames, rows, columns), got {piece}")
        frames, rows, columns = (check_size("piece", size) for size in piece)
        places += [
            (len(sizes), frame, row, column)
            for frame in range(frames)
            for row in range(rows)
            for column in range(columns)
        ]
        sizes.append((frames, rows, columns))
    return sizes, places


def _ends(pieces: Sequence[int | Grid]) -> list[int]:
    """Where each piece ends; each word is a piece of its own."""
    ends, total = [], 0
    for piece in pieces:
        if isinstance(piece, int):
            ends += range(total + 1, total + piece + 1)
        else:
            ends.append(total + piece[0] * piece[1] * piece[2])
        total = ends[-1]
    return ends


def _name(place: Place | None, sizes: Sequence[Grid]) -> str:
    if place is None:
        return "a word"
    grid, frame, row, column = place
    which = f"frame {frame}, " if sizes[grid][0] > 1 else ""
    whose = f" of grid {grid}" if len(sizes) > 1 else " of a grid"
    return f"{which}row {row}, column {column}{whose}"


def _grids(sizes: Sequence[Grid], here: Place | None) -> str:
    """Draw the cells of each frame of each grid, and fill the one of the token."""
    gaps = sum(5 * (frames - 1) + 14 for frames, *_ in sizes)
    wide = sum(frames * columns for frames, _, columns in sizes)
    tall = max((rows for _, rows, _ in sizes), default=1)
    cell = int(min(22, (230 - gaps) / max(wide, 1), 72 / tall))
    drawn, filled, x = "", "", LEFT
    for grid, (frames, rows, columns) in enumerate(sizes):
        for frame in range(frames):
            drawn += "".join(
                f"M{x} {26 + cell * row}h{cell * columns}" for row in range(rows + 1)
            ) + "".join(
                f"M{x + cell * column} 26v{cell * rows}"
                for column in range(columns + 1)
            )
            if here and here[:2] == (grid, frame):
                at = f"x='{x + cell * here[3]}' y='{26 + cell * here[2]}'"
                filled = f"<rect {at} width='{cell}' height='{cell}'/>"
            x += cell * columns + 5
        x += 9
    return f"{filled}<path d='{drawn}' fill='none' stroke='{GREY}'/>"


def _numbers(title: str, here: Sequence[int]) -> str:
    lines = [f"<text x='{LEFT}' y='14' font-weight='bold'>{title}</text>"]
    lines += [
        f"<text x='282' y='{44 + 24 * line}' font-size='19' font-weight='bold' "
        f"fill='{COLORS[color]}'>{axis} = {number}</text>"
        for line, ((axis, color, _), number) in enumerate(zip(AXES, here, strict=True))
    ]
    return "".join(lines)


def _plot(rows: Sequence[Sequence[int]], token: int, free: int) -> str:
    """Draw the three lines up to the token, and beside them what counting gives."""
    count = len(rows[0])
    top = max(count, free, *map(max, rows))
    step, unit = (RIGHT - LEFT) / count, (BOTTOM - TOP) / top

    def at(i: int, position: int) -> str:
        return f"{LEFT + step * (i + 0.5):.1f} {BOTTOM - unit * position:.1f}"

    drawn = _guides(unit, top, free) + (
        f"<path d='M{at(0, 0)}L{at(count - 1, count - 1)}' stroke='{GREY}' "
        f"stroke-width='1.5' stroke-dasharray='1.5 4'/>"
    )
    for (_, color, width), row in zip(AXES, rows, strict=True):
        line = "L".join(at(i, row[i]) for i in range(token + 1))
        drawn += (
            f"<path d='M{line}L{at(token, row[token])}' fill='none' "
            f"stroke='{COLORS[color]}' stroke-width='{width}' "
            "stroke-linejoin='round' stroke-linecap='round'/>"
        )
    return drawn


def _guides(unit: float, top: int, free: int) -> str:
    """Draw the numbers of the axis, and the line where text would go on."""
    marks = "".join(
        f"<text x='{LEFT - 6}' y='{BOTTOM - unit * n + 4:.1f}' "
        f"text-anchor='end'>{n}</text>"
        for n in range(0, top + 1, max(1, round(top / 4)))
    )
    level = BOTTOM - unit * free
    return (
        f"{marks}<path d='M{LEFT} {level:.1f}H{RIGHT}' "
        f"stroke='{COLORS['ink']}' stroke-dasharray='6 4'/>"
        f"<text x='{LEFT + 4}' y='{level - 5:.1f}'>next text at {free}</text>"
        f"<text x='{LEFT + 4}' y='{TOP + 4}' fill='{GREY}'>dotted: tokens counted"
        "</text>"
    )


def _strip(places: Sequence[Place | None], token: int) -> str:
    """Draw the tokens as boxes below the plot: words light, what is seen dark."""
    step = (RIGHT - LEFT) / len(places)
    boxes = ""
    for seen, color in ((False, "#d5d9e0"), (True, GREY)):
        boxes += f"<path fill='{color}' d='" + "".join(
            f"M{LEFT + step * i + 1:.1f} 314h{step - 2:.1f}v14h{2 - step:.1f}z"
            for i, place in enumerate(places)
            if (place is not None) == seen
        )
        boxes += "'/>"
    return (
        f"{boxes}<rect x='{LEFT + step * token:.1f}' y='312' width='{step:.1f}' "
        f"height='18' fill='{COLORS['ink']}'/>"
        f"<text x='{LEFT}' y='347'>token: light a word, grey a cell of a grid</text>"
    )
