"""`tools/build.py`: what it needs of the machine, and what it says when that lacks."""

import sysconfig
from pathlib import Path
from types import SimpleNamespace

import book_extension
import build
import pytest


def test_p13_without_git_there_is_no_date(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.last_change() == ""


@pytest.mark.parametrize(("time", "kept"), [("1700000000", "%Y"), (None, None)])
def test_p13_pages_bear_the_date_of_the_commit_or_none(monkeypatch, time, kept):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    if time:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)
    config = SimpleNamespace(html_last_updated_fmt="%Y")
    book_extension.set_date(None, config)
    assert config.html_last_updated_fmt == kept


def test_p31_a_script_is_found_where_the_environment_keeps_them(monkeypatch, tmp_path):
    """As with conda on Windows: the interpreter and the scripts stand apart."""
    scripts = tmp_path / "Scripts"
    scripts.mkdir()
    program = scripts / "jupyter-book"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", {"scripts": str(scripts)}.get)
    monkeypatch.setattr(build.sys, "executable", str(tmp_path / "python"))
    assert Path(build.script("jupyter-book")) == program
    with pytest.raises(SystemExit, match="no sphinx-build in"):
        build.script("sphinx-build")
