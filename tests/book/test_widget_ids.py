"""`tools/widget_ids.py`: what a notebook stores of its widgets, from run to run."""

import copy
import json
import re

import nbformat
import pytest
from notebooks import CONTROLS, execute, notebook_of
from widget_ids import STATE, renumber_widgets


@pytest.fixture(scope="module")
def executions():
    return [execute(notebook_of(CONTROLS)) for _ in range(2)]


def text(notebook):
    return json.dumps(notebook, sort_keys=True)


def stored(notebook):
    return notebook["metadata"]["widgets"][STATE]["state"]


def references(notebook):
    return set(re.findall(r'(?:IPY_MODEL_|"model_id": ")(\w+)', text(notebook)))


def test_two_executions_store_the_same(executions):
    first, second = executions
    assert text(first) != text(second)
    assert text(renumber_widgets(first)) == text(renumber_widgets(second))


def test_a_second_renumbering_changes_nothing(executions):
    once = renumber_widgets(executions[0], "chapter")
    on_disk = json.loads(text(once))  # in the order of a sorted file
    assert text(renumber_widgets(on_disk, "chapter")) == text(once)


def test_every_reference_has_its_model_and_every_model_its_kind(executions):
    before, after = executions[0], renumber_widgets(executions[0])
    assert references(after) <= stored(after).keys()
    assert not references(after) & references(before)

    def kinds(notebook):
        return sorted(model["model_name"] for model in stored(notebook).values())

    assert kinds(after) == kinds(before)
    assert kinds(after).count("LinkModel") == 2


def test_the_argument_is_left_as_it_is(executions):
    before = copy.deepcopy(executions[0])
    renumber_widgets(executions[0])
    assert executions[0] == before


def test_no_two_notebooks_share_an_id(executions):
    first = renumber_widgets(executions[0], "01_ids")
    second = renumber_widgets(executions[0], "02_one_hot")
    assert not stored(first).keys() & stored(second).keys()


def test_values_survive(executions):
    state = stored(renumber_widgets(executions[0]))
    sliders = [m["state"] for m in state.values() if "Slider" in m["model_name"]]
    indices = [slider["index"] for slider in sliders if "index" in slider]
    assert sorted(indices) == [0, 1]
    stacks = [m["state"] for m in state.values() if m["model_name"] == "StackModel"]
    assert sorted(stack["selected_index"] for stack in stacks) == [0, 1]


def test_what_is_never_shown_is_not_stored():
    cells = [
        "import ipywidgets as widgets",
        "hidden, shown = widgets.IntSlider(), widgets.IntSlider(3)\n"
        "links = [widgets.jslink((shown, 'max'), (hidden, 'max'))]",
        "shown",
    ]
    state = stored(renumber_widgets(execute(notebook_of(cells))))
    names = sorted(model["model_name"] for model in state.values())
    assert names == ["IntSliderModel", "LayoutModel", "SliderStyleModel"]


def test_state_of_an_earlier_run_goes_when_no_output_shows_it(executions):
    notebook = copy.deepcopy(executions[0])
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    assert "widgets" not in renumber_widgets(notebook)["metadata"]


def test_a_notebook_without_widgets_is_unchanged():
    notebook = notebook_of(["1 + 1"])
    assert renumber_widgets(notebook) == notebook


def test_an_output_widget_that_holds_another():
    cells = [
        "import ipywidgets as widgets\nout = widgets.Output()\nout",
        "with out:\n    display(widgets.IntSlider(5))",
    ]
    first, second = (renumber_widgets(execute(notebook_of(cells))) for _ in range(2))
    assert text(first) == text(second)
    assert references(first) <= stored(first).keys()
    assert "IntSliderModel" in text(stored(first))


@pytest.mark.parametrize("key", ["model_id", "view_of"])
def test_p34_a_model_id_that_names_no_widget_is_left_as_it_is(key, executions):
    shown = nbformat.v4.new_output("display_data", {"application/json": {key: "gpt2"}})
    notebook = copy.deepcopy(executions[0])
    notebook.cells[1].outputs = [shown]
    renewed = renumber_widgets(notebook)
    assert renewed["cells"][1]["outputs"] == [shown]
    assert stored(renewed) == stored(renumber_widgets(executions[0]))
