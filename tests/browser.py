"""Headless Chromium, a server for built pages, and what a page complains of.

Tests take it with `from browser import ...`. Nothing here reaches another host: what a
page asks of one is refused, and listed in `Watched.foreign`.
"""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Only this machine has a name: whatever else a page asks for is not found.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
LOCAL_HOSTS = ("127.0.0.1", "localhost")
MISSING = (
    "no Chromium: none of " + ", ".join(NAMES) + " is on PATH, and the environment "
    "variable CHROMIUM names no program. Install one (Debian and Ubuntu: "
    "`apt-get install chromium`) or set CHROMIUM to its path."
)


def find_chromium() -> str | None:
    """Find a Chromium or Chrome: `$CHROMIUM` if set, else the usual names on PATH."""
    named = os.environ.get("CHROMIUM")
    candidates = (named,) if named else NAMES
    return next((path for path in map(shutil.which, candidates) if path), None)


def skip_or_fail(missing: str) -> None:
    """Skip a test for want of a program or a file; with `CI=true`, fail it."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@contextmanager
def launch_chromium() -> Iterator:
    """Run a headless Chromium with a fresh profile; yield Playwright's `Browser`."""
    path = find_chromium()
    if path is None:
        skip_or_fail(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, and what went wrong on it so far.

    Attributes:
        page: Playwright's `Page`.
        foreign: addresses on other hosts that the page asked for (all refused).
        errors: uncaught exceptions and `console.error` messages.
        address: of the server that the page is loaded from, if the opener notes it.
        loads_dark: whether its pages are loaded under dark colours.
    """

    page: object
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    address: str = ""
    loads_dark: bool = False

    def forget(self) -> None:
        """Leave the page and what it complained of, for the tab's next page."""
        self.page.goto("about:blank")
        self.foreign.clear()
        self.errors.clear()


def _is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return (
        parts.scheme not in ("data", "blob", "file")
        and parts.hostname not in LOCAL_HOSTS
    )


@contextmanager
def watched_page(browser, width=1280, height=900, dark=False) -> Iterator[Watched]:
    """Open an empty page that may load from this machine only.

    Args:
        browser: what `launch_chromium` yields.
        width, height: the viewport in CSS pixels; 360 × 740 is a small phone.
        dark: whether the reader's system prefers dark colours.

    Yields:
        The `Watched` page; go to an address with `watched.page.goto(...)`.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        service_workers="block",
    )
    watched = Watched(context.new_page())

    def note(request):
        if _is_foreign(request.url):
            watched.foreign.append(request.url)

    def listen(message):
        if message.type == "error":
            watched.errors.append(message.text)

    watched.page.on("request", note)
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    watched.page.on("console", listen)
    try:
        yield watched
    finally:
        context.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Say nothing: the tests print only what fails."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine; yield its address, no slash."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def axe_violations(
    page, impacts=("serious", "critical"), options=None, selectors=None
) -> list[str]:
    """Run axe on a page; list its violations as "impact rule: help (elements)".

    Args:
        page: Playwright's `Page`, already loaded.
        impacts: which of axe's grades count.
        options: axe's own options, such as rules to leave out.
        selectors: rule → the CSS selector of what it is to look at, where that is less
            than all that it knows.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(Axe().axe_script)
    rules = [{"id": rule, "selector": s} for rule, s in (selectors or {}).items()]
    page.evaluate("rules => axe.configure({ rules })", rules)
    # Only violations are listed at length, and no style sheet is fetched once more.
    options = {"resultTypes": ["violations"], "preload": False, **(options or {})}
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{item['impact']} {item['id']}: {item['help']} "
        f"({', '.join(str(node['target']) for node in item['nodes'])})"
        for item in found
        if item["impact"] in impacts
    ]
