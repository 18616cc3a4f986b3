"""The shape of chapters and appendices, as the notebooks are stored."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
NOTEBOOKS = [*CHAPTERS, *sorted((ROOT / "appendices").glob("*.ipynb"))]
LINES, WORDS = 12, 150
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(home|root|Users|work|tmp|opt|mnt|usr)/\w")
NETWORK = re.compile(r"\b(requests|urllib|httpx|wget|curl|snapshot_download|hf_hub)\b")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)


def cells_of(path: Path, kind: str) -> list[dict]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def source(cell: dict) -> str:
    return "".join(cell["source"])


def prose(path: Path) -> str:
    return "\n\n".join(source(cell) for cell in cells_of(path, "markdown"))


def test_there_are_chapters():
    assert len(CHAPTERS) >= 2


@each_notebook
def test_outputs_are_stored_from_one_run_in_order(path):
    counts = [cell["execution_count"] for cell in cells_of(path, "code")]
    assert counts == list(range(1, len(counts) + 1))


@each_notebook
def test_no_error_and_no_warning_is_stored(path):
    for cell in cells_of(path, "code"):
        for output in cell["outputs"]:
            assert output["output_type"] != "error", source(cell)
            assert output.get("name") != "stderr", output["text"]


@each_notebook
def test_cells_are_short(path):
    for cell in cells_of(path, "code"):
        assert len(source(cell).splitlines()) <= LINES, source(cell)
        assert not source(cell).rstrip().endswith(";")


@each_notebook
def test_prose_between_cells_is_short(path):
    for cell in cells_of(path, "markdown"):
        behind_a_click = re.compile(r"^:::\{dropdown\}.*?^:::$", re.M | re.S)
        words = behind_a_click.sub("", source(cell)).split()
        assert len(words) <= WORDS, f"{len(words)} words: {source(cell)[:80]}"


@each_notebook
def test_no_path_of_a_machine_and_no_network(path):
    text = path.read_text(encoding="utf-8")
    assert not MACHINE_PATH.search(text), MACHINE_PATH.search(text)
    code = "\n".join(source(cell) for cell in cells_of(path, "code"))
    assert not NETWORK.search(code), NETWORK.search(code)


@each_notebook
def test_every_figure_has_a_caption_and_alt_text(path):
    for cell in cells_of(path, "code"):
        if not any("image/png" in output.get("data", {}) for output in cell["outputs"]):
            continue
        shown = cell["metadata"].get("mystnb", {})
        assert len(shown.get("figure", {}).get("caption", "").split()) >= 5, source(
            cell
        )
        assert shown["figure"]["name"].startswith("fig-")
        assert len(shown.get("image", {}).get("alt", "").split()) >= 8, source(cell)


@each_chapter
def test_the_sections_come_in_order(path):
    text = prose(path)
    wanted = [
        r"\A# \w",
        r"\{admonition\} What you will learn",
        r"^## A question to guess at",
        r"\{admonition\} Guess before you read on",
        r"^## The broken version",
        r"^## The fix",
        r"^## The picture|^## The check",
        r"^## The check|^## The picture",
        r"^## The same thing in (a )?real model",
        r"^## Limits",
        r"^## Exercises",
        r"^## Quiz",
        r"^## References and what comes next",
    ]
    places = {pattern: re.search(pattern, text, re.M) for pattern in wanted}
    assert [p for p, match in places.items() if match is None] == []
    starts = [
        match.start() for pattern, match in places.items() if "pict" not in pattern
    ]
    assert starts == sorted(starts)


@each_chapter
def test_a_cell_checks_and_says_what(path):
    checks = [source(c) for c in cells_of(path, "code") if "assert " in source(c)]
    assert len(checks) >= 3
    assert any("print(" in check for check in checks)


@each_chapter
def test_three_exercises_each_with_a_solution_behind_a_click(path):
    text = prose(path)
    exercises = re.findall(r"^:::\{exercise\}\n:label: (ex-[\w-]+)$", text, re.M)
    solutions = re.findall(
        r"^:::\{solution(?:-start)?\} (ex-[\w-]+)\n:class: dropdown$", text, re.M
    )
    assert len(exercises) >= 3
    assert solutions == exercises


@each_chapter
def test_three_quiz_questions_each_with_an_answer_behind_a_click(path):
    quiz = prose(path).split("\n## Quiz", 1)[1].split("\n## ", 1)[0]
    assert len(re.findall(r"^\*\*\d\.\*\* .*\?", quiz, re.M)) >= 3
    answers = re.findall(r"^:::\{dropdown\} Answer\n.+?^:::$", quiz, re.M | re.S)
    assert len(answers) == len(re.findall(r"^\*\*\d\.\*\*", quiz, re.M))


@each_chapter
def test_references_are_cited_and_the_next_step_named(path):
    last = prose(path).split("\n## References", 1)[1]
    assert re.search(r"\{cite(:t)?\}`", last)
    assert re.search(r"^\*\*Next:\*\* ", last, re.M)


@each_notebook
def test_words_that_belittle_the_reader_are_absent(path):
    found = re.findall(r"\b(simply|obviously|trivially|of course)\b", prose(path), re.I)
    assert found == []
