"""Every built page on a desktop, in dark colours and in light ones."""

import pytest
from browser import axe_violations
from views import (
    DESKTOP,
    ONLY_LINKS,
    REST,
    load,
    longest_first,
    look,
    low_contrast,
    tab_for,
)


@pytest.fixture(scope="module")
def tab(browser):
    with tab_for(browser, dark=True, **DESKTOP) as tab:
        yield tab


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, page):
    load(tab, page)
    for colours, rules in (("dark", ONLY_LINKS), ("light", REST)):
        look(tab, colours, DESKTOP["width"])
        assert axe_violations(tab.page, options=rules) == []
        assert low_contrast(tab.page) == []
