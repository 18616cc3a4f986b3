"""The machine of `lib.word_page` in Chromium, beside `lib.geometry`: same answers."""

import pytest
import torch
from browser import axe_violations, watched_page

from lib.corpus import load_questions_words
from lib.geometry import (
    analogy,
    analogy_ranks,
    mean_cosine,
    most_similar,
    pca,
    unit_rows,
)
from lib.glove import load_glove_6b
from lib.word_page import analogy_machine, pack_rows, write_page

ASK = """([questions, kept]) => {
  const one = (selector) => document.querySelector(selector);
  one(`.wm-inputs [value=${kept ? "kept" : "out"}]`).click();
  const cells = (row, selector) => [...row.querySelectorAll(selector)];
  return questions.map((question) => {
    ["a", "b", "c", "expected"].forEach((name, n) => {
      one(`[data-field=${name}] input`).value = question[n];
    });
    one("form[data-mode=analogy]").requestSubmit();
    const rows = cells(document, ".wm-results tbody tr");
    return {
      heads: cells(document, ".wm-results thead th").map((head) => head.textContent),
      words: rows.map((row) => cells(row, "td").map((td) => td.firstChild.textContent)),
      cosines: rows.map((row) => cells(row, ".wm-cosine").map((c) => c.textContent)),
      ranks: cells(document, ".wm-results tfoot td").map((td) => td.textContent),
    };
  });
}"""


@pytest.fixture(scope="module")
def glove():
    """Words, index and vectors: the frequent ones, and those of the questions."""
    words, vectors = load_glove_6b(limit=30_000)
    index = {word: row for row, word in enumerate(words)}
    asked = [w for part in load_questions_words().values() for q in part for w in q]
    rows = sorted(set(range(4000)) | {index[word] for word in asked if word in index})
    words, vectors = [words[row] for row in rows], vectors[rows]
    return words, {word: row for row, word in enumerate(words)}, vectors


@pytest.fixture(scope="module")
def address(glove, tmp_path_factory):
    words, _, vectors = glove
    path = tmp_path_factory.mktemp("page") / "words.html"
    return write_page(path, words, vectors, title="Words").as_uri()


@pytest.fixture(scope="module")
def tab(browser):
    with watched_page(browser) as watched:
        watched.page.set_default_timeout(5000)
        yield watched


@pytest.fixture
def page(tab, address):
    tab.forget()
    tab.page.goto(address)
    yield tab.page
    assert tab.errors == []
    assert tab.foreign == []


def turn_to(page, mode):
    page.get_by_role("radio", name=mode).check()


def answer(page):
    return page.get_by_role("status").inner_text()


def number(text):
    return float(text.replace("−", "-"))


@pytest.fixture(scope="module")
def questions(glove):
    """Four questions of each section of the public test, evenly spaced."""
    _, index, _ = glove
    chosen = []
    for part in load_questions_words().values():
        known = [q for q in part if all(word in index for word in q)]
        chosen += known[:: len(known) // 4][:4]
    assert len(chosen) == 14 * 4
    return chosen


def first_eight(found):
    """Order equals by row: b and c have one cosine with b + c, but for its bits."""
    return sorted(found, key=lambda pair: (-round(pair[1], 12), pair[0]))[:8]


@pytest.mark.parametrize("kept", [False, True])
def test_the_page_answers_as_the_library_does(page, glove, questions, kept):
    words, index, vectors = glove
    packed = pack_rows(vectors).double()
    units = unit_rows(packed)
    shown = page.evaluate(ASK, [questions, kept])
    rows = torch.tensor([[index[word] for word in q] for q in questions])
    ranks = analogy_ranks(packed, rows, exclude_inputs=not kept)
    for (a, b, c, d), seen, rank in zip(rows.tolist(), shown, ranks, strict=True):
        out = () if kept else (a, b, c)
        columns = [
            first_eight(analogy(packed, a, b, c, 9, exclude_inputs=not kept)),
            first_eight(most_similar(packed, c, 9, out)),
            first_eight(most_similar(packed, units[b] + units[c], 9, out)),
        ]
        table = [[words[row] for row, _ in line] for line in zip(*columns, strict=True)]
        assert seen["words"] == table
        found = [cosine for line in zip(*columns, strict=True) for _, cosine in line]
        read = [number(text) for line in seen["cosines"] for text in line]
        assert read == pytest.approx(found, abs=0.00501)
        assert seen["heads"][1] == f"{words[b]} − {words[a]} + {words[c]}"
        assert seen["ranks"][1] == f"{words[d]} at rank {rank:,}"


def test_eight_bits_change_few_first_answers(glove, questions):
    _, index, vectors = glove
    rows = torch.tensor([[index[word] for word in q] for q in questions])
    firsts = [
        [analogy(table, a, b, c, 1)[0][0] for a, b, c, _ in rows.tolist()]
        for table in (vectors, pack_rows(vectors).float())
    ]
    assert sum(x != y for x, y in zip(*firsts, strict=True)) <= 3


def test_an_expected_word_that_went_in_is_left_out(page):
    seen = page.evaluate(ASK, [[["man", "woman", "king", "king"]], False])
    assert seen[0]["ranks"][1:] == ["king left out"] * 3
    seen = page.evaluate(ASK, [[["man", "woman", "king", "king"]], True])
    assert seen[0]["ranks"][1] == "king at rank 1"
    assert seen[0]["words"][0][1] == "king"


def test_neighbours_and_the_mean_cosine(page, glove):
    words, index, vectors = glove
    packed = pack_rows(vectors).double()
    turn_to(page, "neighbours")
    for word in ("queen", "running", "three"):
        page.get_by_label("neighbours of", exact=True).fill(word)
        page.get_by_label("neighbours of", exact=True).press("Enter")
        near = most_similar(packed, index[word], 10, exclude=[index[word]])
        found = page.locator(".wm-results .wm-go").all_inner_texts()
        assert found == [words[row] for row, _ in near]
        cosines = page.locator(".wm-results .wm-bar").all_inner_texts()
        assert list(map(number, cosines)) == pytest.approx(
            [cosine for _, cosine in near], abs=0.00501
        )
    average = page.locator(".wm-note").inner_text().split("cosine of ")[1].split()[0]
    assert number(average) == pytest.approx(mean_cosine(packed), abs=0.00501)


def test_a_neighbour_leads_to_its_own(page):
    turn_to(page, "neighbours")
    first = page.locator(".wm-go").first
    word = first.inner_text()
    first.click()
    assert answer(page).startswith(f"Nearest to {word}:")
    assert page.evaluate("document.activeElement.value") == word


def test_the_map_is_the_plane_of_largest_variance(page, glove):
    _, index, vectors = glove
    chosen = ["france", "germany", "italy", "paris", "berlin", "rome", "three", "four"]
    turn_to(page, "a map")
    page.get_by_label("neighbours of each").select_option("0")
    page.get_by_label("words, with commas between").fill(", ".join(chosen))
    page.get_by_role("button", name="Draw").click()
    page.locator(".wm-map summary").click()
    lines = page.locator(".wm-map tbody tr").all_inner_texts()
    names, *places = zip(*(line.split("\t") for line in lines), strict=True)
    units = unit_rows(pack_rows(vectors[[index[word] for word in chosen]]).double())
    points, share = pca(units)
    assert list(names) == chosen
    seen = torch.tensor([[number(x) for x in axis] for axis in places])
    assert torch.allclose(seen.T, points.float(), atol=6e-4)
    assert f"shows {share.sum():.0%}".replace("%", " %") in page.inner_text(
        "figcaption"
    )
    assert page.locator(".wm-plot text").all_text_contents() == chosen
    dots = [
        [float(dot.get_attribute(name)) for name in ("cx", "cy")]
        for dot in page.locator(".wm-plot circle").all()
    ]
    scale = torch.tensor(dots)[:, None] - torch.tensor(dots)[None]
    true = (points[:, None] - points[None]) * torch.tensor([1, -1])
    ratio = (scale.norm(dim=-1) / true.norm(dim=-1))[~torch.eye(8).bool()]
    assert ratio.max() / ratio.min() < 1.001  # one scale both ways


def test_by_keyboard_alone(page):
    """Tab through all of it, choose a completion, change the inputs, ask."""
    page.get_by_label("a", exact=True).focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("franc")
    field = page.get_by_role("combobox", name="a", exact=True)
    assert field.get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    active = field.get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").inner_text() == "france"
    page.keyboard.press("Enter")
    assert field.input_value() == "france"
    assert field.get_attribute("aria-expanded") == "false"
    for word in ("paris", "japan", "tokyo"):
        page.keyboard.press("Tab")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(word)
    page.keyboard.press("Enter")
    assert answer(page).startswith("Nearest to paris − france + japan: tokyo")
    page.keyboard.press("Tab")  # to the inputs
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="kept").is_checked()
    assert "inputs are kept" in page.inner_text(".wm-results caption")
    stops = []
    for _ in range(4):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.tagName"))
    assert stops == ["BUTTON", "SUMMARY", "BODY", "INPUT"]  # out, and in from the top
    page.keyboard.press("ArrowRight")
    assert answer(page).startswith("Nearest to")
    assert page.get_by_label("neighbours of", exact=True).is_visible()


def test_completion_closes_and_goes_round(page):
    field = page.get_by_label("a", exact=True)
    field.fill("franc")
    options = page.get_by_role("listbox").get_by_role("option")
    assert options.all_inner_texts()[0] == "france"
    field.press("ArrowUp")
    assert options.last.get_attribute("aria-selected") == "true"
    field.press("ArrowDown")
    assert options.first.get_attribute("aria-selected") == "true"
    field.press("Escape")
    assert options.count() == 0
    assert field.input_value() == "franc"
    field.fill("kin")
    options.get_by_text("king", exact=True).click()
    assert field.input_value() == "king"
    assert "king" in answer(page)
    field.fill("paris")
    field.press("Tab")
    assert options.count() == 0


def test_a_list_of_words_is_completed_at_its_end(page):
    turn_to(page, "a map")
    field = page.get_by_label("words, with commas between")
    field.fill("man, franc")
    field.press("ArrowDown")
    field.press("Enter")
    assert field.input_value() == "man, france"
    field.press("Enter")
    assert answer(page).startswith("A map of")


def test_an_unknown_word_gets_spellings_that_answer(page):
    field = page.get_by_label("is to b", exact=True)
    field.fill("qeen")
    field.press("Enter")
    alert = page.get_by_role("alert")
    assert "qeen is not among the" in alert.inner_text()
    assert field.get_attribute("aria-invalid") == "true"
    assert field.get_attribute("aria-describedby") == alert.get_attribute("id")
    assert page.locator(".wm-results table").count() == 0
    alert.get_by_role("button", name="queen", exact=True).click()
    assert field.input_value() == "queen"
    assert field.get_attribute("aria-invalid") is None
    assert alert.inner_text() == ""
    assert "queen − man + king" in answer(page)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Please type a word for “is to b”"),
        ("   ", "Please type a word for “is to b”"),
        ("zzzzqqqq", "zzzzqqqq is not among the"),
        ("<b>x</b>", "<b>x</b> is not among the"),
        ("toString", "toString is not among the"),
    ],
)
def test_bad_words_are_answered_in_words(page, text, message):
    field = page.get_by_label("is to b", exact=True)
    field.fill(text)
    field.press("Enter")
    assert message in page.get_by_role("alert").inner_text()
    field.fill(" Queen ")
    field.press("Enter")
    assert "queen − man + king" in answer(page)


def test_a_list_names_its_unknown_word(page):
    turn_to(page, "a map")
    field = page.get_by_label("words, with commas between")
    field.fill(" , ,")
    field.press("Enter")
    assert "type the words of the map" in page.get_by_role("alert").inner_text()
    field.fill("king, qeen, man")
    field.press("Enter")
    alert = page.get_by_role("alert")
    assert "qeen is not among" in alert.inner_text()
    alert.get_by_role("button", name="queen", exact=True).click()
    assert field.input_value() == "king, queen, man"
    assert answer(page).startswith("A map of")


def test_a_word_of_a_list_may_hold_commas(page, glove):
    assert "1,000" in glove[1]
    turn_to(page, "a map")
    page.get_by_label("neighbours of each").select_option("0")
    field = page.get_by_label("words, with commas between")
    for text in ("king, 1,000, man", ",1,000,king,,man,"):
        field.fill(text)
        field.press("Enter")
        names = page.locator(".wm-plot text").all_text_contents()
        assert sorted(names) == ["1,000", "king", "man"]
    field.fill("1,0001, king")
    field.press("Enter")
    assert "0001 is not among" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("look", [{"dark": True}, {"width": 360, "height": 740}])
def test_axe_finds_nothing_and_nothing_sticks_out(browser, address, look):
    with watched_page(browser, **look) as watched:
        page = watched.page
        page.goto(address)
        theme = page.evaluate("document.documentElement.dataset.theme")
        assert theme == ("dark" if look.get("dark") else "light")
        narrow_enough = "document.documentElement.scrollWidth <= innerWidth"
        page.get_by_label("is to b", exact=True).fill("commu")  # a list of long words
        assert page.get_by_role("listbox").is_visible()
        assert axe_violations(page) == []
        assert page.evaluate(narrow_enough)
        turn_to(page, "neighbours")
        assert page.locator(".wm-go").count() == 10
        assert axe_violations(page) == []
        assert page.evaluate(narrow_enough)
        turn_to(page, "a map")
        assert page.evaluate(narrow_enough)
        page.get_by_label("words, with commas between").fill("qeen")
        page.get_by_role("button", name="Draw").click()
        assert page.get_by_role("alert").get_by_role("button").count() == 3
        assert axe_violations(page) == []
        assert watched.errors == []
        assert watched.foreign == []


def test_two_machines_share_a_page(browser):
    one = analogy_machine(["one", "two"], torch.eye(2)).data
    two = analogy_machine(["red", "blue"], torch.eye(2)).data
    head = '<!doctype html><html lang="en"><title>Two</title><main><h1>Two</h1>'
    with watched_page(browser) as watched:
        page = watched.page
        page.set_content(f"{head}{one}{two}</main></html>")
        assert page.locator("[id]").count() == len(
            set(page.locator("[id]").evaluate_all("all => all.map((one) => one.id)"))
        )
        turn_to(page.locator(".word-machine").last, "a map")
        answers = page.get_by_role("status").all_inner_texts()
        assert answers[0].startswith("Nearest to two: one")
        assert answers[1].startswith("A map of 2 words")
        assert axe_violations(page) == []
        assert watched.errors == []


NASTY = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"]
NASTY += ['"quoted"', "it's", "a&b", "שלום", "👩‍🚀", "new york", "zero", "__proto__"]


def test_words_of_any_kind_are_shown_as_they_are(browser, tmp_path):
    vectors = torch.randn(len(NASTY), 3, generator=torch.Generator().manual_seed(0))
    vectors[NASTY.index("zero")] = 0
    path = write_page(tmp_path / "a.html", NASTY, vectors, title="<i>&</i>")
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(path.as_uri())
        assert page.title() == "<i>&</i>"
        page.set_default_timeout(5000)
        field = page.get_by_label("neighbours of", exact=True)
        for word in NASTY:
            field.fill(word)
            field.press("Enter")
            shown = page.locator(".wm-go").all_inner_texts()
            assert sorted([word, *shown]) == sorted(NASTY)
            assert page.locator(".wm-plot text").count() == len(NASTY)
        field.fill("zero")
        field.press("Enter")
        assert "a row of zeros" in answer(page)
        assert set(page.locator(".wm-bar").all_inner_texts()) == {"0.00"}
        assert watched.errors == []


@pytest.mark.parametrize("size", [1, 2])
def test_tables_of_one_word_and_of_two(browser, tmp_path, size):
    path = write_page(tmp_path / "a.html", ["one", "two"][:size], torch.eye(2)[:size])
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(path.as_uri())
        wanted = ["There is no word beside two", "There is no word beside one"]
        assert wanted[1] in answer(page) if size == 1 else "one (0.00)" in answer(page)
        turn_to(page, "a map")
        assert page.locator(".wm-plot text").count() == size
        assert watched.errors == []
