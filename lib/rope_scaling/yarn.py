"""YaRN: keep the fast pairs of RoPE, divide the slow ones, and sharpen the softmax."""

import math

import torch

from lib.checks import check_size, number
from lib.rope_scaling.config import TRAINED
from lib.rope_scaling.frequencies import blend, rope_inv_freq


def yarn_inv_freq(
    rotary_dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32,
    beta_slow: float = 1,
    truncate: bool = True,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    device=None,
):
    """Keep the fast pairs, divide the slow ones, and blend those between (YaRN).

    The blend is linear in the number of the pair, as in the released code; the paper
    has it linear in the number of turns. For the pairs of Llama 2 the speeds differ by
    up to 73 % at factor 4 and 130 % at factor 8.

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        factor: the extension, at least 1.
        original_max_position_embeddings: the trained length, where turns are counted.
        beta_fast: a pair that turns more often than this is kept.
        beta_slow: a pair that turns less often than this is divided by the factor.
        truncate: round both ends of the blend outwards to whole pairs (gpt-oss: no).
        attention_factor: returned as it is; 0.1 · ln(factor) + 1 if None.
        mscale, mscale_all_dim: if both are given (DeepSeek) and no attention factor,
            that is the quotient of 0.1 · m · ln(factor) + 1 for the two.

    Returns:
        inv_freq, float64 `[d/2]`, and the attention factor.

    Raises:
        ValueError: a number out of its range, or beta_fast below beta_slow.

    Source: Peng et al. 2023, YaRN, section 3.2; jquesnelle/yarn,
    `LlamaYaRNScaledRotaryEmbedding`; transformers 5.24.0 for the options.

    Example:
        >>> inv_freq, attention_factor = yarn_inv_freq(128, 1e4, 4.0, 4096)
        >>> ratio = inv_freq / rope_inv_freq(128)
        >>> [round(float(ratio[pair]), 4) for pair in (20, 30, 46)]
        [1.0, 0.7115, 0.25]
    """
    inv_freq = rope_inv_freq(rotary_dim, base, device)
    factor = number("factor", factor, at_least=1)
    trained = number(TRAINED, original_max_position_embeddings, at_least=1)
    slow = number("beta_slow", beta_slow, above=0)
    fast = number("beta_fast", beta_fast, at_least=slow)
    low, high = _ends(rotary_dim, base, trained, (fast, slow), truncate)
    i = torch.arange(rotary_dim // 2, dtype=torch.float64, device=inv_freq.device)
    kept = 1 - ((i - low) / (high - low)).clamp(0, 1)
    attention = _yarn_attention(factor, attention_factor, mscale, mscale_all_dim)
    return blend(inv_freq, factor, kept), attention


def _ends(rotary_dim, base, trained, turns, truncate) -> tuple[float, float]:
    """Number the pairs between which is blended: those that turn so often.

    Pair i makes trained · base^(−2i/d) / 2π turns in the trained length.
    """
    low, high = (
        rotary_dim / 2 * math.log(trained / (2 * math.pi * often), base)
        for often in turns
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low = max(low, 0)
    return low, max(min(high, rotary_dim - 1), low + 0.001)


def _yarn_attention(factor, attention_factor, mscale, mscale_all_dim) -> float:
    if attention_factor is not None:
        return number("attention_factor", attention_factor, above=0)
    if mscale and mscale_all_dim:
        return _mscale(factor, mscale) / _mscale(factor, mscale_all_dim)
    return _mscale(factor, 1.0)


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * number("mscale", weight, at_least=0) * math.log(factor) + 1.0


def yarn_softmax_scale(head_dim: int, factor: float, mscale_all_dim: float) -> float:
    """Compute the whole softmax scale of a DeepSeek model: head_dim^−½ · mscale².

    Args:
        head_dim: the width of a query or key, its rotated part and the other together.
        factor: YaRN's factor, at least 1.
        mscale_all_dim: m in mscale = 0.1 · m · ln(factor) + 1, at least 0.

    Raises:
        ValueError: a number out of its range.

    Source: DeepSeek-V3 in transformers 5.24.0, `yarn_apply_mscale`.

    Example:
        >>> round(yarn_softmax_scale(192, 40.0, 1.0), 6)
        0.135234
    """
    width = check_size("head_dim", head_dim)
    mscale = _mscale(number("factor", factor, at_least=1), mscale_all_dim)
    return width**-0.5 * mscale**2
