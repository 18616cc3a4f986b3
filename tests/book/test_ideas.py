"""Each chapter's idea is a cell that is whole: it runs as copied, with torch alone.

Such a cell bears the tag `idea`. A later cell of the page holds it against the library
with an assert that uses a name the idea made.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "chapters").glob("*.ipynb"))
# Chapters about tools, or whose whole page is one experiment, have no one idea in code.
WITHOUT = {"03a_gensim", "14_length_extrapolation"}
ALLOWED = {"math", "torch"}
LINES = range(3, 16)


def code_of(path: Path) -> list[tuple[str, bool]]:
    """Return a page's code cells and whether each is an idea."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        ("".join(cell["source"]), "idea" in cell["metadata"].get("tags", []))
        for cell in cells
        if cell["cell_type"] == "code"
    ]


IDEAS = [
    pytest.param(path, number, id=f"{path.stem}-{number}")
    for path in PAGES
    for number, (_, idea) in enumerate(code_of(path))
    if idea
]


def imported(code: str) -> set[str]:
    """Return the packages that code imports.

    >>> sorted(imported("import math, torch.nn as nn"))
    ['math', 'torch']
    """
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or ".").split(".")[0])
    return names


def made(code: str) -> set[str]:
    """Return the names that code makes at its top level.

    >>> sorted(made("def f(x):\\n    y = x\\nz, w = 1, 2"))
    ['f', 'w', 'z']
    """
    names = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.For):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for t in targets for n in ast.walk(t) if hasattr(n, "id")}
    return names


def asserts_about(names: set[str], code: str) -> bool:
    """Say whether code has an assert that reads one of the names."""
    return any(
        names & {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Assert)
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_chapter_shows_its_idea(path):
    assert any(idea for _, idea in code_of(path)) or path.stem in WITHOUT


@pytest.mark.parametrize(("path", "number"), IDEAS)
def test_an_idea_is_short_and_held_against_the_library(path, number):
    cells = code_of(path)
    code, later = cells[number][0], [text for text, _ in cells[number + 1 :]]
    assert len(code.splitlines()) in LINES, f"{len(code.splitlines())} lines"
    assert imported(code) <= ALLOWED, imported(code)
    assert any(asserts_about(made(code), text) for text in later), (
        f"no later assert uses {', '.join(sorted(made(code)))}"
    )


@pytest.mark.slow
def test_every_idea_runs_alone(tmp_path):
    program = tmp_path / "ideas.py"
    ideas = {p.id: code_of(p.values[0])[p.values[1]][0] for p in IDEAS}
    program.write_text(
        f"for name, code in {ideas!r}.items():\n"
        "    try:\n"
        "        exec(compile(code, name, 'exec'), {'__name__': name})\n"
        "    except Exception as error:\n"
        "        raise SystemExit(f'{name}: {error!r}') from error\n",
        encoding="utf-8",
    )
    options = {"capture_output": True, "text": True, "cwd": tmp_path, "env": {}}
    run = subprocess.run([sys.executable, str(program)], check=False, **options)
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize(
    ("code", "fault"),
    [("import lib", {"lib"}), ("from numpy import array", {"numpy"})],
)
def test_an_idea_that_needs_more_than_torch_is_found(code, fault):
    assert imported(code) - ALLOWED == fault
