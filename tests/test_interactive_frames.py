"""`lib.interactive`: pictures and tables as HTML, readable without seeing them."""

import base64
import io
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pytest
from PIL import Image

from lib.figures import use_book_style
from lib.interactive import figure_frame, table_frame
from lib.interactive.frames import check_frames


class Elements(HTMLParser):
    """The start tags and the texts of a piece of HTML, in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def line(height, **figure):
    fig, ax = plt.subplots(**{"figsize": (6, 3), **figure})
    ax.plot([0, 1], [0, height])
    return fig


def picture(frame):
    (tag, attributes), *others = Elements(frame).tags
    assert tag == "img"
    assert not others
    head, data = attributes["src"].split(",")
    assert head == "data:image/png;base64"
    return attributes, Image.open(io.BytesIO(base64.b64decode(data)))


def test_a_frame_is_the_whole_canvas_whatever_is_drawn():
    with plt.rc_context():
        use_book_style()  # asks for pictures cut to what is drawn
        sizes = {picture(figure_frame(line(h), "a line"))[1].size for h in (1, 10**7)}
    assert sizes == {(6 * 144, 3 * 144)}


def test_the_page_knows_the_height_before_the_picture_is_decoded():
    attributes, image = picture(figure_frame(line(1), "a line", dpi=200))
    width, height = int(attributes["width"]), int(attributes["height"])
    assert image.size == (1200, 600)
    assert (width, height) == (648, 324)
    assert attributes["style"] == "max-width:100%;height:auto"


def test_alt_survives_any_character():
    alt = 'the cosine of "king" & <queen> isn\'t 1'
    assert picture(figure_frame(line(1), alt))[0]["alt"] == alt


def test_a_frame_closes_its_figure():
    before = plt.get_fignums()
    figure_frame(line(1), "a line")
    assert plt.get_fignums() == before


def test_the_same_figure_gives_the_same_bytes_without_a_version():
    first, second = (figure_frame(line(2), "a line") for _ in range(2))
    assert first == second
    assert picture(first)[1].info.keys() <= {"dpi"}


@pytest.mark.parametrize("alt", ["", "  ", "\n"])
def test_no_alt(alt):
    fig = line(1)
    with pytest.raises(ValueError, match="alt is empty"):
        figure_frame(fig, alt)
    plt.close(fig)


@pytest.mark.parametrize(
    ("x", "y", "edge"),
    [
        (1.4, 0.5, "right"),
        (-0.9, 0.5, "left"),
        (0.3, 1.5, "upper"),
        (0.3, -0.5, "lower"),
    ],
)
def test_what_would_be_cut_off_is_named(x, y, edge):
    fig = line(1)
    fig.axes[0].text(x, y, "here", transform=fig.axes[0].transAxes)
    with pytest.raises(ValueError, match=rf"[\d.]+ inches beyond its {edge} edge"):
        figure_frame(fig, "a line with a text")
    plt.close(fig)


def test_a_layout_engine_makes_room():
    fig = line(1, layout="constrained")
    fig.axes[0].text(1.05, 0.5, "beside the axes", transform=fig.axes[0].transAxes)
    assert picture(figure_frame(fig, "a line and its label"))[1].size == (864, 432)


def test_a_table_shows_its_entries_as_they_are():
    frame = table_frame("near <s> & co", ["word", "cosine"], [["<b>", 0.5], ["&", 1]])
    page = Elements(frame)
    assert page.texts == ["near <s> & co", "word", "cosine", "<b>", "0.5", "&", "1"]
    assert [tag for tag, _ in page.tags].count("tr") == 3
    heads = [attributes for tag, attributes in page.tags if tag == "th"]
    assert heads == [{"scope": "col"}] * 2


def test_a_table_row_of_another_length_names_both():
    with pytest.raises(ValueError, match="row 1 has 1 entries, the header has 2"):
        table_frame("words", ["word", "cosine"], [["king", 1], ["queen"]])


@pytest.mark.parametrize(
    "image", ["<img>", "<img alt>", "<IMG ALT='' src=x>", "<p><img alt=' ' src=x></p>"]
)
def test_a_frame_with_an_image_that_says_nothing(image):
    with pytest.raises(ValueError, match="frame 1 has an image without alt"):
        check_frames(["<p>fine</p>", image])


def test_frames_of_other_types():
    with pytest.raises(TypeError, match="one string"):
        check_frames("<p>one frame is not a list of frames</p>")
    fig = line(1)
    plt.close(fig)
    with pytest.raises(TypeError, match="frame 1 is a Figure"):
        check_frames(["<p></p>", fig])


def test_too_few_frames():
    check_frames(["<img alt='a > b' src=x>"])
    with pytest.raises(ValueError, match="1 or more frames are needed, got 0"):
        check_frames([])
