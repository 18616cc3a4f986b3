"""Each letter in a formula stands in appendix A, for the whole book or for its page."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "appendices" / "a_notation.md"
# The letters' own page, and pages that are made from others or hold no prose.
LEFT_OUT = {"a_notation", "e_changelog", "references"}
PAGES = {
    path.stem: path
    for folder in ("chapters", "appendices")
    for path in sorted((ROOT / folder).glob("*.*"))
    if path.suffix in (".ipynb", ".md") and path.stem not in LEFT_OUT
}
PAGES["intro"] = ROOT / "intro.md"

ROLE = re.compile(r"\{math\}`([^`]+)`|`{3}\{math\}(.*?)`{3}", re.S)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
MATH = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$([^$\n]+?)\$", re.S)
GREEK = (
    "alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|"
    "xi|rho|sigma|tau|upsilon|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|"
    "Sigma|Phi|Psi|Omega|ell"
)
WORDS = re.compile(
    r"\\(?:begin|end)\{\w+\}|\\(?:text|mathrm|operatorname\*?|mathbb|label)\s*\{[^{}]*\}"
)
SYMBOL = re.compile(
    r"\\(?P<bold>mathbf|boldsymbol)\s*(?:\{\s*)?(?P<letter>[A-Za-z])"
    r"|\\(?P<accent>tilde|hat)\s*\{?\s*"
    r"(?P<under>\\mathbf\s*\{?\s*[A-Za-z]|\\[a-z]+|[A-Za-z])"
    rf"|\\(?P<greek>{GREEK})(?![A-Za-z])"
    r"|\\[A-Za-z]+"
    r"|(?P<plain>[A-Za-z])"
)


def formulas(text: str) -> list[str]:
    """Return the formulas of a page's text, its code left out.

    >>> formulas("with $x$ and {math}`y`, but not `$HOME or $PATH`")
    ['x', 'y']
    """
    text = ROLE.sub(lambda found: f"$${found[1] or found[2]}$$", text)
    return [one or two for one, two in MATH.findall(CODE.sub(" ", text))]


def letters(formula: str) -> set[str]:
    r"""Return the letters of a formula, indices too; not words, numbers, functions.

    >>> sorted(letters(r"\mathbf{x}_t = \sum_{j} \tilde{b}_j \cos \omega'"))
    ['\\mathbf{x}', '\\omega', '\\tilde{b}', 'j', 't']
    """
    found = set()
    for match in SYMBOL.finditer(WORDS.sub(" ", formula)):
        if match["bold"]:
            found.add(rf"\mathbf{{{match['letter']}}}")
        elif match["accent"]:
            (under,) = letters(match["under"])
            found.add(rf"\{match['accent']}{{{under}}}")
        elif match["greek"]:
            found.add("\\" + match["greek"])
        elif match["plain"]:
            found.add(match["plain"])
    return found


def text_of(path: Path) -> str:
    """Return the prose of a page, and the captions of its figures."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    shown = [cell["metadata"].get("mystnb", {}).get("figure", {}) for cell in cells]
    parts = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
    return "\n\n".join(parts + [figure.get("caption", "") for figure in shown])


def used_on(path: Path) -> set[str]:
    """Return the letters of all formulas of a page."""
    return {
        letter for formula in formulas(text_of(path)) for letter in letters(formula)
    }


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of appendix A."""
    part = TABLE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    lines = [line for line in part.split("\n## ")[0].splitlines() if line[:2] == "| "]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines][
        1:
    ]


def named(cell: str) -> set[str]:
    """Return the letters that a cell of the appendix explains."""
    return {letter for formula in formulas(cell) for letter in letters(formula)}


BOOK = {
    letter for first, *_ in rows("Letters of the whole book") for letter in named(first)
}
OWN, OTHER = {}, {}
for page, own, other in rows("Letters of one page"):
    (stem,) = re.findall(r"\((?:.*/)?(\w+)\.\w+\)", page)
    OWN[stem], OTHER[stem] = named(own), named(other)


def faults(page: str, used: set[str]) -> list[str]:
    """Say what appendix A lacks for a page with these letters, or has too much."""
    own, other = OWN.get(page, set()), OTHER.get(page, set())
    told = [
        (
            "stands in no table of appendix A: tell it in the page's row",
            used - BOOK - own,
        ),
        ("stands in the page's row, but the page no longer uses it", own - used),
        ("is said to mean something else here, but is not used", other - used),
        ("means the same in the whole book: use the last column", own & BOOK),
    ]
    return [f"{page}: ${x}$ {fault}" for fault, found in told for x in sorted(found)]


@pytest.mark.parametrize("page", PAGES)
def test_each_letter_of_a_page_stands_in_the_appendix(page):
    assert faults(page, used_on(PAGES[page])) == []


def test_the_appendix_names_pages_that_exist():
    assert set(OWN) <= set(PAGES)


def test_each_letter_of_the_whole_book_is_used_as_it_says():
    used = {
        x
        for page, path in PAGES.items()
        for x in used_on(path) - OTHER.get(page, set())
    }
    assert sorted(BOOK - used) == []


@pytest.mark.parametrize(
    ("used", "fault"),
    [
        ({"Q"}, r"13_alibi: $Q$ stands in no table"),
        ({"\\theta"}, r"13_alibi: $\theta$ stands in no table"),
        (set(), r"13_alibi: $m$ stands in the page's row, but"),
        (set(), r"13_alibi: $d$ is said to mean something else here, but"),
    ],
)
def test_a_letter_that_is_not_told_or_no_longer_used_is_found(used, fault):
    page = used_on(PAGES["13_alibi"])
    changed = page | used if used else page - {"m", "d"}
    assert any(found.startswith(fault) for found in faults("13_alibi", changed))


@pytest.mark.parametrize(
    ("formula", "found"),
    [
        (r"\operatorname*{softmax}_{j \le i}\bigl(s_{ij}\bigr)", {"i", "j", "s"}),
        (
            r"\mathbf x \cdot \mathbf{y} = \bar u_f^2",
            {r"\mathbf{x}", r"\mathbf{y}", "u", "f"},
        ),
        (
            r"\tilde{\mathbf{w}}_j + \hat\lambda",
            {r"\tilde{\mathbf{w}}", "j", r"\hat{\lambda}"},
        ),
        (r"x_{\max} \in \mathbb{R}^{V} \text{ of words }", {"x", "V"}),
        (r"\begin{pmatrix} \cos m\omega & -1 \end{pmatrix}^\top", {"m", r"\omega"}),
        (r"e^{\mathrm{i}\alpha} \ln 2", {"e", r"\alpha"}),
    ],
)
def test_letters_are_told_from_words_and_functions(formula, found):
    assert letters(formula) == found
