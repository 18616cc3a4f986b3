"""Every built page on a small phone, in light colours and in dark ones."""

import pytest
from views import PHONE, load, longest_first, look, tab_for


@pytest.fixture(scope="module")
def tab(browser):
    with tab_for(browser, dark=False, **PHONE) as tab:
        yield tab


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, page):
    load(tab, page)
    for colours in ("light", "dark"):
        look(tab, colours, PHONE["width"])
