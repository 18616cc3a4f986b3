"""Each fault against its sound form, and both against the library."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch

from lib.alibi import alibi_bias, alibi_slopes
from lib.faults import CHECKS, FAULTS, SOUND, checks_that_catch
from lib.rope import apply_rope, rope_cos_sin, rope_inv_freq
from lib.rope_scaling import dynamic_ntk_inv_freq

# Which checks let a fault through, written by hand from what the fault is.
HIDDEN = {
    "mixed_layouts": ["position 0 changes nothing", "token by token = at once"],
    "bfloat16_angles": [
        "norm kept",
        "position 0 changes nothing",
        "loop at 0-7, to 0.1",
        "token by token = at once",
    ],
    "cached_by_length": [
        "norm kept",
        "position 0 changes nothing",
        "distance only, near",
        "distance only, far",
        "loop at 0-7, to 0.0001",
        "loop at 32,761-32,768",
    ],
    "other_layout": [
        "norm kept",
        "position 0 changes nothing",
        "distance only, near",
        "distance only, far",
        "token by token = at once",
    ],
    "half_positions": ["distance only, near", "loop at 0-7, to 0.0001"],
    "bfloat16_frequencies": ["distance only, far", "loop at 0-7, to 0.1"],
    "first_query": ["diagonal 0", "loop over 8 tokens"],
    "bfloat16_bias": ["loop over 8 tokens", "one query = its row"],
    "one_list": ["8 heads"],
    "columns": ["no padding", "padding on the right"],
    "cut_first": ["a second a grid"],
    "summed_inside": ["one negative"],
    "scaled_table": ["the same best token"],
    "old_keys": ["the newest key", "up to the trained length"],
    "factor_only": ["none given", "the computed one given"],
    "image_in_time": ["an image first", "after text, an id a second"],
    "minus_infinity": ["no padding", "padding on the right"],
    "two_lowest": ["padding on the right", "padding on the left: finite"],
    "frozen_place": ["shape", "places 1 to 7 learn"],
    "assigned": ["the weights after loading"],
    "unchecked_rank": ["five scores"],
}


@pytest.mark.parametrize("kind", CHECKS)
def test_no_false_alarm(kind):
    assert [n for n, passes in CHECKS[kind].items() if not passes(SOUND[kind])] == []


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_caught(name):
    caught = checks_that_catch(FAULTS[name])
    assert caught
    assert set(caught).isdisjoint(HIDDEN.get(name, []))
    assert checks_that_catch(FAULTS[name]) == caught  # nothing is remembered


def test_the_right_loop_catches_the_layouts():
    for name in ("mixed_layouts", "other_layout"):
        assert "loop at 0-7, to 0.1" in checks_that_catch(FAULTS[name])


def test_every_check_named_here_exists():
    for name, hidden in HIDDEN.items():
        assert set(hidden) <= set(CHECKS[FAULTS[name].kind])


def test_links_are_those_of_issues_and_pull_requests():
    for fault in FAULTS.values():
        form = r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+"
        assert re.fullmatch(form, fault.link)


def test_the_sound_forms_are_the_library_s():
    x, positions = torch.randn(1, 2, 5, 16), torch.tensor([0, 1, 2, 900, 40_000])
    tables = rope_cos_sin(positions, rope_inv_freq(16))
    turned = apply_rope(x, *tables, layout="half")
    assert torch.allclose(SOUND["rotary"](x, positions), turned, atol=1e-5)
    for heads in (1, 6, 8, 12):
        assert torch.allclose(SOUND["slopes"](heads), alibi_slopes(heads))
    places, slopes = torch.arange(7), alibi_slopes(4)
    ours = alibi_bias(slopes, places, places, causal=False)
    seen = torch.ones(7, 7).tril().bool()
    found = SOUND["bias"](slopes, places, places)
    assert torch.equal(found[..., seen], ours.reshape(4, 7, 7)[..., seen])


def ten_checks():
    """Give the set-up cell of the page's ten checks, and the checks."""
    page = Path(__file__).parents[1] / "appendices" / "e_museum.ipynb"
    cells = json.loads(page.read_text("utf-8"))["cells"]
    heads = ["".join(cell["source"]) for cell in cells]
    start = next(i for i, head in enumerate(heads) if head.startswith("## Ten checks"))
    end = next(i for i, head in enumerate(heads) if head.startswith("## All the"))
    code = [
        head
        for head, cell in zip(heads[start:end], cells[start:end], strict=True)
        if cell["cell_type"] == "code"
    ]
    return code[0], code[1:]


def test_ten_checks_run_by_themselves_after_one_set_up():
    set_up, checks = ten_checks()
    assert len(checks) == 10
    for check in checks:
        exec("\n".join((set_up, check)), {})


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (1, "other_layout"),
        (2, "half_positions"),
        (2, "bfloat16_frequencies"),
        (3, "mixed_layouts"),
        (3, "bfloat16_angles"),
        (4, "cached_by_length"),
        (5, "columns"),
        (6, "first_query"),
        (6, "bfloat16_bias"),
        (7, "one_list"),
        (8, "scaled_table"),
        (9, "minus_infinity"),
        (9, "two_lowest"),
        (10, "assigned"),
    ],
)
def test_each_of_the_ten_checks_fails_on_its_fault(number, fault):
    set_up, checks = ten_checks()
    exec(set_up, names := {})
    name = {"rotary": "rotate"}.get(FAULTS[fault].kind, FAULTS[fault].kind)
    assert name in names
    names[name] = FAULTS[fault].make()
    with pytest.raises(AssertionError):
        exec(checks[number - 1], names)


def test_the_sound_scaling_is_the_library_s():
    speeds, _ = dynamic_ntk_inv_freq(8, 1e4, 1.0, 4, 8)
    x = torch.randn(1, 1, 8, 8)
    turned = apply_rope(x, *rope_cos_sin(torch.arange(8), speeds), layout="half")[0, 0]
    found = SOUND["decode"](x[0, 0], x[0, 0], 4)
    assert torch.allclose(found, turned @ turned[-1], atol=1e-4)


def test_every_test_that_the_list_names_exists():
    tests = Path(__file__).parent
    path = tests.parent / "lib" / "faults" / "reports.tsv"
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    assert len({row["id"] for row in rows}) == len(rows) == 100
    for row in rows:
        file, name = row["test"].split("::")
        assert f"def {name}(" in (tests / file).read_text("utf-8"), row["id"]
