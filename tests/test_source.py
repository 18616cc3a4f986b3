"""`lib.source`: what a page shows is what the library runs."""

import ast

import pytest

from lib.one_hot import one_hot
from lib.source import show_source, source_of
from lib.token_embedding import TokenEmbedding


def plain():
    """One line."""
    return "unchanged"


def test_the_docstring_goes_and_the_code_stays():
    assert source_of(plain) == 'def plain():\n    return "unchanged"'


@pytest.mark.parametrize("obj", [one_hot, TokenEmbedding, TokenEmbedding.forward])
def test_what_is_shown_is_the_same_program(obj):
    shown = ast.parse(source_of(obj))
    assert '"""' not in source_of(obj)
    functions = [n for n in ast.walk(shown) if isinstance(n, ast.FunctionDef)]
    assert all(ast.get_docstring(node) is None for node in functions)
    assert obj.__name__ in {
        node.name for node in ast.walk(shown) if hasattr(node, "name")
    }


def test_a_notebook_shows_it_as_highlighted_code(capsys):
    show_source(plain)
    assert "Markdown" in capsys.readouterr().out


def test_an_object_without_source():
    with pytest.raises(TypeError, match="function"):
        source_of(len)
