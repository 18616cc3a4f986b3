"""Show the library's own code on a page, so that the text cannot drift from it."""

import ast
import inspect
import textwrap
from collections.abc import Callable


def source_of(obj: Callable) -> str:
    """Return the source of a function or class without its docstrings.

    Args:
        obj: a function or a class of `lib`.

    Returns:
        Source lines, dedented, with no docstring and no blank line at the end.

    Raises:
        TypeError: an object that has no Python source.

    Example:
        >>> print(source_of(source_of).splitlines()[0])
        def source_of(obj: Callable) -> str:
    """
    text = textwrap.dedent(inspect.getsource(obj))
    lines = text.splitlines()
    kinds = (ast.FunctionDef, ast.ClassDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno
            # A blank line between the docstring and the code goes with it.
            while last < len(lines) and not lines[last].strip():
                last += 1
            lines[first:last] = [None] * (last - first)
    return "\n".join(line for line in lines if line is not None).rstrip()


def show_source(*objects: Callable) -> None:
    """Display the source of functions or classes as highlighted code in a notebook.

    The code is an output of the cell, so the tests that execute the notebooks see at
    once when a page shows code that the library no longer ships.

    Args:
        objects: functions or classes of `lib`.
    """
    from IPython.display import Markdown, display

    for obj in objects:
        display(Markdown(f"```python\n{source_of(obj)}\n```"))
