"""Byte-pair encoding, small enough to read: how a text becomes tokens.

A token is a `bytes` object here. Published vocabularies write each byte as a printable
character, with `Ġ` for the space; `read_token` and `write_token` translate.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from lib.checks import check_size

Word = tuple[bytes, ...]
Pair = tuple[bytes, bytes]

# The 256 bytes in the order of published vocabularies: the printable characters of
# Latin-1 first, written as themselves, then all others, written as U+0100, U+0101, …
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = [bytes([b]) for b in _PRINTABLE]
BYTES += [bytes([b]) for b in range(256) if b not in _PRINTABLE]
_CHARACTERS = [*map(chr, _PRINTABLE), *map(chr, range(256, 256 + 68))]
_BYTE_OF = dict(zip(_CHARACTERS, BYTES, strict=True))
_CHARACTER_OF = {byte[0]: character for character, byte in _BYTE_OF.items()}

_WORD = re.compile(
    r"'(?:s|t|re|ve|m|ll|d)| ?[a-zA-Z]+| ?[0-9]+| ?[^\sa-zA-Z0-9]+|\s+(?!\S)|\s+",
    re.ASCII,
)


def split_words(text: str) -> list[str]:
    """Cut a text into the words that merges never cross, each with the space before it.

    A word is a run of letters, of digits or of other signs, with at most one space in
    front; an English ending such as `'s`; or a run of white space.

    Args:
        text: any text.

    Returns:
        The words; joined, they are the text again.

    Raises:
        TypeError: text is no string.

    Source: the pattern of GPT-2's `encoder.py` (Radford et al. 2019), in which letters
        and digits are Unicode's classes L and N.

    Example:
        >>> split_words("She's 20, the cat  sat.")
        ['She', "'s", ' 20', ',', ' the', ' cat', ' ', ' sat', '.']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__} {text!r}")
    alike = "".join(map(_ascii_alike, text))  # as long as the text
    return [text[match.start() : match.end()] for match in _WORD.finditer(alike)]


def _ascii_alike(character: str) -> str:
    """Some ASCII character of the same class, so that one short pattern serves all."""
    if character.isascii():
        return character
    kind = unicodedata.category(character)[0]
    return {"L": "A", "N": "0"}.get(kind, "\t" if character.isspace() else "!")


def count_words(text: str) -> Counter[Word]:
    """Count the words of a text, each a tuple of single bytes.

    Args:
        text: any text.

    Raises:
        TypeError: text is no string.
        ValueError: half a surrogate pair in the text.

    Example:
        >>> count_words("go go")
        Counter({(b'g', b'o'): 1, (b' ', b'g', b'o'): 1})
    """
    return Counter(_bytes_of(word) for word in split_words(text))


def _bytes_of(word: str) -> Word:
    return tuple(bytes([b]) for b in text_bytes(word))


def text_bytes(text: str) -> bytes:
    r"""Write a text as UTF-8.

    Args:
        text: any text but one with half a surrogate pair, which stands for no character
            (what is left when UTF-16 is cut in the middle of an emoji).

    Returns:
        The bytes.

    Raises:
        ValueError: half a surrogate pair.

    Example:
        >>> text_bytes("é")
        b'\xc3\xa9'
        >>> text_bytes("a\ud83d")
        Traceback (most recent call last):
        ValueError: '\ud83d' is half a surrogate pair, which UTF-8 cannot write
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = repr(text[error.start])
        message = f"{half} is half a surrogate pair, which UTF-8 cannot write"
        raise ValueError(message) from None


def count_pairs(words: Mapping[Word, int]) -> Counter[Pair]:
    """Count the neighbouring tokens in all words.

    Args:
        words: how often each word occurs, a word being a tuple of tokens.

    Returns:
        How often each pair of neighbours occurs.

    Example:
        >>> count_pairs({(b"a", b"b", b"a"): 2})
        Counter({(b'a', b'b'): 2, (b'b', b'a'): 2})
    """
    pairs: Counter[Pair] = Counter()
    for word, times in words.items():
        for pair in pairwise(word):
            pairs[pair] += times
    return pairs


def merge_pair(word: Sequence[bytes], pair: Pair) -> Word:
    """Join a pair of neighbours wherever it stands in a word, from left to right.

    Args:
        word: tokens.
        pair: two tokens.

    Returns:
        The tokens after the merge.

    Example:
        >>> merge_pair((b"a", b"a", b"a", b"b"), (b"a", b"a"))
        (b'aa', b'a', b'b')
    """
    merged, place = [], 0
    while place < len(word):
        step = 2 if tuple(word[place : place + 2]) == pair else 1
        merged.append(b"".join(word[place : place + step]))
        place += step
    return tuple(merged)


def train_byte_pairs(text: str, vocab_size: int) -> list[Pair]:
    """Learn merges: join the most frequent pair of neighbours, again and again.

    All words are counted anew for each merge, which is clear and slow: for a whole
    corpus, use the package `tokenizers`.

    Args:
        text: the text to learn from.
        vocab_size: the tokens to end with, the 256 bytes included. Fewer come out when
            no pair is left.

    Returns:
        The merges in the order in which they were learned.

    Raises:
        TypeError: vocab_size is no int, or text no string.
        ValueError: vocab_size is below 256, or half a surrogate pair in the text.

    Source: Sennrich, Haddow and Birch 2016, arXiv:1508.07909, algorithm 1; on bytes,
        Radford et al. 2019, section 2.2. Ties are ordered as in the package
        `tokenizers`, version 0.23.3.

    Example:
        >>> train_byte_pairs("low low lower", 259)
        [(b'l', b'o'), (b'lo', b'w'), (b' ', b'low')]
    """
    check_size("vocab_size", vocab_size, at_least=len(BYTES))  # one a byte
    words, merges = count_words(text), []
    ids = {token: row for row, token in enumerate(BYTES)}
    while len(ids) < vocab_size and (pairs := count_pairs(words)):
        pair = most_frequent_pair(pairs, ids)
        merges.append(pair)
        ids.setdefault(pair[0] + pair[1], len(ids))
        words = merge_in_all(words, pair)
    return merges


def most_frequent_pair(pairs: Mapping[Pair, int], ids: Mapping[bytes, int]) -> Pair:
    """Choose the pair to merge next: the most frequent, and of equals the oldest.

    The oldest is the pair whose tokens came first into the vocabulary, which begins
    with the 256 bytes in the order of `BYTES`.

    Args:
        pairs: how often each pair occurs, at least one.
        ids: number of each token, in the order in which they came.

    Returns:
        The pair.

    Example:
        >>> ids = {token: row for row, token in enumerate(BYTES)}
        >>> most_frequent_pair({(b"b", b"a"): 2, (b"a", b"b"): 2}, ids)
        (b'a', b'b')
    """
    return min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))


def merge_in_all(words: Mapping[Word, int], pair: Pair) -> Counter[Word]:
    """Join a pair of neighbours in all words, and keep how often each occurs.

    Args:
        words: how often each word occurs.
        pair: the two tokens to join.

    Example:
        >>> merge_in_all({(b"g", b"o"): 3}, (b"g", b"o"))
        Counter({(b'go',): 3})
    """
    merged: Counter[Word] = Counter()
    for word, times in words.items():
        merged[merge_pair(word, pair)] += times
    return merged


def encode_byte_pairs(text: str, merges: Sequence[Pair]) -> list[bytes]:
    """Cut a text into tokens: in each word, merges go in the order learned.

    Args:
        text: any text. Bytes that no merge knows stay single tokens, so nothing is
            unknown.
        merges: pairs in the order in which they were learned.

    Returns:
        The tokens; joined and decoded as UTF-8, they are the text again.

    Raises:
        TypeError: text is no string.
        ValueError: half a surrogate pair in the text.

    Source: Sennrich, Haddow and Birch 2016, arXiv:1508.07909, section 3.2.

    Example:
        >>> merges = train_byte_pairs("low low lower", 259)
        >>> encode_byte_pairs("low slow lowest", merges)
        [b'low', b' ', b's', b'low', b' low', b'e', b's', b't']
    """
    rank = {pair: place for place, pair in reversed(list(enumerate(merges)))}
    tokens: list[bytes] = []
    for word in map(_bytes_of, split_words(text)):
        while known := rank.keys() & set(pairwise(word)):
            word = merge_pair(word, min(known, key=rank.__getitem__))
        tokens += word
    return tokens


def read_token(written: str) -> bytes:
    """Turn a token of a published vocabulary into the bytes that it stands for.

    Args:
        written: one character a byte, in GPT-2's alphabet of 256 printable characters.

    Returns:
        The bytes.

    Raises:
        ValueError: a character is not of that alphabet.

    Source: `bytes_to_unicode` in GPT-2's `encoder.py` (Radford et al. 2019).

    Example:
        >>> read_token("Ġtoken"), read_token("Ã©").decode()
        (b' token', 'é')
    """
    unknown = [character for character in written if character not in _BYTE_OF]
    if unknown:
        raise ValueError(f"{unknown[0]!r} in {written!r} stands for no byte")
    return b"".join(_BYTE_OF[character] for character in written)


def write_token(token: bytes) -> str:
    """Write a token as a published vocabulary does, one printable character a byte.

    Args:
        token: the bytes of a token.

    Example:
        >>> write_token(b" token"), write_token("é".encode())
        ('Ġtoken', 'Ã©')
    """
    return "".join(_CHARACTER_OF[byte] for byte in token)


def readable(token: bytes) -> str:
    r"""Write a token for a page: `␣` for a space, `⏎` for a new line, `⇥` for a tab.

    Bytes that are no whole character are written as `\x..`.

    Args:
        token: the bytes of a token.

    Example:
        >>> readable(b" token"), readable("é".encode()[:1])
        ('␣token', '\\xc3')
    """
    text = token.decode("utf-8", "backslashreplace")
    return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
