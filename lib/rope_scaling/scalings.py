"""Scalings that are the same at every length: PI, NTK, Llama 3.1, proportional.

Those that change with the length are next door, in `by_length`, and YaRN has a module
of its own.
"""

from lib.checks import even_width, number, share
from lib.rope_scaling.config import TRAINED
from lib.rope_scaling.frequencies import blend, rope_inv_freq, slow_down, wavelengths


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
    return slow_down(rope_inv_freq(rotary_dim, base, device), alpha), 1.0


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
