"""Make the widget state that a notebook stores the same from run to run."""

import copy
import hashlib
from collections.abc import Iterator

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
REFERENCE = "IPY_MODEL_"
LINKS = ("LinkModel", "DirectionalLinkModel")
# Facts of one session, not of the widget.
TRANSIENT = ("_view_count", "msg_id")


def renumber_widgets(notebook: dict, name: str = "") -> dict:
    """Replace the random ids of a notebook's widgets by stable ones.

    Ids follow the order in which the outputs show the widgets, then what those refer
    to, then the links between them. Widgets that no output shows are dropped, and so
    are null entries of layouts and styles, which mean "the default".

    Args:
        notebook: an executed notebook as a dictionary; it is left as it is.
        name: makes the ids differ from those of other notebooks, which matters where
            several are printed as one page. The notebook's name will do.

    Returns:
        A copy with stable ids in its outputs and in `metadata.widgets`.
    """
    renewed = copy.deepcopy(notebook)
    stored = renewed["metadata"].pop("widgets", {}).get(STATE, {})
    models = stored.get("state", {})
    outputs = [cell["outputs"] for cell in renewed["cells"] if "outputs" in cell]
    ids = {
        old: hashlib.sha256(f"{name}:{number}".encode()).hexdigest()[:32]
        for number, old in enumerate(_in_order(outputs, models))
    }
    _replace(outputs, ids)
    kept = {new: _tidy(models[old]) for old, new in ids.items() if old in models}
    _replace(kept, ids)
    if kept:
        renewed["metadata"]["widgets"] = {STATE: {**stored, "state": kept}}
    return renewed


def _in_order(outputs: list, models: dict) -> list[str]:
    """List the ids that the outputs show or need, each one once."""
    seen = {}  # a dictionary keeps the order

    def visit(value):
        for model_id in _references(value):
            if model_id not in seen:
                seen[model_id] = len(seen)
                visit(models.get(model_id))

    visit(outputs)
    ends = {
        model_id: [seen.get(end) for end in _references(model)]
        for model_id, model in models.items()
        if model["model_name"] in LINKS
    }
    shown = [link for link in ends if None not in ends[link]]
    return [*seen, *sorted(shown, key=ends.get)]


def _references(value) -> Iterator[str]:
    if isinstance(value, str) and value.startswith(REFERENCE):
        yield value.removeprefix(REFERENCE)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        if VIEW in value:
            yield value[VIEW]["model_id"]
        for key in sorted(value):
            yield from _references(value[key])


def _replace(value, ids: dict[str, str]) -> None:
    """Replace every reference inside lists and dictionaries, in place."""
    if isinstance(value, dict) and VIEW in value:
        view = value[VIEW]
        view["model_id"] = ids[view["model_id"]]
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, list | dict):
            _replace(item, ids)
        elif isinstance(item, str) and item.startswith(REFERENCE):
            old = item.removeprefix(REFERENCE)
            value[key] = REFERENCE + ids.get(old, old)


def _tidy(model: dict) -> dict:
    """Drop from a model what says nothing about it."""
    plain = model["model_name"].endswith(("LayoutModel", "StyleModel"))
    state = {
        key: value
        for key, value in model["state"].items()
        if key not in TRANSIENT and not (plain and value is None)
    }
    return {**model, "state": state}
