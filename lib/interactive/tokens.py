"""Tokens as boxes, and a tokenizer that works in the page, on any text, with no kernel.

The page holds the list of merges, four bytes each, and a script of some 130 lines,
`tokens.js`, that cuts with it what is typed. Both stand in the HTML itself, so that it
works on a built page, from the disk, and in JupyterLab.
"""

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lib.byte_pairs import BYTES, read_token, readable, text_bytes, write_token

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FOLDER = Path(__file__).parent
_STYLE = f"<style>\n{(_FOLDER / 'tokens.css').read_text('utf-8')}</style>"
_SCRIPT = f"<script>\n{(_FOLDER / 'tokens.js').read_text('utf-8')}</script>"
_LONGEST = 1000  # characters that may be typed
_TABLES = ("type", "vocab", "merges")  # of a model; all else are settings
_FLAGS = ("single_word", "lstrip", "rstrip")  # of an added token
_RULES = [
    {"type": "Digits", "individual_digits": True},
    {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    },
]


def token_boxes(
    tokens: Sequence[bytes],
    ids: Sequence[int] | None = None,
    marked: Collection[bytes] = (),
) -> str:
    """Write tokens as coloured boxes in a row, a piece of HTML for a frame or a page.

    Args:
        tokens: the tokens of a text, in order.
        ids: a number to stand below each; none if None.
        marked: tokens whose boxes are filled.

    Returns:
        A `<div>` with its own style.

    Raises:
        TypeError: a token that is not bytes.
        ValueError: ids of another length.

    Example:
        >>> token_boxes([b" a", b"<"], [7, 8]).splitlines()[-1]
        '<li><span>␣a</span> <small>7</small></li><li><span>&lt;</span> <small>8</small></li></ol></div>'
    """  # noqa: E501
    return f'<div class="book-tokens">{_STYLE}\n{_list(tokens, ids, marked)}</div>'


def _list(tokens, ids=None, marked=()) -> str:
    if ids is not None and len(ids) != len(tokens):
        raise ValueError(f"{len(ids)} ids for {len(tokens)} tokens")
    for place, token in enumerate(tokens):
        if not isinstance(token, bytes):
            raise TypeError(f"tokens must be bytes, token {place} is {token!r}")
    numbers = [""] * len(tokens)
    if ids is not None:
        numbers = [f" <small>{escape(str(number))}</small>" for number in ids]
    boxes = [
        f"<li{' class=new' if token in marked else ''}>"
        f"<span>{escape(readable(token))}</span>{number}</li>"
        for token, number in zip(tokens, numbers, strict=True)
    ]
    return f'<ol role="list" aria-label="tokens" tabindex="0">\n{"".join(boxes)}</ol>'


def live_tokens(tokenizer: "Tokenizer", text: str, examples: Mapping[str, str]) -> str:
    """Write a tokenizer as a page part that cuts any text, with no kernel behind it.

    Without a script, the page shows the tokens of the first text.

    Args:
        tokenizer: of the package `tokenizers`: byte-level BPE in which each digit is a
            piece, with nothing before or after it (no normaliser, no post-processor),
            and merged tokens numbered in the order of the merges after all others, as
            `lib.smollm` reads it.
        text: what stands in the box at first, at most 1,000 characters.
        examples: texts to choose from, by their names.

    Returns:
        HTML, the same for the same arguments on every machine.

    Raises:
        ValueError: a tokenizer of another make, a text that is too long, or half a
            surrogate pair in one.

    Source: GPT-2's `encoder.py` (Radford et al. 2019); tokenizers 0.23.3, `Digits` and
        `ByteLevel`.
    """
    longest = max(map(len, (text, *examples.values())))
    if longest > _LONGEST:
        raise ValueError(f"a text has {longest} characters, {_LONGEST} are allowed")
    sizes = [len(text_bytes(one)) for one in (text, *examples.values())]
    settings, merges = _pack(tokenizer)
    found = tokenizer.encode(text)
    tokens = [
        token.encode() if token in settings["special"] else read_token(token)
        for token in found.tokens
    ]
    counts = len(text), sizes[0], len(tokens)
    said = "{} characters, {} bytes, {} tokens.".format(*counts)
    data = json.dumps(settings).replace("<", "\\u003c")
    return "\n".join(
        [
            f'<div class="book-tokens live">{_STYLE}',
            *_controls(text, examples),
            f'<p role="status">{said}</p>',
            _list(tokens, found.ids),
            f'<script type="application/json" class="settings">{data}</script>',
            f'<script type="text/plain" class="merges">{merges}</script>',
            f"{_SCRIPT}</div>",
        ]
    )


def _controls(text: str, examples: Mapping[str, str]) -> list[str]:
    """Write the box to type in and the menu, hidden until the script is there."""
    options = "".join(
        f'<option value="{escape(value)}">{escape(name)}</option>'
        for name, value in examples.items()
    )
    return [
        "<label hidden>any text"
        f'<textarea rows="3" maxlength="{_LONGEST}" dir="auto" spellcheck="false">'
        f"\n{escape(text)}</textarea></label>",
        "<label hidden>or an example<select><option selected disabled>choose</option>"
        f"{options}</select></label>",
    ]


def _pack(tokenizer: "Tokenizer") -> tuple[dict, str]:
    """Take from a tokenizer what the script needs: settings, and merges as base64.

    A merge is the ids of its two parts, 16 bits each, low byte first. It is not
    compressed: what a compressor writes differs between versions of zlib.
    """
    parts = json.loads(tokenizer.to_str())
    _check_rules(parts)
    vocab, merges = parts["model"]["vocab"], parts["model"]["merges"]
    first = len(vocab) - len(merges)
    if len(vocab) > 0x10000:
        raise ValueError(f"{len(vocab)} tokens, 65536 fit ids of 16 bits")
    for number, (left, right) in enumerate(merges, first):
        if vocab.get(left + right) != number:
            raise ValueError(f"merge {left} {right} should make token {number}")
    pairs = np.array([[vocab[part] for part in pair] for pair in merges], dtype="<u2")
    settings = {
        "first": first,
        "bytes": [vocab.get(write_token(byte), -1) for byte in sorted(BYTES)],
        "special": {token["content"]: token["id"] for token in parts["added_tokens"]},
    }
    return settings, base64.b64encode(pairs.tobytes()).decode()


def _check_rules(parts: dict) -> None:
    """Refuse a tokenizer that cuts by other rules than the script."""
    if parts["model"]["type"] != "BPE":
        raise ValueError(f"the model must be BPE, got {parts['model']['type']}")
    if parts["normalizer"]:
        raise ValueError(f"no normaliser, got {parts['normalizer']['type']}")
    rules = (parts["pre_tokenizer"] or {}).get("pretokenizers", [])
    if rules != _RULES:
        raise ValueError(f"the text must be cut by {_RULES}, is cut by {rules}")
    model = {k: v for k, v in parts["model"].items() if k not in _TABLES}
    around = {kind: parts[kind] for kind in ("truncation", "padding", "post_processor")}
    for name, value in {**model, **around}.items():
        if value:
            raise ValueError(f"the script knows no {name}, got {value!r}")
    for token in parts["added_tokens"]:
        if used := [flag for flag in _FLAGS if token[flag]]:
            raise ValueError(
                f"the script knows no {used[0]}, as {token['content']} has"
            )
