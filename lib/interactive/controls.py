"""Sliders and menus over frames: drawn beforehand, or computed as the reader moves.

`frame_slider` and `choice` join a control to frames that are already drawn, and
`switched_slider` a menu and a slider to rows of them, by links that run in the browser,
so they move on a built page with no kernel behind it. `live` and `live_slider` call a
Python function on every change and need a running notebook. A frame is a piece of HTML:
`figure_frame` makes one from a figure, `table_frame` from rows.
"""

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from html import escape

import ipywidgets as widgets

from lib.checks import check_size
from lib.interactive.frames import check_frames

# The book's style sheet shows this note on a built page, and hides the dead control.
NEEDS_KERNEL = (
    '<p class="book-needs-kernel" hidden>This page shows one answer. '
    "Open the notebook in JupyterLab to ask for others.</p>"
)

# ipywidgets draws its sliders with noUiSlider, whose handle has no accessible name and
# speaks the index of the frame, not its value. A widget cannot reach that element from
# Python, and HTML set by a widget may hold no script; the load handler of an image in
# it does run, on a built page as in JupyterLab.
NAME_THE_HANDLE = """
const name = (tries) => {
  const box = this.closest('.book-interactive');
  const handle = box && box.querySelector('.noUi-handle');
  if (!handle) { if (tries) setTimeout(name, 50, tries - 1); return; }
  const readout = box.querySelector('.widget-readout');
  const say = () => handle.setAttribute('aria-valuetext', readout.textContent);
  handle.setAttribute('aria-label', LABEL);
  readout.contentEditable = 'false';
  new MutationObserver(say).observe(readout, {childList: true});
  say();
};
name(200);
"""
EMPTY_IMAGE = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E"


def frame_slider(
    frames: Sequence[str], label: str, values: Sequence | None = None, start: int = 0
) -> widgets.VBox:
    """Show one of many frames, chosen with a slider that needs no kernel.

    Args:
        frames: at least two pieces of HTML, drawn already; every `<img>` has an alt.
        label: what the slider sets, in a word or two; it is the control's name.
        values: what to read beside the slider at each frame, all different; the frame's
            number if None.
        start: the number of the frame that is shown first.

    Returns:
        The widget; a notebook stores its state, a built page needs no more than that.

    Raises:
        TypeError: frames is not a sequence of strings, start is not an integer.
        ValueError: fewer than two frames, values of another length or not all
            different, an empty label, an image without alt.
        IndexError: start is not the number of a frame.

    Example:
        >>> box = frame_slider(["<p>near</p>", "<p>far</p>"], "distance", [1, 1000], 1)
        >>> slider, stack, _ = box.children
        >>> slider.label, stack.children[stack.selected_index].value
        ('1000', '<p>far</p>')
    """
    check_frames(frames, at_least=2)
    names = _names(range(len(frames)) if values is None else values, len(frames))
    return _join(_slider(label, names, start), frames)


def choice(
    frames: Sequence[str], label: str, values: Sequence, start: int = 0
) -> widgets.VBox:
    """Show one of many frames, chosen by name from a menu that needs no kernel.

    Args:
        frames: at least one piece of HTML, drawn already; every `<img>` has an alt.
        label: what the menu chooses, in a word or two; it is the control's name.
        values: the name of each frame, all different.
        start: the number of the frame that is shown first.

    Returns:
        The widget; a notebook stores its state, a built page needs no more than that.

    Raises:
        TypeError: frames is not a sequence of strings, start is not an integer.
        ValueError: no frame, values of another length or not all different, an empty
            label, an image without alt.
        IndexError: start is not the number of a frame.

    Example:
        >>> box = choice(["<p>queen</p>", "<p>moon</p>"], "word", ["king", "sun"])
        >>> menu, stack = box.children
        >>> menu.label, stack.children[stack.selected_index].value
        ('king', '<p>queen</p>')
    """
    check_frames(frames, at_least=1)
    names = _names(values, len(frames))
    menu = widgets.Dropdown(**_control(label, names, start))
    return _join(menu, frames)


def switched_slider(
    rows: Mapping[str, Sequence[str]],
    switch: str,
    label: str,
    values: Sequence,
    start: int = 0,
) -> widgets.VBox:
    """Show one of several rows of frames, each under the same slider, with no kernel.

    A menu chooses the row, and the slider keeps its place in all of them.

    Args:
        rows: name of a row → its frames; at least two rows, all of one length.
        switch: what the menu chooses, in a word or two; it is the menu's name.
        label, values, start: as for `frame_slider`.

    Returns:
        The widget; a notebook stores its state, a built page needs no more than that.

    Raises:
        TypeError, ValueError, IndexError: as for `frame_slider`, for each row; also
            fewer than two rows.

    Example:
        >>> rows = {"off": ["<p>a</p>", "<p>b</p>"], "on": ["<p>c</p>", "<p>d</p>"]}
        >>> box = switched_slider(rows, "light", "hour", [6, 18], start=1)
        >>> menu, slider, stack, _ = box.children
        >>> row = stack.children[stack.selected_index]
        >>> menu.label, slider.label, row.children[row.selected_index].value
        ('off', '18', '<p>b</p>')
    """
    if len(rows) < 2:
        raise ValueError(f"2 or more rows are needed, got {len(rows)}")
    for name, frames in rows.items():
        check_frames(frames, at_least=2)
        if len(frames) != len(values):
            raise ValueError(
                f"{len(values)} values for {len(frames)} frames of {name!r}"
            )
    names = _names(values, len(values))
    slider = _slider(label, names, start)
    menu = widgets.Dropdown(**_control(switch, _names(list(rows), len(rows)), 0))
    stacks = [_stack(frames, slider.index) for frames in rows.values()]
    outer = widgets.Stack(stacks, selected_index=0)
    box = _assemble(slider, outer)
    box.children = (menu, *box.children)
    box.links = [
        widgets.jslink((slider, "index"), (stack, "selected_index")) for stack in stacks
    ] + [widgets.jslink((menu, "index"), (outer, "selected_index"))]
    return box


def live(function: Callable[[str], str], label: str, value: str) -> widgets.VBox:
    """Ask a function about any text, each time that the reader presses Enter.

    It needs a running kernel; a built page shows the first answer and a note.

    Args:
        function: takes the text, without spaces around it, and returns HTML. The
            message of its KeyError, IndexError or ValueError is shown in words.
        label: what the reader is to type, in a word or two; it is the control's name.
        value: the first text. What the function raises for it is raised here.

    Returns:
        The widget.

    Raises:
        ValueError: an empty label.

    Example:
        >>> box = live(lambda word: f"<p>{len(word)} letters</p>", "word", "king")
        >>> text, answer, _ = box.children
        >>> text.value = "queen"
        >>> answer.value
        '<p>5 letters</p>'
    """
    text = widgets.Text(
        value=value, continuous_update=False, **_described(label, width="20rem")
    )
    return _recompute(text, "value", lambda typed: function(typed.strip()))


def live_slider(
    function: Callable[..., str], label: str, values: Sequence, start: int = 0
) -> widgets.VBox:
    """Call a function each time that the reader moves a slider.

    It needs a running kernel; a built page shows the first answer and a note. Where the
    answers are few enough to be drawn beforehand, take `frame_slider`.

    Args:
        function: takes one of the values and returns HTML, as for `live`.
        label: what the slider sets, in a word or two; it is the control's name.
        values: at least two values, which differ as text.
        start: the number of the value that is set first.

    Returns:
        The widget.

    Raises:
        ValueError: fewer than two values, or alike ones, or an empty label.
        IndexError: start is not the number of a value.

    Example:
        >>> box = live_slider(lambda n: f"<p>{n * n}</p>", "n", [1, 10, 100], start=1)
        >>> slider, answer, *_ = box.children
        >>> slider.index = 2
        >>> answer.value
        '<p>10000</p>'
    """
    if len(values) < 2:
        raise ValueError(f"2 or more values are needed, got {len(values)}")
    slider = _slider(label, _names(values, len(values)), start)
    return _recompute(slider, "index", lambda index: function(values[index]))


def progress_bar(total: int, label: str) -> tuple[widgets.HBox, Callable]:
    """Make a bar that fills step by step, with the last result beside it.

    It shows no time, so that a notebook stores the same bar after every run.

    Args:
        total: steps until the bar is full.
        label: what goes on, in a few words.

    Returns:
        The widget, and a function `advance(step, loss)` for a trainer to call when
        step number `step`, counted from 0, is done.

    Raises:
        TypeError: total is no integer.
        ValueError: total is below 1, or an empty label.

    Example:
        >>> box, advance = progress_bar(2, "training")
        >>> advance(0, 2.345)
        >>> bar, text = box.children
        >>> bar.value, text.value
        (1, '1 of 2, loss 2.3')
    """
    total = check_size("total", total)
    bar = widgets.IntProgress(value=0, max=total, **_described(label, width="24rem"))
    text = widgets.Label(f"0 of {total}")

    def advance(step: int, loss: float) -> None:
        bar.value, text.value = step + 1, f"{step + 1} of {total}, loss {loss:.1f}"

    return widgets.HBox([bar, text]), advance


def _names(values: Sequence, frames: int) -> list[str]:
    names = [str(value) for value in values]
    if len(names) != frames:
        raise ValueError(f"{len(names)} values for {frames} frames")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"values must differ as text, these do not: {repeated}")
    return names


def _described(label: str, width: str) -> dict:
    """Keyword arguments for a control as wide as it may be, its label never cut off."""
    if not label.strip():
        raise ValueError("label is empty: the control has no other name")
    return {
        "description": label,
        "tooltip": "",  # else the page shows "null"
        "style": {"description_width": "initial"},
        "layout": widgets.Layout(width=width, max_width="100%"),
    }


def _control(label: str, names: Sequence[str], start: int) -> dict:
    start = operator.index(start)
    if not 0 <= start < len(names):
        raise IndexError(f"start {start} is outside 0 … {len(names) - 1}")
    options = [(name, number) for number, name in enumerate(names)]
    return {"options": options, "index": start, **_described(label, width="40rem")}


def _slider(label: str, names: Sequence[str], start: int) -> widgets.SelectionSlider:
    return widgets.SelectionSlider(**_control(label, names, start))


def _assemble(control: widgets.DOMWidget, *below: widgets.Widget) -> widgets.VBox:
    children = [control, *below]
    if isinstance(control, widgets.SelectionSlider):
        script = escape(
            NAME_THE_HANDLE.replace("LABEL", json.dumps(control.description))
        )
        image = f'<img hidden alt="" src="{EMPTY_IMAGE}" onload="{script}">'
        children.append(widgets.HTML(image, layout={"display": "none"}))
    box = widgets.VBox(children)
    box.add_class("book-interactive")
    return box


def _join(control: widgets.DOMWidget, frames: Sequence[str]) -> widgets.VBox:
    stack = _stack(frames, control.index)
    box = _assemble(control, stack)
    box.link = widgets.jslink((control, "index"), (stack, "selected_index"))
    return box


def _stack(frames: Sequence[str], start: int) -> widgets.Stack:
    first = widgets.HTML(frames[0])
    shared = {"layout": first.layout, "style": first.style}  # a smaller notebook
    pages = [first, *(widgets.HTML(frame, **shared) for frame in frames[1:])]
    return widgets.Stack(pages, selected_index=start)


def _recompute(
    control: widgets.DOMWidget, trait: str, function: Callable[..., str]
) -> widgets.VBox:
    answer = widgets.HTML(function(getattr(control, trait)))

    def renew(change):
        try:
            answer.value = function(change.new)
        except (LookupError, ValueError) as error:
            message = error.args[0] if error.args else type(error).__name__
            answer.value = f'<p role="alert">{escape(str(message))}</p>'

    control.observe(renew, names=trait)
    box = _assemble(control, answer, widgets.HTML(NEEDS_KERNEL))
    box.add_class("book-live")
    return box
