"""JupyterLab: a notebook is opened, run from top to end, and its controls answer."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from browser import watched_page
from notebooks import CONTROLS, ROOT, notebook_of

SECONDS_TO_START = 90
SECONDS_TO_RUN = 480
SECONDS_TO_ANSWER = 30
CHAPTER_5 = "chapters/05_geometry.ipynb"

# A reader's own settings stay out of it, and nothing is fetched from other hosts.
OPTIONS = (
    "--no-browser",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port_retries=0",
    "--ServerApp.allow_root=True",
    "--IdentityProvider.token=",
    "--LabApp.extension_manager=readonly",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    # Every cell is in the document, scrolled to or not.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}


def _environment(home: Path) -> dict[str, str]:
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    own = {name: str(home / name.lower()) for name in names}
    own["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    own["JUPYTERLAB_WORKSPACES_DIR"] = str(home / "workspaces")
    own["IPYTHONDIR"] = str(home / "ipython")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, **own, "PYTHONPATH": path}


def _wait_until_it_answers(address: str, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + SECONDS_TO_START
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError), direct.open(f"{address}/api"):
            return
        time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def running_lab(folder: Path, home: Path):
    """Start JupyterLab on a folder, as a stranger to its user; yield its address."""
    for name, values in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS]
    command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
    log = home / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, env=_environment(home), cwd=folder
        )
        try:
            _wait_until_it_answers(f"http://127.0.0.1:{port}", server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()  # it then shuts down its kernels
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


KERNEL_IS_IDLE = """() => {
  const status = document.querySelector('#jp-main-statusbar')?.innerText ?? '';
  return /\\| Idle/.test(status) && !status.includes('No Kernel');
}"""
ALL_CELLS_ARE_DONE = """() => {
  const prompts = document.querySelectorAll('.jp-CodeCell .jp-InputPrompt');
  const texts = [...prompts].map(prompt => prompt.textContent.trim());
  return texts.length && texts.every(text => /^\\[\\d+\\]:$/.test(text));
}"""


def run_all(page, address: str, notebook: str) -> None:
    """Open a notebook, run all its cells and wait until the last one is done."""
    page.goto(f"{address}/lab/tree/{notebook}?reset")  # no other notebook beside it
    page.wait_for_function(KERNEL_IS_IDLE, timeout=SECONDS_TO_START * 1000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(ALL_CELLS_ARE_DONE, timeout=SECONDS_TO_RUN * 1000)


def complaints(page) -> list[str]:
    """The texts of all error and standard-error outputs of the open notebook."""
    kinds = ("application/vnd.jupyter.error", "application/vnd.jupyter.stderr")
    outputs = [
        page.locator(f".jp-Notebook [data-mime-type='{kind}']") for kind in kinds
    ]
    return [text for output in outputs for text in output.all_inner_texts()]


def chapter_5_up_to_its_explorer() -> nbformat.NotebookNode:
    """Cut a chapter after the box that answers any word, without what it stores."""
    chapter = nbformat.read(ROOT / CHAPTER_5, as_version=4)
    live = [n for n, cell in enumerate(chapter.cells) if "\nlive(" in cell.source]
    chapter.cells = chapter.cells[: live[0] + 1]
    del chapter.metadata["widgets"]
    for cell in chapter.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return chapter


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a folder that holds the tests' notebooks."""
    folder = tmp_path_factory.mktemp("folder")
    nbformat.write(notebook_of(CONTROLS), folder / "controls.ipynb")
    (folder / "chapters").mkdir()
    nbformat.write(
        chapter_5_up_to_its_explorer(), folder / "chapters/05_geometry.ipynb"
    )
    with running_lab(folder, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="module")
def opened(browser, lab):
    with watched_page(browser, height=2400) as watched:
        watched.page.set_default_timeout(SECONDS_TO_ANSWER * 1000)
        run_all(watched.page, lab, "controls.ipynb")
        yield watched


def test_every_cell_runs_without_a_complaint(opened):
    assert complaints(opened.page) == []
    assert opened.page.locator(".book-interactive").count() == len(CONTROLS) - 1


def test_the_live_text_answers_any_word(opened):
    text = opened.page.get_by_label("any word")
    box = opened.page.locator(".book-live").filter(has=text)
    assert box.locator("caption").inner_text() == "Near to king"
    text.fill("sea")
    text.press("Enter")
    box.locator("caption", has_text="Near to sea").wait_for()
    assert "shore" in box.inner_text()
    assert complaints(opened.page) == []


def test_an_unknown_word_is_answered_in_words(opened):
    text = opened.page.get_by_label("any word")
    box = opened.page.locator(".book-live").filter(has=text)
    text.fill("seaa")
    text.press("Enter")
    alert = box.get_by_role("alert")
    alert.wait_for()
    assert alert.inner_text() == "'seaa' is unknown: <b>king, sun, sea</b> are known"
    text.fill("sun")
    text.press("Enter")
    box.locator("caption", has_text="Near to sun").wait_for()
    assert alert.count() == 0
    assert complaints(opened.page) == []


def test_the_live_slider_computes_as_it_moves(opened):
    handle = opened.page.get_by_role("slider", name="number")
    opened.page.get_by_text("3 squared is 9").wait_for()
    handle.press("ArrowRight")
    opened.page.get_by_text("4 squared is 16").wait_for()
    assert handle.get_attribute("aria-valuetext") == "4"


def test_the_drawn_frames_move_here_too(opened):
    handle = opened.page.get_by_role(
        "slider", name='where the "line" climbs, x < 1 & y > 0'
    )
    handle.press("ArrowRight")
    opened.page.get_by_alt_text("a line that climbs to 100", exact=True).wait_for()
    opened.page.get_by_label("prepared word").select_option("sun")
    opened.page.locator("caption", has_text="Near to sun").first.wait_for()


def test_the_note_for_the_built_page_is_not_shown(opened):
    notes = opened.page.get_by_text("Open the notebook in JupyterLab")
    assert [note.is_visible() for note in notes.all()] == [False, False]


def test_jupyterlab_asks_no_other_host(opened):
    assert opened.foreign == []


def test_chapter_5_runs_up_to_its_explorer_which_answers(browser, lab):
    """As `make lab` opens it: cells in order, then any word, then a misspelt one."""
    with watched_page(browser, height=2400) as watched:
        watched.page.set_default_timeout(SECONDS_TO_ANSWER * 1000)
        run_all(watched.page, lab, CHAPTER_5)
        assert complaints(watched.page) == []
        text = watched.page.get_by_label("neighbours of any word")
        box = watched.page.locator(".book-live").filter(has=text)
        neighbours = box.locator("tbody").inner_text()
        text.fill("gold")
        text.press("Enter")
        box.locator("caption", has_text="gold").wait_for()
        assert box.locator("tbody").inner_text() != neighbours
        text.fill("golld")
        text.press("Enter")
        box.get_by_role("alert").filter(has_text="gold").wait_for()
        assert complaints(watched.page) == []
        assert watched.foreign == []
