"""`browser.py`: what the tests of pages stand on."""

import pytest
from browser import (
    axe_violations,
    find_chromium,
    launch_chromium,
    serve,
    watched_page,
)
from views import COLOUR, SETTLE, faults, mark_looks

PAGE = """<!doctype html><html lang="en"><title>A page</title><main><h1>Here</h1>
<img src="https://example.org/far.png" alt="far"><input>
<script>throw new Error("thrown on purpose")</script></main></html>"""


def test_a_page_reaches_no_other_host_and_its_faults_are_seen(browser, tmp_path):
    (tmp_path / "index.html").write_text(PAGE)
    with (
        serve(tmp_path) as address,
        watched_page(browser, width=360, dark=True) as watched,
    ):
        page = watched.page
        page.goto(f"{address}/index.html")
        assert page.inner_text("h1") == "Here"
        assert watched.foreign == ["https://example.org/far.png"]
        assert any("thrown on purpose" in error for error in watched.errors)
        assert page.evaluate("innerWidth") == 360
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert [found.split(":")[0] for found in axe_violations(page)] == [
            "critical label"
        ]
        assert axe_violations(page, selectors={"label": "main > h1 + input"}) == []


GREYS = """<!doctype html><html lang="en"><title>Greys</title><style>
.a {color: #111} .b {color: #bbb} .c {color: #bbb; background: #111} .d {display: none}
</style><main><h1>Greys</h1><p class="d"><span class="b">none sees this</span></p>%s
</main></html>"""


@pytest.mark.parametrize(
    ("faint", "count"),
    [("", 0), ('<p class="b">faint</p>', 1), ('<p class="c">on black</p>', 0)],
)
def test_one_faint_text_is_found_among_many_that_are_alike(browser, faint, count):
    with watched_page(browser) as watched:
        plain = '<p class="a">plain</p>' * 200
        watched.page.set_content(GREYS % (plain + faint + plain))
        mark_looks(watched.page)
        assert len(faults(watched.page, COLOUR)) == count
        marked = watched.page.locator("[data-look]").count()
        assert marked == 2 + bool(faint)  # the title, and each look once


MOVING = """<!doctype html><html lang="en"><title>Moving</title><style>
p, b {color: rgb(0, 0, 0); transition: color 1000s} .later, .later b {color: #fff}
</style><main><p>slow <b>slower</b></p></main></html>"""


def test_colours_that_move_are_put_at_their_end(browser):
    colours = (
        "[...document.querySelectorAll('p, b')].map(x => getComputedStyle(x).color)"
    )
    with watched_page(browser) as watched:
        page = watched.page
        page.set_content(MOVING)
        assert page.evaluate(colours) == ["rgb(0, 0, 0)"] * 2
        page.evaluate("document.querySelector('p').classList.add('later')")
        assert page.evaluate(colours) == ["rgb(0, 0, 0)"] * 2  # only begun
        assert page.evaluate(SETTLE) == 0
        assert page.evaluate(colours) == ["rgb(255, 255, 255)"] * 2


LINKS = """<!doctype html><html lang="en"><title>Links</title><style>
a {color: #111; text-decoration: underline} .plain {text-decoration: none}
p, li {color: #000}</style><main><h1>Links</h1>%s</main></html>"""
LINK = '<a href="#"%s>a link</a>'


@pytest.mark.parametrize(
    ("hidden", "count"),
    [
        ("", 0),
        (f"<p>In a text {LINK} hides.</p>", 1),
        (f"<p>{LINK} {LINK}</p>", 0),  # all that the paragraph says
    ],
)
def test_one_hidden_link_is_found_among_many_that_are_seen(browser, hidden, count):
    with watched_page(browser) as watched:
        seen = f"<p>In a text {LINK % ''} is underlined.</p>" * 100
        alone = f"<ul><li>{LINK % ' class=plain'}</li></ul>" * 100
        hidden = hidden.replace("%s", " class=plain")
        watched.page.set_content(LINKS % (seen + alone + hidden + seen))
        mark_looks(watched.page)
        assert len(faults(watched.page, COLOUR)) == count


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_a_missing_browser_is_named(monkeypatch, ci, outcome):
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    monkeypatch.setenv("CI", ci)
    assert find_chromium() is None
    with pytest.raises(outcome, match="apt-get install chromium"):
        launch_chromium().__enter__()


def test_the_named_browser_comes_first(monkeypatch, tmp_path):
    program = tmp_path / "my-chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(program))
    assert find_chromium() == str(program)
    monkeypatch.delenv("CHROMIUM")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium() is None
    program.rename(tmp_path / "google-chrome")
    assert find_chromium() == str(tmp_path / "google-chrome")
