"""Words that a page answers about: neighbours, analogies and a map, with no kernel.

The page holds the words and their vectors, rounded to 8 bits a number, and a program
of its own (`machine.js`) that computes in the reader's browser what `lib.geometry`
computes here. `analogy_machine` shows it under a cell, `write_page` writes a file.
"""

from lib.word_page.page import analogy_machine, write_page
from lib.word_page.table import EXAMPLES, pack_rows

__all__ = ["EXAMPLES", "analogy_machine", "pack_rows", "write_page"]
