"""The book's logo, favicon, link preview and first picture, as SVG and PNG."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from poster import draw_poster

INK, PAPER = "#1f2933", "#fdfcf9"
BLUE, ORANGE = "#0072b2", "#d55e00"
ROWS, COLUMNS, LIT = 5, 4, 2
# Four shades a row, so that the grid reads as a table of numbers.
SHADES = (0.35, 0.75, 0.5, 0.95, 0.6, 0.4, 0.85, 0.45, 0.7)


def cells() -> list[tuple[float, float, str, float]]:
    """List the logo's cells: x, y, colour, opacity. One row has been looked up."""
    table = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            shade = SHADES[(row * COLUMNS + column) % len(SHADES)]
            lit = row == LIT
            table.append(
                (
                    column + lit,
                    row,
                    ORANGE if lit else BLUE,
                    1 - (not lit) * (1 - shade),
                )
            )
    return table


def logo_svg() -> str:
    """Draw the mark: an embedding table with one row pulled out."""
    squares = "\n".join(
        f'  <rect x="{10 * x + 5:g}" y="{10 * y + 5:g}" width="8.4" height="8.4" '
        f'rx="1.8" fill="{colour}" fill-opacity="{opacity:.2f}"/>'
        for x, y, colour, opacity in cells()
    )
    title = "<title>An embedding table with one row looked up</title>"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 60" role="img">\n'
        f"  {title}\n{squares}\n</svg>\n"
    )


def preview_png(path: Path) -> None:
    """Draw the 1200 x 630 picture that a shared link shows."""
    figure = Figure(figsize=(12, 6.3), dpi=100, facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 12), ylim=(6.3, 0))
    axes.axis("off")
    for x, y, colour, opacity in cells():
        box = FancyBboxPatch(
            (0.9 + 0.72 * x, 1.35 + 0.72 * y),
            0.6,
            0.6,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=colour,
            alpha=opacity,
            linewidth=0,
        )
        axes.add_patch(box)
    text = {"color": INK, "fontfamily": "DejaVu Serif", "va": "center"}
    axes.text(5.3, 2.45, "Embeddings &", fontsize=44, weight="bold", **text)
    axes.text(5.3, 3.2, "Representations", fontsize=44, weight="bold", **text)
    axes.text(5.3, 4.2, "How a language model turns", fontsize=23, **text)
    axes.text(5.3, 4.65, "token ids into vectors, and back", fontsize=23, **text)
    figure.savefig(path, metadata={"Software": None})


def draw_all(folder: Path) -> None:
    """Write every drawing into `folder`."""
    matplotlib.use("agg")
    matplotlib.rcdefaults()  # a reader's own settings stay out of it
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "logo.svg").write_text(logo_svg(), encoding="utf-8")
    preview_png(folder / "preview.png")
    draw_poster(folder / "poster.png")
