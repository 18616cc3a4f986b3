"""Every built page on a small phone, from its disk, in light and in dark colours."""

import pytest
from browser import serve
from build import HTML
from views import PHONE, load, longest_first, look, tab_for


@pytest.fixture(scope="module")
def tab(browser):
    with tab_for(browser, HTML.as_uri(), dark=False, **PHONE) as tab:
        yield tab


@pytest.fixture(scope="module")
def served():
    with serve(HTML) as address:
        yield address


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, served, page):
    # The page for lost readers links from a server's root.
    tab.address = served if page == "404.html" else HTML.as_uri()
    load(tab, page)
    if tab.page.locator(".math").count():
        assert tab.page.locator("mjx-container").count()
    for colours in ("light", "dark"):
        look(tab, colours, PHONE["width"])
