"""Pin the installed versions: `pyproject.toml`'s groups to `requirements*.txt`.

`python tools/lock.py` follows each direct dependency to everything that it pulls in and
writes the versions that are installed, one plain `==` line each: what the book needs to
`requirements.txt`, what the tests need besides to `requirements-dev.txt`.
"""

import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# Written by `make lock` from pyproject.toml: change that file, not this one.\n"


def direct(groups: tuple[str, ...]) -> list[str]:
    """List the dependencies of the project itself and of the named extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(line for g in groups for line in extras[g])]


def closure(lines: list[str]) -> dict[str, str]:
    """Follow requirements to all installed packages: name → version, without "+cpu"."""
    pins, seen, waiting = {}, set(), [Requirement(line) for line in lines]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = frozenset(wanted.extras) or frozenset([""])
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found = distribution(name)  # raises where something needed is not installed
        pins[name] = found.version.partition("+")[0]
        waiting += [
            line
            for line in map(Requirement, found.requires or [])
            if applies(line, extras)
        ]
    return pins


def applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Whether a requirement's marker holds here, for one of the extras asked for."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def write(path: Path, pins: dict[str, str], head: str) -> None:
    lines = [f"{name}=={pins[name]}\n" for name in sorted(pins)]
    path.write_text(head + "".join(lines), encoding="utf-8")


def main() -> None:
    book = closure(direct(("book",)))
    every = closure(direct(("book", "dev")))
    write(ROOT / "requirements.txt", book, HEAD)
    besides = {name: pin for name, pin in every.items() if name not in book}
    write(ROOT / "requirements-dev.txt", besides, HEAD + "-r requirements.txt\n")
    print(f"{len(book)} packages for the book, {len(besides)} more for the tests")


if __name__ == "__main__":
    main()
