"""`tools/execute.py`: what is stored does not change from run to run."""

import execute as module
import nbformat
import pytest
from notebooks import CONTROLS, notebook_of

CELLS = [
    "import sys, torch\nprint('one')\nprint('two')\nsys.stdout.flush()\nprint('three')",
    "torch.manual_seed(0)\ntorch.rand(3)",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "chapters").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path / "chapters"


def store(cells, path):
    notebook = notebook_of(cells)
    notebook.cells[1].metadata["execution"] = {"iopub.status.busy": "2026-01-01"}
    notebook.cells[1].metadata["tags"] = ["hide-input"]
    nbformat.write(notebook, path)


def test_a_second_run_changes_no_byte(folder):
    path = folder / "01_a.ipynb"
    store(CELLS + CONTROLS, path)
    module.main([])
    first = path.read_bytes()
    module.main(["01_a"])
    assert path.read_bytes() == first


def test_what_is_stored_is_the_result_and_nothing_of_the_run(folder):
    path = folder / "01_a.ipynb"
    store(CELLS, path)
    module.main([str(path)])
    stored = nbformat.read(path, as_version=4)
    first, second = stored.cells[1:]
    assert first.metadata == {"tags": ["hide-input"]}
    assert [o.text for o in first.outputs] == ["one\ntwo\nthree\n"]
    assert (first.execution_count, second.execution_count) == (1, 2)
    assert stored.metadata.kernelspec.name == "python3"
    assert "version" not in stored.metadata.language_info


def test_an_error_is_reported_with_the_notebook_and_the_cell(folder):
    path = folder / "01_a.ipynb"
    store([*CELLS, "1 / 0"], path)
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"(?s)01_a.ipynb failed.*1 / 0"):
        module.main([])
    assert path.read_bytes() == before


def test_an_unknown_notebook_lists_the_known(folder):
    store(CELLS, folder / "01_a.ipynb")
    with pytest.raises(SystemExit, match="no notebook '02_b'; there are: 01_a"):
        module.main(["02_b"])
