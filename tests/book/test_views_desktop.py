"""Every built page on a desktop, in dark colours and in light ones."""

import pytest
from browser import axe_violations
from views import (
    DESKTOP,
    STRUCTURE,
    faults_of_colour,
    load,
    longest_first,
    look,
    tab_for,
)


@pytest.fixture(scope="module")
def tab(browser):
    with tab_for(browser, dark=True, **DESKTOP) as tab:
        yield tab


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, page):
    load(tab, page)
    for colours in ("dark", "light"):
        look(tab, colours, DESKTOP["width"])
        assert faults_of_colour(tab.page) == []
    assert axe_violations(tab.page, options=STRUCTURE) == []
