"""The dials of RoPE: what they say is what `lib.rope` turns, here and in Chromium."""

import math

import pytest
import torch
from browser import axe_violations, serve, watched_page
from bs4 import BeautifulSoup

from lib.interactive import live_dials
from lib.interactive.dials import PAIRS, PLACES, read_dials, say_dials
from lib.rope import apply_rope, rope_cos_sin, rope_inv_freq
from lib.rope_scaling import unseen_angles

DRAWN = [0.3, 2.0, -2.2, 1.0, 2.8, -0.7]
CONTENTS = {"equal": 0, "<tuned>": 20, "drawn": DRAWN}
MENUS = {"bases": [100, 10_000, 500_000], "trained": [16, 64]}
STATES = [  # content, base, trained, key, query
    (0, 100, 16, 4, 7),
    (20, 10_000, 64, 0, 99),
    (DRAWN, 500_000, 16, 99, 0),
    (DRAWN, 100, 2, 37, 37),
    (0, 10_000, 16, 10, 25),  # the last distance that training saw
    (0, 10_000, 16, 10, 26),
]


def pairs_at(starts, base, place):
    """Six pairs of length 1, turned by the library, as complex numbers."""
    x = torch.polar(torch.ones(PAIRS), torch.tensor(starts))
    x = torch.view_as_real(x).reshape(1, -1)
    tables = rope_cos_sin(torch.tensor([place]), rope_inv_freq(2 * PAIRS, base))
    turned = apply_rope(x, *tables, "interleaved")
    return torch.view_as_complex(turned.view(PAIRS, 2))


def starts_of(content, base):
    if not isinstance(content, int):
        return content
    return [-content * speed for speed in rope_inv_freq(2 * PAIRS, base).tolist()]


@pytest.mark.parametrize("state", STATES)
def test_hands_and_score_are_those_of_the_library(state):
    content, base, _, key, query = state
    found = read_dials(*state)
    keys = pairs_at([0.0] * PAIRS, base, key)
    queries = pairs_at(starts_of(content, base), base, query)
    assert found["score"] == pytest.approx((queries * keys.conj()).real.sum().item())
    for name, hands in (("key", keys), ("query", queries)):
        for dial, hand in zip(found["dials"], hands, strict=True):
            shown = complex(math.cos(r := math.radians(dial[name])), math.sin(r))
            assert abs(shown - hand.item()) < 1e-4


@pytest.mark.parametrize(("base", "trained"), [(100, 16), (10_000, 64), (500_000, 2)])
def test_unseen_arcs_are_the_rest_of_what_training_met(base, trained):
    speeds = rope_inv_freq(2 * PAIRS, base)
    dials = read_dials(0, base, trained, 0, PLACES - 1)["dials"]
    shares = unseen_angles(speeds, speeds, PLACES - 1, trained - 1)
    for dial, speed, share in zip(dials, speeds.tolist(), shares, strict=True):
        met = min(2 * math.pi, speed * (trained - 1))
        assert dial["unseen"] == pytest.approx(360 - math.degrees(met))
        if speed * (PLACES - 1) < 2 * math.pi:  # within its first turn
            assert dial["new"] == (share.item() > 0)


def test_moving_both_changes_no_score_and_no_angle_between():
    near, far = read_dials(0, 100, 16, 4, 7), read_dials(0, 100, 16, 54, 57)
    assert near["score"] == far["score"]
    for one, other in zip(near["dials"], far["dials"], strict=True):
        assert one["query"] - one["key"] == pytest.approx(other["query"] - other["key"])
        assert one["new"] == other["new"]


def test_a_tuned_query_scores_most_at_its_distance():
    scores = read_dials(20, 100, 16, 0, 0)["scores"]
    assert scores.index(max(scores)) - (PLACES - 1) == 20
    assert max(scores) == pytest.approx(PAIRS)


def test_the_first_state_stands_there_without_a_script():
    page = BeautifulSoup(live_dials(CONTENTS, **MENUS, key=4, query=7), "html.parser")
    said = page.select_one("[role=status]").text
    assert said == "Query at 7, key at 4: 3 apart. Score 2.93, no angle unseen."
    assert page.select_one("li").select("small")[1].text == "172° apart"
    assert all(label.has_attr("hidden") for label in page.select("label"))
    options = [o.text for o in page.select("select[name=content] option")]
    assert options == [*CONTENTS]
    assert live_dials(CONTENTS, **MENUS) == live_dials(CONTENTS, **MENUS)


def test_words_name_the_pairs_at_unseen_angles():
    said = say_dials(read_dials(0, 100, 16, key=4, query=44), 4, 44)
    assert said == (
        "Query at 44, key at 4: 40 apart. Score −0.68, at unseen angles: pairs 3, 4, 5."
    )
    assert "4: −4 apart" in say_dials(read_dials(0, 100, 16, key=4, query=0), 4, 0)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"contents": {"short": [1.0] * 5}}, ValueError, "'short' has 5 angles"),
        ({"contents": {}}, ValueError, "at least 1 entry"),
        ({"bases": [1]}, ValueError, "base must be finite and above 1"),
        ({"trained": [1]}, ValueError, "trained must be at least 2"),
        ({"query": 100}, IndexError, "100"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        live_dials(**{"contents": CONTENTS, **MENUS, **wrong})


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    part = live_dials(CONTENTS, **MENUS, key=4, query=7)
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title>'
    head += '<meta name="viewport" content="width=device-width">'
    head += '<link rel="icon" href="data:,"><main>'
    (folder / "index.html").write_text(f"{head}<h1>t</h1>{part}</main>", "utf-8")
    with serve(folder) as address:
        yield f"{address}/index.html"


@pytest.fixture
def page(browser, address):
    with watched_page(browser) as watched:
        watched.page.goto(address)
        yield watched.page
        assert watched.errors == []
        assert watched.foreign == []


def test_the_script_draws_what_python_drew(page, address):
    html = live_dials(CONTENTS, **MENUS, key=4, query=7)
    read = "html => [...new DOMParser().parseFromString(html, 'text/html')"
    read += ".querySelectorAll('svg *, li, li *')].map(e => e.outerHTML)"
    drawn = page.evaluate(
        "[...document.querySelectorAll('svg *, li, li *')].map(e => e.outerHTML)"
    )
    plain = [part.replace(' class=""', "") for part in drawn]
    assert plain == page.evaluate(read, html)


@pytest.mark.parametrize("number", range(len(STATES)))
def test_the_script_computes_what_python_computes(page, number):
    content, *rest = STATES[number]
    which = [*CONTENTS.values()].index(content)
    run = "args => document.querySelector('.book-dials').read(...args)"
    found, wanted = page.evaluate(run, [which, *rest]), read_dials(content, *rest)
    assert found["scores"] == pytest.approx(wanted["scores"], abs=1e-9)
    for ours, theirs in zip(wanted["dials"], found["dials"], strict=True):
        assert theirs == pytest.approx(ours)
    assert [d["new"] for d in found["dials"]] == [d["new"] for d in wanted["dials"]]


def status(page):
    page.wait_for_timeout(250)
    return page.locator("[role=status]").inner_text()


def test_keys_move_a_hand_and_both(page):
    page.get_by_label("query").focus()
    page.keyboard.press("ArrowRight")
    assert status(page).startswith("Query at 8, key at 4: 4 apart.")
    before = status(page).split("Score")[1]
    page.get_by_label("move both").press("Space")
    page.get_by_label("key").press("ArrowRight")
    assert status(page).startswith("Query at 9, key at 5: 4 apart.")
    page.get_by_label("key").press("End")  # the query may not leave the text
    assert status(page).startswith("Query at 99, key at 95: 4 apart.")
    page.get_by_label("query").press("Home")
    assert status(page).startswith("Query at 4, key at 0: 4 apart.")
    assert status(page).split("Score")[1] == before


def test_menus_change_what_is_drawn(page):
    page.get_by_label("query").press("End")
    assert status(page) == say_dials(read_dials(0, 100, 16, 4, 99), 4, 99)
    page.get_by_label("trained on").select_option("64 tokens")
    assert status(page) == say_dials(read_dials(0, 100, 64, 4, 99), 4, 99)
    page.get_by_label("base").select_option("500,000")
    assert page.locator("li small").nth(2).inner_text() == "6.43° a token"
    page.get_by_label("content").select_option("<tuned>")
    assert status(page) == say_dials(read_dials(20, 500_000, 64, 4, 99), 4, 99)


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_axe_finds_nothing(browser, address, dark):
    with watched_page(browser, width=360, height=740, dark=dark) as watched:
        page = watched.page
        page.goto(address)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        sizes = page.evaluate(
            "[...document.querySelectorAll('.book-dials *')].filter(e =>"
            " e.childNodes[0]?.nodeType === 3 && e.getBoundingClientRect().width)"
            ".map(e => parseFloat(getComputedStyle(e).fontSize) *"
            " (e.ownerSVGElement?.getScreenCTM().a ?? 1))"
        )
        assert len(sizes) > 20
        assert min(sizes) >= 9
        assert axe_violations(page) == []
