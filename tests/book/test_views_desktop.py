"""Every built page on a desktop, in dark colours and in light ones."""

import pytest
from browser import serve
from build import HTML
from views import (
    COLOUR,
    DESKTOP,
    faults,
    load,
    longest_first,
    look,
    mark_looks,
    tab_for,
)


@pytest.fixture(scope="module")
def tab(browser):
    with serve(HTML) as address, tab_for(browser, address, dark=True, **DESKTOP) as tab:
        yield tab


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, page):
    load(tab, page)
    for colours in ("dark", "light"):
        look(tab, colours, DESKTOP["width"])
        mark_looks(tab.page)
    assert faults(tab.page) == []
    look(tab, "dark", DESKTOP["width"])
    assert faults(tab.page, COLOUR) == []
