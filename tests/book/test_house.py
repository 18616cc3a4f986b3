"""The house: what `lib` holds, who opens which door, and how long its functions are."""

import ast
import json
import re
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIB = ROOT / "lib"
ROOMS = {
    path.stem
    for path in LIB.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
} - {"__init__"}
FUNCTION = 25  # lines of a body, without its docstring


def name_of(path: Path) -> str:
    """Give the dotted name of a module's file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in LIB.rglob("*.py")}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> set[str]:
    """List the modules of `lib` that code imports, `from lib.rope import rotation` too.

    Of a name taken from a module the module counts, of a module its own name.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & set(MODULES)) or {node.module}
    return {name for name in found if name in MODULES and name != "lib"}


def users() -> dict[str, set[str]]:
    """What each file of the project imports from `lib`, notebooks and README too."""
    folders = ("lib", "benchmarks", "tools", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {
        path.relative_to(ROOT).as_posix(): imports(tree_of(path)) for path in files
    }
    for path in [*ROOT.glob("chapters/*.ipynb"), *ROOT.glob("appendices/*.ipynb")]:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [c["source"] for c in cells if c["cell_type"] == "code"]
        trees = [ast.parse("".join(lines)) for lines in code]
        found[path.relative_to(ROOT).as_posix()] = set().union(*map(imports, trees))
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        found[page] = set().union(*(imports(ast.parse(block)) for block in blocks))
    return found


def room_of_test(path: str) -> str | None:
    """Name the room of a test: rope_scaling for `tests/test_rope_scaling.py`."""
    name = Path(path).stem.removeprefix("test_")
    fitting = [room for room in ROOMS if name == room or name.startswith(f"{room}_")]
    return max(fitting, key=len, default=None)


def may_enter(path: str, room: str) -> bool:
    inside = path.startswith(f"lib/{room}/")
    return inside or (path.startswith("tests/") and room_of_test(path) == room)


def test_a_reader_who_opens_lib_sees_the_words_of_the_book():
    assert 20 <= len(ROOMS) <= 36
    assert {"rope", "alibi", "word2vec", "tied_head", "transformer"} <= ROOMS


def test_nobody_imports_a_helper_of_another_room():
    intruders = [
        (path, name)
        for path, names in users().items()
        for name in names
        if name.count(".") > 1 and not may_enter(path, name.split(".")[1])
    ]
    assert intruders == []


def test_no_import_goes_in_a_circle():
    graph = {name: imports(tree_of(path)) - {name} for name, path in MODULES.items()}
    rooms: dict[str, set[str]] = {}
    for name, used in graph.items():
        room = name.partition("lib.")[2].split(".")[0]
        rooms.setdefault(room, set()).update(u.split(".")[1] for u in used)
    for room, used in rooms.items():
        used.discard(room)
    order = list(TopologicalSorter(rooms).static_order())  # a CycleError names a circle
    assert order.index("checks") < order.index("transformer")
    tuple(TopologicalSorter(graph).static_order())


def test_importing_lib_needs_its_dependencies_alone():
    """The one exception reads the packaged model, with that file's two readers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["project"]["dependencies"]
    allowed = {re.match(r"[\w-]+", line)[0] for line in declared}
    allowed |= {*sys.stdlib_module_names, "lib"}
    needed = {
        name: {module.partition(".")[0] for module in at_import(tree_of(path))}
        for name, path in MODULES.items()
    }
    strangers = {name: found - allowed for name, found in needed.items()}
    strangers = {name: found for name, found in strangers.items() if found}
    assert strangers == {"lib.smollm": {"gguf", "tokenizers"}}


def at_import(tree: ast.Module) -> set[str]:
    """Name what is imported as the module is, so not inside functions or an if."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


@pytest.mark.parametrize("room", sorted(r for r in ROOMS if (LIB / r).is_dir()))
def test_a_package_names_what_it_offers(room):
    tree = tree_of(LIB / room / "__init__.py")
    imported = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    listed = [n for n in tree.body if isinstance(n, ast.Assign)]
    assert [target.id for n in listed for target in n.targets] == ["__all__"]
    assert imported == set(ast.literal_eval(listed[0].value))


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_room_has_a_test_file(room):
    assert list((ROOT / "tests").rglob(f"test_{room}.py"))


def test_the_map_shows_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| [^|]* \| ([^|]*) \|", text, re.M)
    assert set(re.findall(r"`(\w+)`", " ".join(shown))) == ROOMS


def lines_of_code(node: ast.FunctionDef) -> int:
    body = node.body[ast.get_docstring(node) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_functions_are_short():
    lengths = {
        f"{name}.{node.name}": lines_of_code(node)
        for name, path in MODULES.items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: n for name, n in lengths.items() if n > FUNCTION} == {}
