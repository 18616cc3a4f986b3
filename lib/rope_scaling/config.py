"""Read the dict in which a published configuration describes its RoPE."""

from lib.checks import check_size, even_width, number, share

TRAINED = "original_max_position_embeddings"
EXTENDED = "max_position_embeddings"
TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
BY_LENGTH = ("dynamic", "longrope")  # these depend on the length of the sequence
ALIASES = {"su": "longrope", "mrope": "default"}  # names in older configurations


def rope_type(rope_parameters: dict) -> str:
    """Read the type, under its new key or the old one.

    Args:
        rope_parameters: `rope_parameters` of a configuration, or `rope_scaling`.

    Raises:
        ValueError: an unknown type, or one dict for each of several layer types.
        KeyError: a factor and no type: it would be ignored without a word.
        TypeError: not a dict.

    Example:
        >>> rope_type({"type": "su"}), rope_type({"rope_theta": 1e6})
        ('longrope', 'default')
    """
    if not isinstance(rope_parameters, dict):
        kind = type(rope_parameters).__name__
        raise TypeError(f"rope_parameters must be a dict, got {kind}")
    nested = [key for key, value in rope_parameters.items() if isinstance(value, dict)]
    if nested:
        raise ValueError(f"pass the dict of one layer type: {' or '.join(nested)}")
    kind = rope_parameters.get("rope_type") or rope_parameters.get("type")
    if kind is None and rope_parameters.get("factor") is not None:
        raise KeyError("rope_type: the dict has a factor, but does not say of what")
    kind = ALIASES.get(kind, kind) or "default"
    if kind not in TYPES:
        raise ValueError(f"unknown rope_type {kind!r}; known are {', '.join(TYPES)}")
    return kind


def depends_on_length(rope_parameters: dict) -> bool:
    """Tell whether the frequencies of this type depend on the length of the sequence.

    Args:
        rope_parameters: the dict of a published configuration.

    Example:
        >>> depends_on_length({"rope_type": "dynamic", "factor": 2.0})
        True
    """
    return rope_type(rope_parameters) in BY_LENGTH


def read_rope_parameters(
    rope_parameters: dict, head_dim: int, max_position_embeddings: int | None
) -> tuple[str, dict]:
    """Turn a dict into a type and the arguments of that type's function.

    Args:
        rope_parameters: a key that is None counts as missing.
        head_dim: the width of a head; the rotary width is its share, rounded down.
        max_position_embeddings: the length in the same configuration.

    Returns:
        The type ("ntk" for a fixed alpha), and a dict that may hold more than the
        arguments, or fewer where the configuration lacks one.
    """
    kind = rope_type(rope_parameters)
    defaults = {"rope_theta": 1e4, "partial_rotary_factor": 1.0}
    given = {key: value for key, value in rope_parameters.items() if value is not None}
    given = defaults | given
    if kind == "dynamic" and "alpha" in given:  # HunYuan's name for a fixed NTK scaling
        kind = "ntk"
    if kind != "proportional":
        part = share("partial_rotary_factor", given["partial_rotary_factor"])
        width = int(check_size("head_dim", head_dim) * part)
        name = f"rotary_dim ({part} of head_dim {head_dim})"
        given["rotary_dim"] = even_width(name, width)
    nulls = [key for key, value in rope_parameters.items() if value is None]
    lengths = _from_lengths(kind, given, nulls, max_position_embeddings)
    return kind, {**given, **lengths, "base": given["rope_theta"], "head_dim": head_dim}


def _from_lengths(kind: str, given: dict, nulls: list, extended: int | None) -> dict:
    """Complete what a dict leaves to the configuration's lengths."""
    if kind == "dynamic" and TRAINED not in given:
        return {TRAINED: _needed(extended, TRAINED)}
    if kind == "yarn" and "factor" in nulls and TRAINED in given:
        trained = number(TRAINED, given[TRAINED], at_least=1)
        return {"factor": _needed(extended, "factor") / trained}
    if kind == "longrope" and TRAINED in given:
        if "factor" in given:  # a given factor wins over the lengths
            return {EXTENDED: number("factor", given["factor"], 1) * given[TRAINED]}
        if "attention_factor" not in given:
            return {EXTENDED: _needed(extended, "factor")}
        return {EXTENDED: given[TRAINED]}  # which the given attention factor overrides
    return {}


def _needed(extended: int | None, key: str) -> float:
    if extended is None:
        raise KeyError(f"{key} or {EXTENDED}")
    return number(EXTENDED, extended, at_least=1)
