"""Attention with ALiBi: what the bias costs, beside causal attention without one.

`python -m benchmarks.bench_alibi` prints a table and saves `results/alibi.json`. What
many calls can share, a mask or a bias, is set-up, and told from the call. Time is also
a ratio to `scaled_dot_product_attention` with `is_causal=True` and no bias. Memory is
a peak: "set-up MB" above the inputs, "call MB" above what set-up has left, "extra MB"
above the inputs over both. Compiling is off clock and ruler.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import BloomConfig, MptConfig
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor
from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor

from benchmarks.common import (
    interleave,
    keep_freed_memory,
    machine,
    medians,
    peak_extra_bytes,
    save,
    table,
)
from lib.alibi import alibi_attention, alibi_slopes

HEADS, WIDTH = 8, 64
SLOPES = alibi_slopes(HEADS)
ROUNDS = {1024: 15, 2048: 9, 4096: 5, 8192: 3}  # timed calls at each length
Way = Callable[[], Tensor]


class Inputs:
    """q, k and v of one length, also as the one tensor that BLOOM and MPT take."""

    def __init__(self, tokens: int, device: str = "cpu"):
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(3, 1, HEADS, tokens, WIDTH, generator=generator)
        q, k, v = drawn.to(device)
        self.tokens, self.device = tokens, device
        self.apart = [x.clone().requires_grad_() for x in (q, k, v)]  # [1, H, T, D]
        stacked = torch.stack([q, k, v])[:, 0]  # [3, H, T, D]
        by_head = stacked.permute(2, 1, 0, 3).reshape(1, tokens, -1)  # BLOOM: H, 3, D
        by_part = stacked.permute(2, 0, 1, 3).reshape(1, tokens, -1)  # MPT: 3, H, D
        self.by_head = by_head.clone().requires_grad_()
        self.by_part = by_part.clone().requires_grad_()


def plain(given: Inputs) -> Way:
    """SDPA, causal, no bias: the unit of time."""
    return lambda: scaled_dot_product_attention(*given.apart, is_causal=True)


def ours(given: Inputs) -> Way:
    """`lib.alibi.alibi_attention`."""
    return lambda: alibi_attention(*given.apart, SLOPES)


def bias_mask(given: Inputs) -> Way:
    """SDPA with the whole bias as its mask."""
    bias = whole_bias(given.tokens, given.device)
    return lambda: scaled_dot_product_attention(*given.apart, attn_mask=bias)


def whole_bias(tokens: int, device: str) -> Tensor:
    """Write the bias `[1, H, T, T]` in place, so that no copy lies beside it."""
    bias = torch.empty(1, HEADS, tokens, tokens, device=device)
    places = torch.arange(tokens, device=device, dtype=torch.float32)
    for head, slope in enumerate(SLOPES.tolist()):
        torch.sub(places, places[:, None], out=bias[0, head]).mul_(slope)
    return bias.masked_fill_(places > places[:, None], -math.inf)


def bloom(given: Inputs) -> Way:
    """transformers' BloomAttention with its projections taken out."""
    config = BloomConfig(hidden_size=HEADS * WIDTH, n_head=HEADS)
    layer = BloomAttention(config, layer_idx=0).eval()
    layer.query_key_value, layer.dense = nn.Identity(), nn.Identity()
    real = torch.ones(1, given.tokens, device=given.device)
    alibi = build_alibi_tensor(real, HEADS, torch.float32)
    square, lowest = (given.tokens, given.tokens), torch.finfo(torch.float32).min
    mask = torch.full(square, lowest, device=given.device).triu_(1)[None, None]
    residual = torch.zeros(1, given.tokens, HEADS * WIDTH, device=given.device)
    return lambda: _heads(layer(given.by_head, residual, alibi, mask)[0])


def mpt(given: Inputs) -> Way:
    """transformers' MptAttention with its projections taken out."""
    config = MptConfig(d_model=HEADS * WIDTH, n_heads=HEADS, max_seq_len=given.tokens)
    layer = MptAttention(config, layer_idx=0).eval()
    layer.Wqkv, layer.out_proj = nn.Identity(), nn.Identity()
    bias = build_mpt_alibi_tensor(HEADS, given.tokens, device=given.device)
    places = torch.arange(given.tokens, device=given.device)
    mask = places > places[:, None]
    return lambda: _heads(layer(given.by_part, bias, attention_mask=mask)[0])


def _heads(mixed: Tensor) -> Tensor:
    return mixed.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)  # [1, H, T, D]


def causal(_: Tensor, __: Tensor, query: Tensor, key: Tensor):
    """Causality as a `mask_mod` of flex_attention."""
    return query >= key


compiled_flex = torch.compile(flex_attention, dynamic=False)
compiled_mask = torch.compile(create_block_mask, dynamic=False)  # else it holds T × T


@cache
def price_on(device: str):
    """Make the `score_mod` once: another one would be compiled anew."""
    slopes = SLOPES.to(device)

    def add_bias(score: Tensor, _: Tensor, head: Tensor, query: Tensor, key: Tensor):
        return score + slopes[head] * (key - query)

    return add_bias


def flex(given: Inputs) -> Way:
    """flex_attention and its block mask; the first of both at a length compiles."""
    size = given.tokens
    mask = compiled_mask(causal, None, None, size, size, given.device)
    q, k, v = (x.detach() for x in given.apart)
    price = price_on(given.device)
    return lambda: compiled_flex(q, k, v, score_mod=price, block_mask=mask)


WAYS = {
    "no bias": plain,
    "lib.alibi": ours,
    "transformers BLOOM": bloom,
    "transformers MPT": mpt,
    "SDPA, bias as mask": bias_mask,
    "flex_attention, compiled": flex,  # has no backward pass on a CPU
}


def with_backward(way: Way, given: Inputs) -> Callable[[], object]:
    """Bind one call and its gradients."""
    leaves = [*given.apart, given.by_head, given.by_part]
    return lambda: torch.autograd.grad(way().sum(), leaves, allow_unused=True)


def compared(tokens: int, backward: bool) -> list[str]:
    """Name the ways to run: the slow ones sit out the longest backward pass."""
    if not backward:
        return list(WAYS)
    return list(WAYS)[: 3 if tokens == max(ROUNDS) else 5]


def bind(way: Way, given: Inputs, backward: bool) -> Callable[[], object]:
    """Bind one call, with or without its gradients."""
    return with_backward(way, given) if backward else torch.no_grad()(way)


def peaks(tokens: int, backward: bool, device: str = "cpu") -> dict[str, dict]:
    """Take the peaks of each way, in bytes."""
    given = Inputs(tokens, device)
    names = compared(tokens, backward)
    return {name: peaks_of(WAYS[name], given, backward) for name in names}


def peaks_of(make: Callable[[Inputs], Way], given: Inputs, backward: bool) -> dict:
    """Take the peak of set-up, of a call that has it ready, and of both together."""

    def both() -> None:
        bind(make(given), given, backward)()

    both()  # compiles
    found = {
        "set-up": peak_extra_bytes(lambda: make(given)),
        "extra": peak_extra_bytes(both),
    }
    ready = bind(make(given), given, backward)
    return found | {"call": peak_extra_bytes(ready)}


def seconds(tokens: int, backward: bool, device: str = "cpu") -> dict[str, float]:
    """Time one call of each way, in turn."""
    given = Inputs(tokens, device)
    ways = {name: WAYS[name](given) for name in compared(tokens, backward)}
    bound = {name: bind(way, given, backward) for name, way in ways.items()}
    if not backward:
        check(bound)
    return medians(interleave(bound, rounds=ROUNDS[tokens]))


def set_up_seconds(
    tokens: int, backward: bool, device: str = "cpu"
) -> dict[str, float]:
    """Time what each way prepares before its calls, in turn."""
    given = Inputs(tokens, device)
    names = compared(tokens, backward)
    made = {name: lambda name=name: WAYS[name](given) for name in names}
    return medians(interleave(made, rounds=ROUNDS[tokens], warmup=1))


def check(ways: dict[str, Way]) -> None:
    """All ways must agree, as far as fp32 lets the absolute forms (BLOOM's 2e-3)."""
    outputs = {name: way() for name, way in ways.items() if name != "no bias"}
    for name, out in outputs.items():
        assert (out - outputs["SDPA, bias as mask"]).abs().max() < 5e-3, name


def rows_of(
    tokens: int, backward: bool, found: dict, set_up: dict, memory: dict
) -> list[dict]:
    """Lay out the times and peaks of one length and direction, a row a way."""
    return [
        {
            "T": tokens,
            "pass": "forward + backward" if backward else "forward",
            "way": name,
            "times no bias": found[name] / found["no bias"],
            "seconds": found[name],
            "set-up seconds": set_up[name],
            "set-up MB": memory[name]["set-up"] / 1e6,
            "call MB": memory[name]["call"] / 1e6,
            "extra MB": memory[name]["extra"] / 1e6,
        }
        for name in found
    ]


def main() -> None:
    print(f"{HEADS} heads, width {WIDTH}, fp32", flush=True)
    passes = [(tokens, backward) for backward in (False, True) for tokens in ROUNDS]
    keep_freed_memory(False)
    memory = {run: peaks(*run) for run in passes}
    keep_freed_memory(True)
    rows = []
    for run in passes:
        measured = rows_of(*run, seconds(*run), set_up_seconds(*run), memory[run])
        print(table(measured), flush=True)
        rows += measured
    save("alibi", {"machine": machine("transformers"), "attention": rows})


if __name__ == "__main__":
    main()
