"""Execute notebooks in place, and store outputs that a second run does not change.

`python tools/execute.py chapters/01_ids_to_vectors.ipynb …`; without arguments, every
notebook of the book. A path may be given without its folder or ending.
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from kernels import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from widget_ids import renumber_widgets

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("chapters", "appendices")
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
# Run-time facts of one execution that say nothing about its result.
TRANSIENT = ("execution", "collapsed", "scrolled", "trusted")


def find_notebooks(names: list[str]) -> list[Path]:
    """Resolve the names given on the command line; none means all notebooks."""
    every = sorted(p for folder in FOLDERS for p in (ROOT / folder).glob("*.ipynb"))
    if not names:
        return every
    found = []
    for name in names:
        matches = [
            p for p in every if name in (p.stem, p.name) or Path(name).resolve() == p
        ]
        if not matches:
            known = ", ".join(p.stem for p in every)
            raise SystemExit(f"no notebook {name!r}; there are: {known}")
        found += matches
    return found


def normalise(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """Drop or number anew what changes from run to run without being a result."""
    notebook.metadata.kernelspec = dict(KERNEL)
    notebook.metadata.language_info = dict(LANGUAGE)
    for cell in notebook.cells:
        for key in TRANSIENT:
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
    return nbformat.from_dict(renumber_widgets(notebook, name))


def merge_streams(outputs: list) -> list:
    """Join neighbouring texts of one stream, wherever the kernel cut them."""
    merged = []
    for output in outputs:
        same = merged and output.output_type == "stream" == merged[-1].output_type
        if same and output.name == merged[-1].name:
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def execute(path: Path) -> float:
    """Execute one notebook, store it, and return the seconds that it took."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    start = time.perf_counter()
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        kernel_manager_class=AsyncKernelManager,
        timeout=600,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    nbformat.write(normalise(notebook, path.stem), path)
    return time.perf_counter() - start


def main(names: list[str]) -> None:
    os.environ.setdefault("PYTHONHASHSEED", "0")
    # On one thread sums are taken in one order, and pictures come out the same.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for path in find_notebooks(names):
        try:
            seconds = execute(path)
        except CellExecutionError as error:
            raise SystemExit(f"{path.relative_to(ROOT)} failed:\n{error}") from None
        print(f"{path.relative_to(ROOT)}  {seconds:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
