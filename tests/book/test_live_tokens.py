"""The live tokenizer in Chromium cuts as the package `tokenizers` does, id for id."""

import random
import unicodedata

import pytest
from browser import axe_violations, serve, watched_page

from lib.byte_pairs import read_token, readable
from lib.interactive import live_tokens
from lib.smollm import find_file, open_checked, read_tokenizer

TEXTS = [
    "",
    " ",
    "The capital of France is",
    "Tokenizers don't read letters; they'll recognise pieces, we've seen. I'm, it'd!",
    "DON'T 'tis 'S ''s 'll've x'rex 'llama ’s",
    "   three before, three after   ",
    "a\n\n  b\t\tc\r\nd \n e\u00a0f\u2003g\u3000h\u2028i\u0085j\u1680k",
    "a\ufeffb\u180ec\u200bd \ufeff  \u0085 \u2029\u2028  x",
    "2026 x2 3.14159 ½ ² Ⅻ ٣٤ १२ 五 ④ 1,000,000 007",
    "def f(x):\n    return x**2  # ok\n\n\nif __name__ == '__main__':\n\tpass",
    'https://example.org/?q=a&b=c#d <b>"quoted"</b> {1: [2, 3]} \\n $x_1^2$ ___ -- …',
    "naïve café e\u0301te\u0301 Straße ǅ ﬁ İstanbul",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι",
    "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.",
    "כל בני האדם נולדו בני חורין",
    "人人生而自由，在尊严和权利上一律平等。",
    "すべての人間は、生まれながらにして自由であり、",
    "모든 인간은 태어날 때부터 자유로우며",
    "सभी मनुष्यों को गौरव और अधिकारों",
    "মানুষ ไทย မြန်မာ ქართული አማርኛ ᎠᏂᎦᏴᎵ",
    "👩‍👩‍👧 🙂🙂 🇫🇷 👍🏽 ❤️ a🙂b",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𒀀 \U0001d7d9 \U0010fffd",
    "bell \x06 and \x04\x13\x14\x16\x1d, \x00\x1b[0m \x7f\x80\x9f",
    "not assigned: \U00050000 \U000bfffe",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><|endoftext <repo_name> <reponame>x",
    "strawberry " * 80,
    "a" * 700,
]


def random_texts(count):
    """Texts of assigned characters, some from everywhere, some from few blocks."""
    draw = random.Random(0)
    blocks = [(0, 0x110000), (0, 0x300), (0x20, 0x7F), (0x400, 0xE00), (0x2000, 0x3100)]
    blocks += [(0x1F300, 0x1FA00), (0x4E00, 0x9FFF)]
    texts = []
    while len(texts) < count:
        low, high = draw.choice(blocks)
        drawn = [chr(draw.randrange(low, high)) for _ in range(draw.randrange(1, 80))]
        known = [c for c in drawn if unicodedata.category(c) not in ("Cs", "Cn")]
        spaced = [draw.choice(["", "", "", " ", "\n", "7", "'s"]) + c for c in known]
        texts.append("".join(spaced))
    return texts


@pytest.fixture(scope="module")
def tokenizer():
    return read_tokenizer(open_checked(find_file()))


@pytest.fixture(scope="module")
def address(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    part = live_tokens(tokenizer, "Hello world", {"none": "", "Paris": "La Москва 7"})
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title>'
    head += '<link rel="icon" href="data:,"><main>'
    (folder / "index.html").write_text(f"{head}<h1>t</h1>{part}</main>", "utf-8")
    with serve(folder) as address:
        yield f"{address}/index.html"


@pytest.fixture(scope="module")
def watched(browser, address):
    with watched_page(browser) as watched:
        watched.page.goto(address)
        yield watched
        assert watched.errors == []
        assert watched.foreign == []


def ids_in_page(page, texts):
    run = "texts => texts.map(document.querySelector('.book-tokens').encode)"
    return page.evaluate(run, texts)


def differences(tokenizer, page, texts):
    found = ids_in_page(page, texts)
    wanted = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    return [t for t, a, b in zip(texts, found, wanted, strict=True) if a != b]


def test_texts_of_many_scripts_get_equal_ids(tokenizer, watched):
    assert differences(tokenizer, watched.page, TEXTS) == []


def test_random_unicode_gets_equal_ids(tokenizer, watched):
    texts = random_texts(1000)
    assert len({character for text in texts for character in text}) > 8_000
    assert differences(tokenizer, watched.page, texts) == []


def test_numbers_spaces_and_controls_are_cut_where_the_package_cuts(tokenizer, watched):
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    kinds = ("N", "Z", "Cc", "Cf")
    special = [c for c in every if unicodedata.category(c).startswith(kinds)]
    assert len(special) > 1_500
    texts = [f"a{c}a {c} {c}{c}" for c in special]
    assert differences(tokenizer, watched.page, texts) == []


def test_tokens_are_written_as_the_library_writes_them(tokenizer, watched):
    ids = range(17, tokenizer.get_vocab_size(), 11)
    run = "ids => ids.map(document.querySelector('.book-tokens').readable)"
    found = watched.page.evaluate(run, list(ids))
    wanted = [readable(read_token(tokenizer.id_to_token(number))) for number in ids]
    pairs = zip(found, wanted, strict=True)
    unseen = [(ours, theirs) for ours, theirs in pairs if ours != theirs]
    assert all(ours.count("U+") and not theirs.isprintable() for ours, theirs in unseen)
    assert len(unseen) < len(ids) / 100


def boxes(page):
    return page.locator("li").all_inner_texts()


def test_typing_draws_boxes_and_tells_a_screen_reader(watched):
    page = watched.page
    field = page.get_by_label("any text")
    field.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("A naïve М")
    page.wait_for_selector("[role=status]:has-text('9 characters, 11 bytes')")
    shown = [text.split()[0] for text in boxes(page)]
    assert shown[:2] == ["A", "␣na"]
    assert shown[-1].startswith("\\x")
    page.keyboard.press("Tab")  # to the menu
    page.get_by_label("or an example").select_option("Paris")
    page.wait_for_selector("[role=status]:has-text('11 characters')")
    assert field.input_value() == "La Москва 7"
    assert "7" in boxes(page)[-1]
    field.press("End")
    page.keyboard.type("!")  # no example any more
    assert page.get_by_label("or an example").evaluate("m => m.selectedIndex") == 0
    assert "!" in boxes(page)[-1]


def test_markup_that_is_typed_is_text(watched):
    watched.page.get_by_label("any text").fill("<img src=x onerror=alert(1)>")
    assert watched.page.locator("li img").count() == 0
    assert "<" in boxes(watched.page)[0]


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_axe_finds_nothing(browser, address, dark):
    with watched_page(browser, width=360, height=740, dark=dark) as watched:
        page = watched.page
        page.goto(address)
        page.get_by_label("any text").fill("w" * 300 + " and words, 12 345 " * 4)
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert axe_violations(page) == []


def test_on_a_shorter_table_the_ids_differ(tokenizer, watched):
    """The comparison above can fail: without two merges the page cuts otherwise."""
    shifted = """text => {
      const old = document.querySelector('.book-tokens'), box = old.cloneNode(true);
      const merges = box.querySelector('.merges');
      merges.textContent = merges.textContent.slice(16);
      delete box.dataset.ready;
      old.after(box);
      eval(box.querySelector('script:not([type])').textContent);
      const ids = box.encode(text);
      box.remove();
      return ids;
    }"""
    text = TEXTS[2]
    assert watched.page.evaluate(shifted, text) != tokenizer.encode(text).ids
