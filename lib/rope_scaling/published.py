"""From the dict of a published configuration to its frequencies."""

from torch import Tensor

from lib.rope_scaling.by_length import dynamic_ntk_inv_freq, longrope_inv_freq
from lib.rope_scaling.config import EXTENDED, TRAINED, read_rope_parameters
from lib.rope_scaling.frequencies import rope_inv_freq
from lib.rope_scaling.scalings import (
    linear_inv_freq,
    llama3_inv_freq,
    ntk_inv_freq,
    proportional_inv_freq,
)
from lib.rope_scaling.yarn import yarn_inv_freq


def unscaled_inv_freq(rotary_dim: int, base: float, device=None):
    """Leave the frequencies as they are; returned as those of every scaling."""
    return rope_inv_freq(rotary_dim, base, device), 1.0


PLAIN = ("rotary_dim", "base")
BANDS = ("factor", "low_freq_factor", "high_freq_factor", TRAINED)
LISTS = ("short_factor", "long_factor", TRAINED, EXTENDED, "seq_len")
YARN = ("beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim")
SCALINGS = {  # of each type: the function, what it must be given, what it may be
    "default": (unscaled_inv_freq, PLAIN, ()),
    "linear": (linear_inv_freq, (*PLAIN, "factor"), ()),
    "dynamic": (dynamic_ntk_inv_freq, (*PLAIN, "factor", TRAINED, "seq_len"), ()),
    "ntk": (ntk_inv_freq, (*PLAIN, "alpha"), ()),
    "yarn": (yarn_inv_freq, (*PLAIN, "factor", TRAINED), (*YARN, "attention_factor")),
    "longrope": (longrope_inv_freq, (*PLAIN, *LISTS), ("attention_factor",)),
    "llama3": (llama3_inv_freq, (*PLAIN, *BANDS), ()),
    "proportional": (
        proportional_inv_freq,
        ("head_dim", "base", "partial_rotary_factor"),
        ("factor",),
    ),
}


def scaled_inv_freq(
    rope_parameters: dict,
    head_dim: int,
    max_position_embeddings: int | None,
    seq_len: int | Tensor | None = None,
    device=None,
):
    """Compute the frequencies that the dict of a published configuration asks for.

    Args:
        rope_parameters: `rope_parameters` of a configuration, or its older form
            `rope_scaling`; a key that is None counts as missing. Without `rope_theta`
            the base is 1e4.
        head_dim: the width of a head; `partial_rotary_factor` takes its share.
        max_position_embeddings: the length in the configuration, or None. It stands in
            for a trained length that "dynamic" lacks, and for a factor that "longrope"
            lacks or that is null in "yarn".
        seq_len: for "dynamic" and "longrope" the length, one for all or int64 `[B]`;
            None means the trained length.
        device: as for `rope_inv_freq`.

    Returns:
        inv_freq and the attention factor, as the function of that type gives them.

    Raises:
        KeyError: a parameter is missing; the message names it.
        ValueError: an unknown type (the message lists the known), a bad number.
        TypeError: not a dict, or a value that is not a number.

    Source: transformers 5.24.0, `modeling_rope_utils.py`.

    Example:
        >>> old = {"type": "linear", "factor": 2.0}
        >>> scaled_inv_freq(old, head_dim=4, max_position_embeddings=64)[0].tolist()
        [0.5, 0.005]
    """
    kind, given = read_rope_parameters(
        rope_parameters, head_dim, max_position_embeddings
    )
    scaling, needed, optional = SCALINGS[kind]
    given |= {"seq_len": seq_len}
    missing = [name for name in needed if name not in given]
    if missing:
        raise KeyError(f"{missing[0]}, which rope_type {kind!r} needs")
    arguments = {name: given[name] for name in (*needed, *optional) if name in given}
    return scaling(**arguments, device=device)
