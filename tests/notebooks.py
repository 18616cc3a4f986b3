"""Small notebooks for the tests: made of cells, executed in a kernel of their own."""

from pathlib import Path

import nbformat
from kernels import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent

# Every kind of control that lib.interactive makes, each in a cell of its own.
CONTROLS = [
    """\
import matplotlib.pyplot as plt

from lib.interactive import figure_frame, table_frame
from lib.interactive import choice, frame_slider, live, live_slider""",
    """\
def climb(height):
    fig, ax = plt.subplots(figsize=(6.4, 3))
    ax.plot([0, 1], [0, height])
    return figure_frame(fig, f"a line that climbs to {height}")


heights = [1, 10, 100, 1000]
frames = [climb(height) for height in heights]
frame_slider(frames, 'where the "line" climbs, x < 1 & y > 0', heights, start=1)""",
    """\
near = {"king": "queen", "sun": "moon", "sea": "shore"}
caption = "Near to {}, among all the words that this text has ever used"
frames = [table_frame(caption.format(a), ["word"], [[b]]) for a, b in near.items()]
choice(frames, "prepared word", list(near))""",
    """\
def answer(word):
    if word not in near:
        raise KeyError(f"{word!r} is unknown: <b>{', '.join(near)}</b> are known")
    return table_frame(f"Near to {word}", ["word"], [[near[word]]])


live(answer, "any word", "king")""",
    """\
live_slider(lambda n: f"<p>{n} squared is {n * n}</p>", "number", [3, 4, 5])""",
]


def notebook_of(cells: list[str]) -> nbformat.NotebookNode:
    """Make a notebook of code cells under a title; the same one each time."""
    code = [
        nbformat.v4.new_code_cell(source, id=f"cell-{number}")
        for number, source in enumerate(cells)
    ]
    title = nbformat.v4.new_markdown_cell("# A page that moves", id="title")
    notebook = nbformat.v4.new_notebook(cells=[title, *code])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Execute a notebook in place, from the root of the repository."""
    resources = {"metadata": {"path": str(ROOT)}}
    client = NotebookClient(
        notebook,
        kernel_manager_class=AsyncKernelManager,
        timeout=120,
        record_timing=False,
        resources=resources,
    )
    return client.execute()
