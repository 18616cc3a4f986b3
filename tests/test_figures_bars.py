"""`bars_frame`: shares as bars, a line among them, and a note."""

import re
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup

from lib.figures import bars_frame

SHARES, NAMES = [0.0, 0.1, 0.4], ["0", "", "<2>"]


def drawn(**options):
    image = BeautifulSoup(bars_frame(SHARES, NAMES, **options), "html.parser").img
    return image, BeautifulSoup(unquote(image["src"].split(",", 1)[1]), "html.parser")


def test_bars_are_as_high_as_their_shares():
    _, svg = drawn(alt="three bars", top=0.5)
    heights = [-float(h) for h in re.findall(r"v(-[\d.]+)h", svg.path["d"])]
    assert heights == pytest.approx([0, 34.4, 137.6], abs=0.06)  # of 172 pixels


def test_a_mark_stands_where_it_is_counted_in_bars():
    _, svg = drawn(alt="three bars", mark=1.5)
    line = svg.find("path", attrs={"stroke-dasharray": True})["d"]
    assert line.startswith("M228.0 ")  # in the middle of 44 … 412


def test_names_note_and_label_are_text_whatever_they_hold():
    image, svg = drawn(alt='a "b"', note="99 % <", label="tokens")
    texts = [text.text for text in svg.find_all("text")]
    assert texts == ["0 %", "50 %", "100 %", "0", "<2>", "tokens", "99 % <"]
    assert image["alt"] == 'a "b"'


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alt": ""}, "alt is empty"),
        ({"shares": []}, "0 shares for 3 names"),
        ({"shares": [0.1, 0.2, 1.1]}, "share 1.1 is outside"),
        ({"shares": [0.1, 0.2, float("nan")]}, "share nan is outside"),
        ({"mark": 3.1}, "mark 3.1 is outside 0 … 3"),
        ({"top": 0}, "top must be"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, message):
    given = {"shares": SHARES, "names": NAMES, "alt": "three bars"}
    with pytest.raises(ValueError, match=message):
        bars_frame(**{**given, **wrong})
