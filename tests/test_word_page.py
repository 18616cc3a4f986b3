"""`lib.word_page`: what it packs, what it refuses, and what stands in its files."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import lib.word_page
from lib.geometry import unit_rows
from lib.glove import load_glove_6b
from lib.word_page import EXAMPLES, analogy_machine, pack_rows, write_page

FOLDER = Path(lib.word_page.__file__).parent
NASTY = [
    "</script>",
    "<!--",
    '"',
    "'",
    "&amp;",
    "$table",
    "",
    " ",
    "\n",
    "\ud800",
    "שלום",
]


def table_in(html: str) -> dict:
    """Read the table that a page holds, as its program does."""
    (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html)
    table = json.loads(text)
    words = base64.b64decode(table["words"]).decode("utf-8", "surrogatepass")
    rows = np.frombuffer(base64.b64decode(table["rows"]), np.int8)
    table["rows"] = torch.tensor(rows).view(-1, table["width"])
    return {**table, "words": json.loads(words)}


def test_rounding_moves_no_entry_by_more_than_half_a_step():
    x = torch.randn(200, 9, generator=torch.Generator().manual_seed(0))
    x[0] *= 1e30
    x[1] *= 1e-30
    packed = pack_rows(x)
    assert packed.dtype == torch.int8
    assert (packed.abs().amax(1) == 127).all()
    peak = x.double().abs().amax(1, keepdim=True)
    assert (packed / 127 - x.double() / peak).abs().max() <= 0.5 / 127 + 1e-12


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_of_any_floating_type_are_packed(dtype):
    x = torch.tensor([[1.0, -0.5], [0.0, 0.0]], dtype=dtype)
    assert pack_rows(x).tolist() == [[127, -64], [0, 0]]


def test_eight_bits_keep_nearly_all_neighbours():
    """The share is that of GloVe's 2,000 most frequent words, all pairs of them."""
    _, vectors = load_glove_6b(limit=2000)
    nearest = []
    for table in (vectors.double(), pack_rows(vectors).double()):
        cosines = unit_rows(table) @ unit_rows(table).T
        nearest.append(cosines.fill_diagonal_(-1).argmax(1))
    assert (nearest[0] != nearest[1]).double().mean() < 0.03
    exact, packed = (unit_rows(t.double()) for t in (vectors, pack_rows(vectors)))
    assert (exact @ exact.T - packed @ packed.T).abs().max() < 0.012


def test_a_page_holds_the_words_and_rows_that_it_was_given():
    words = [*NASTY, *EXAMPLES[0]]
    vectors = torch.randn(len(words), 5, generator=torch.Generator().manual_seed(0))
    table = table_in(analogy_machine(words, vectors).data)
    assert table["words"] == words
    assert torch.equal(table["rows"], pack_rows(vectors))
    assert table["examples"] == [[len(NASTY) + n for n in range(4)]]


def test_no_word_and_no_title_becomes_markup(tmp_path):
    tags = []
    for words in (["plain", "words"], ["</script><b>", "<!--<script>"]):
        page = write_page(tmp_path / "page.html", words, torch.eye(2), title=words[0])
        html = page.read_text(encoding="utf-8")
        tags.append(re.findall(r"<[^<>\s]+", html))
    assert tags[0] == tags[1]


def test_two_runs_store_the_same_text():
    words, vectors = load_glove_6b(limit=50)
    assert analogy_machine(words, vectors).data == analogy_machine(words, vectors).data


def test_4800_words_take_less_than_400_kb():
    words, vectors = load_glove_6b(limit=4800)
    html = analogy_machine(words, vectors).data
    (text,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html)
    assert 300_000 < len(text.encode()) < 400_000
    assert len(html.encode()) - len(text.encode()) < 60_000


def test_a_limit_keeps_the_first_words(tmp_path):
    vectors = torch.eye(3)
    vectors[2] = torch.nan  # beyond the limit nothing is read
    page = write_page(tmp_path / "a.html", ["a", "b", "c"], vectors, limit=2)
    assert table_in(page.read_text(encoding="utf-8"))["words"] == ["a", "b"]
    page = write_page(tmp_path / "a.html", ["a", "b"], torch.eye(2), limit=None)
    assert table_in(page.read_text(encoding="utf-8"))["words"] == ["a", "b"]


def test_arrays_that_cannot_be_written_to_are_taken_too(tmp_path):
    array = np.eye(2, dtype=np.float32)
    array.flags.writeable = False
    page = write_page(str(tmp_path / "a.html"), ("a", "b"), array)
    assert table_in(page.read_text(encoding="utf-8"))["rows"].tolist() == [
        [127, 0],
        [0, 127],
    ]


@pytest.mark.parametrize(
    ("words", "vectors", "error", "message"),
    [
        ([], torch.zeros(0, 2), ValueError, "words must be at least 1, got 0"),
        (["a"], torch.zeros(1, 0), ValueError, "width .* at least 1, got 0"),
        (["a", "b"], torch.ones(3, 2), ValueError, "2 words for 3 vectors"),
        (["a", "b", "a"], torch.ones(3, 2), ValueError, "'a' has rows 0 and 2"),
        (["a"], torch.tensor([[1.0, torch.nan]]), ValueError, "row 0 holds nan"),
        (["a"], torch.tensor([[torch.inf, 1.0]]), ValueError, "row 0 holds inf"),
        (["a"], torch.ones(1), ValueError, r"\[V, d\], got \[1\]"),
        (["a"], torch.tensor(1.0), ValueError, "1 words for 0 vectors"),
        (["a"], torch.ones(1, 2).long(), TypeError, "floating point"),
        (["a", 3], torch.ones(2, 2), TypeError, "row 1 is 3"),
        ("ab", torch.ones(2, 2), TypeError, "got one str"),
    ],
)
def test_bad_tables_are_refused_and_nothing_is_written(
    tmp_path, words, vectors, error, message
):
    with pytest.raises(error, match=message):
        write_page(tmp_path / "page.html", words, vectors)
    with pytest.raises(error, match=message):
        analogy_machine(words, vectors)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", [("a", "b", "a"), ("a", "b") * 3, "abab"])
def test_an_example_of_other_than_four_words_is_named(tmp_path, example):
    message = re.escape(f"4 words, got {example!r}")
    with pytest.raises(ValueError, match=message):
        analogy_machine(["a", "b"], torch.eye(2), [example])
    page = tmp_path / "page.html"
    with pytest.raises(ValueError, match=message):
        write_page(page, ["a", "b"], torch.eye(2), examples=[example])
    assert list(tmp_path.iterdir()) == []


def test_rows_of_no_width_are_refused():
    with pytest.raises(ValueError, match="width of the vectors must be at least 1"):
        pack_rows(torch.zeros(2, 0))
    assert pack_rows(torch.zeros(0, 2)).shape == (0, 2)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_no_words_is_refused(tmp_path, limit):
    with pytest.raises(ValueError, match=f"limit must be at least 1, got {limit}"):
        write_page(tmp_path / "page.html", ["a"], torch.eye(1), limit=limit)


def test_a_page_names_no_other_place(tmp_path):
    page = write_page(tmp_path / "page.html", ["a"], torch.eye(1))
    html = page.read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\"'\s)]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not asked
    assert "default-src 'none'" in html
    assert not re.search(r"@import|url\(|<link(?! rel=\"icon\" href=\"data:)", html)


def test_the_program_can_stand_in_a_page():
    program = (FOLDER / "machine.js").read_text(encoding="utf-8")
    assert "</script" not in program
    assert "innerHTML" not in program
    assert max(map(len, program.splitlines())) <= 90


def colours(css: str, theme: str) -> dict[str, str]:
    block = re.search(rf'html\[data-theme="{theme}"\] {{(.*?)}}', css, re.S)[1]
    return dict(re.findall(r"(--pst-color-[\w-]+): (#\w+);", block))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_of_its_own_has_the_book_s_colours(theme):
    book = (FOLDER.parents[1] / "assets/book.css").read_text(encoding="utf-8")
    own = colours((FOLDER / "page.css").read_text(encoding="utf-8"), theme)
    assert len(own) == 8
    assert own.items() <= colours(book, theme).items()
