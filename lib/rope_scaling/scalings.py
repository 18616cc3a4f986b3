"""Every published way to scale the frequencies of RoPE past the trained length.

All bend one curve, the inverse frequency of each pair, and some also multiply cos and
sin by an attention factor. A number out of its range is a ValueError that names it; a
string or a bool in its place is a TypeError. YaRN has a module of its own.
"""

import inspect
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lib.checks import even_width, number, share
from lib.device import exact_device
from lib.rope_scaling.config import TRAINED, read_rope_parameters
from lib.rope_scaling.frequencies import blend, rope_inv_freq, wavelengths
from lib.rope_scaling.yarn import yarn_inv_freq


def linear_inv_freq(rotary_dim: int, base: float, factor: float, device=None):
    """Divide every frequency by one factor (position interpolation, PI).

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        factor: the extension, at least 1.

    Returns:
        inv_freq, float64 `[d/2]`, and the attention factor 1.0.

    Raises:
        ValueError: a number out of its range.

    Source: Chen et al. 2023, Extending Context Window of Large Language Models via
    Positional Interpolation, equation 3.

    Example:
        >>> linear_inv_freq(4, 100.0, factor=4.0)[0].tolist()
        [0.25, 0.025]
    """
    factor = number("factor", factor, at_least=1)
    return rope_inv_freq(rotary_dim, base, device) / factor, 1.0


def ntk_inv_freq(rotary_dim: int, base: float, alpha: float, device=None):
    """Enlarge the base by alpha^(d/(d−2)): the last pair slows by alpha, the first not.

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        alpha: at least 1.

    Returns:
        inv_freq, float64 `[d/2]`, and the attention factor 1.0.

    Raises:
        ValueError: a number out of its range; one pair alone, of which none is the
            last.

    Source: bloc97 2023, NTK-Aware Scaled RoPE; Peng et al. 2023, YaRN, section 3.1.

    Example:
        >>> ntk_inv_freq(4, 100.0, alpha=4.0)[0].tolist()
        [1.0, 0.025]
    """
    alpha = number("alpha", alpha, at_least=1)
    return _slowed(rope_inv_freq(rotary_dim, base, device), alpha), 1.0


def _slowed(inv_freq: Tensor, alpha: float | Tensor) -> Tensor:
    """Write NTK scaling as a product, so that alpha = 1 changes no bit."""
    pairs = inv_freq.shape[-1]
    if pairs == 1:
        raise ValueError("NTK scaling needs a rotary_dim above 2, got 2")
    i = torch.arange(pairs, dtype=torch.float64, device=inv_freq.device)
    return inv_freq * alpha ** -(i / (pairs - 1))


def dynamic_ntk_inv_freq(
    rotary_dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    seq_len: int | Tensor | None,
    device=None,
):
    """Apply NTK scaling that grows with the length: none up to the trained length.

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        factor: how fast alpha = 1 + factor · (L − L₀) / L₀ grows, at least 1.
        original_max_position_embeddings: the trained length L₀.
        seq_len: the length L, one for all or int64 `[B]`; None means L₀.

    Returns:
        inv_freq, float64 `[d/2]`, or `[B, d/2]` for lengths `[B]`, and the attention
        factor 1.0.

    Raises:
        ValueError: a number out of its range, or one pair alone.
        TypeError: lengths that are not integers.

    Source: emozilla 2023, Dynamically Scaled RoPE; jquesnelle/yarn,
    `LlamaDynamicScaledRotaryEmbedding`; transformers 5.24.0.

    Example:
        >>> dynamic_ntk_inv_freq(4, 100.0, 2.0, 2048, seq_len=4096)[0].tolist()
        [1.0, 0.03333333333333333]
    """
    factor = number("factor", factor, at_least=1)
    trained = number(TRAINED, original_max_position_embeddings, at_least=1)
    lengths = _lengths(seq_len, trained, device)  # [1] or [B, 1]
    alpha = 1 + factor * (lengths - trained).clamp(min=0) / trained
    return _slowed(rope_inv_freq(rotary_dim, base, lengths.device), alpha), 1.0


def _lengths(seq_len: int | Tensor | None, trained: float, device) -> Tensor:
    """Bring lengths to float64 `[1]` or `[B, 1]`; None means the trained one."""
    if device is None and isinstance(seq_len, Tensor):
        device = seq_len.device
    lengths = torch.as_tensor(int(trained) if seq_len is None else seq_len)
    if lengths.is_floating_point() or lengths.dtype == torch.bool or lengths.dim() > 1:
        raise TypeError(f"seq_len must be an int or int64 [B], got {seq_len!r}")
    return lengths.to(exact_device(device)).double().unsqueeze(-1)


def longrope_inv_freq(
    rotary_dim: int,
    base: float,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: int,
    max_position_embeddings: float,
    seq_len: int | Tensor | None,
    attention_factor: float | None = None,
    device=None,
):
    """Divide each pair by its own searched factor, from one of two lists (LongRoPE).

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        short_factor: d/2 numbers, for lengths up to the trained one.
        long_factor: d/2 numbers, for longer ones.
        original_max_position_embeddings: the trained length L₀, at least 2.
        max_position_embeddings: the extended length L₁.
        seq_len: the length, one for all or int64 `[B]`; None means L₀.
        attention_factor: √(1 + ln(L₁/L₀) / ln L₀) if None, the same for both lists.

    Returns:
        inv_freq, float64 `[d/2]`, or `[B, d/2]` for lengths `[B]`, and the factor.

    Raises:
        ValueError: a list that has not d/2 numbers, a number out of its range.
        TypeError: lengths that are not integers.

    Source: Ding et al. 2024, LongRoPE; microsoft/LongRoPE; transformers 5.24.0.

    Example:
        >>> longrope_inv_freq(4, 100.0, [1, 1], [2, 4], 8, 64, seq_len=9)[0].tolist()
        [0.5, 0.025]
    """
    trained = number(TRAINED, original_max_position_embeddings, at_least=2)
    lengths = _lengths(seq_len, trained, device)  # [1] or [B, 1]
    inv_freq = rope_inv_freq(rotary_dim, base, lengths.device)
    short = _pair_factors("short_factor", short_factor, inv_freq)
    long = _pair_factors("long_factor", long_factor, inv_freq)
    if attention_factor is None:
        extended = number("max_position_embeddings", max_position_embeddings, 1)
        growth = math.log(max(1.0, extended / trained))
        attention_factor = math.sqrt(1 + growth / math.log(trained))
    attention = number("attention_factor", attention_factor, above=0)
    return inv_freq / torch.where(lengths > trained, long, short), attention


def _pair_factors(name: str, factors: Sequence[float], like: Tensor) -> Tensor:
    if len(factors) != len(like):
        raise ValueError(
            f"{name} needs one number for each of the {len(like)} rotated pairs, "
            f"got {len(factors)}"
        )
    checked = [number(name, factor, above=0) for factor in factors]
    return torch.tensor(checked, dtype=torch.float64, device=like.device)


def llama3_inv_freq(
    rotary_dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
    device=None,
):
    """Keep, blend or divide each pair by its turns in the trained length (Llama 3.1).

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        factor: what the slow pairs are divided by, at least 1.
        low_freq_factor: a pair with fewer turns is divided.
        high_freq_factor: a pair with more turns is kept; above `low_freq_factor`.
        original_max_position_embeddings: the trained length in tokens.

    Returns:
        inv_freq, float64 `[d/2]`, and the attention factor 1.0.

    Raises:
        ValueError: a number out of its range.

    Source: meta-llama/llama-models, `models/llama3/model.py`, `apply_scaling`.

    Example:
        >>> inv_freq, _ = llama3_inv_freq(128, 5e5, 8.0, 1.0, 4.0, 8192)
        >>> int((inv_freq == rope_inv_freq(128, 5e5)).sum())
        29
    """
    inv_freq = rope_inv_freq(rotary_dim, base, device)
    factor = number("factor", factor, at_least=1)
    low = number("low_freq_factor", low_freq_factor, above=0)
    high = number("high_freq_factor", high_freq_factor, above=low)
    trained = number(TRAINED, original_max_position_embeddings, at_least=1)
    turns = trained / wavelengths(inv_freq)
    return blend(inv_freq, factor, ((turns - low) / (high - low)).clamp(0, 1)), 1.0


def proportional_inv_freq(
    head_dim: int,
    base: float,
    partial_rotary_factor: float,
    factor: float = 1.0,
    device=None,
):
    """Turn only the first pairs of the whole head's spectrum.

    Unlike in a partial rotation, the pairs span the whole head and the exponents count
    all of it; a pair that stands still has frequency 0.

    Args:
        head_dim: the width of a head, an even number.
        base, device: as for `rope_inv_freq`.
        partial_rotary_factor: the share of pairs that turn, from 0 to 1.
        factor: what the frequencies are divided by, at least 1.

    Returns:
        inv_freq, float64 `[head_dim/2]`, and the attention factor 1.0.

    Raises:
        ValueError: a number out of its range.

    Source: Gemma 4, in transformers 5.24.0.

    Example:
        >>> proportional_inv_freq(8, 1e4, 0.5)[0].tolist()
        [1.0, 0.1, 0.0, 0.0]
    """
    width = even_width("head_dim", head_dim)
    part = share("partial_rotary_factor", partial_rotary_factor)
    inv_freq, _ = linear_inv_freq(width, base, factor, device)
    inv_freq[int(part * width // 2) :] = 0
    return inv_freq, 1.0


FUNCTIONS = {
    "linear": linear_inv_freq,
    "dynamic": dynamic_ntk_inv_freq,
    "ntk": ntk_inv_freq,
    "yarn": yarn_inv_freq,
    "longrope": longrope_inv_freq,
    "llama3": llama3_inv_freq,
    "proportional": proportional_inv_freq,
}
ARGUMENTS = {  # type: {argument: whether it must be given}
    kind: {
        name: parameter.default is parameter.empty
        for name, parameter in inspect.signature(function).parameters.items()
    }
    for kind, function in FUNCTIONS.items()
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
    if kind == "default":
        return rope_inv_freq(given["rotary_dim"], given["base"], device), 1.0
    given |= {"seq_len": seq_len, "device": device}
    for name, needed in ARGUMENTS[kind].items():
        if needed and name not in given:
            raise KeyError(f"{name}, which rope_type {kind!r} needs")
    options = {name: given[name] for name in ARGUMENTS[kind] if name in given}
    return FUNCTIONS[kind](**options)
