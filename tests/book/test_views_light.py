"""Every built page on a desktop and on a phone whose system asks for light colours."""

import pytest
from views import check_page, longest_first, tab_for


@pytest.fixture(scope="module", params=["desktop-light", "phone-light"])
def view(request):
    return request.param


@pytest.fixture(scope="module")
def tab(browser, view):
    with tab_for(browser, view) as tab:
        yield tab


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, page, view):
    check_page(tab, page, view)
