"""Build the book: fetch and draw what pages need, run Jupyter Book, look at the result.

`python tools/build.py` ends with the path of the first page. A warning is an error, and
so is a page of the table of contents that the output lacks.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"


def pages_of_contents() -> list[str]:
    """List every page in `_toc.yml`, without ending, the first page first."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in contents["parts"] for chapter in part["chapters"]]
    pages = [page for c in chapters for page in (c, *c.get("sections", ()))]
    return [contents["root"], *(page["file"] for page in pages)]


def last_change() -> str:
    """Give the time of the last commit in seconds, so that equal trees build alike.

    Without git, or outside a repository, it is empty, and the pages bear no date.
    """
    if shutil.which("git") is None:
        return ""
    command = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip()


def script(name: str) -> str:
    """Find a command of the environment that runs this, wherever it keeps them."""
    folder = sysconfig.get_path("scripts")
    found = shutil.which(name, path=folder)
    if found is None:
        raise SystemExit(f"no {name} in {folder}: install requirements.txt")
    return found


def build() -> None:
    """Run the steps, and stop at the first that fails."""
    environment = dict(os.environ)
    if time := last_change():
        environment.setdefault("SOURCE_DATE_EPOCH", time)
    strict = ["--all", "-W", "-n", "--keep-going", "--quiet"]
    for command in (
        [sys.executable, "tools/assets.py"],
        [script("jupyter-book"), "build", ".", *strict],
    ):
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if status:
            raise SystemExit(f"{' '.join(command)} failed with exit status {status}")


def main() -> None:
    build()
    absent = [
        page for page in pages_of_contents() if not (HTML / f"{page}.html").exists()
    ]
    if absent:
        raise SystemExit(f"the build left out {', '.join(absent)}")
    print(f"The book is built: {(HTML / 'index.html').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
