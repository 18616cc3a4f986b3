"""Time the rotation of q and k against peers, and against a copy of both tensors.

Shapes are those of Llama-3-8B: 32 heads of q, 8 of k, width 128. Every function gets
the tensors as a model's projections leave them in memory, `[B, T, H, D]`; those that
want `[B, H, T, D]` get the transposed view, as in their own models. Tables are ready
before the clock starts. With backward, the copy is two copies: of the tensors, and of
their gradients. All ways run in turn in each round, and freed memory is kept for the
next call, so that none pays for new pages.
"""

import argparse
import importlib.util
import pathlib
import warnings

import torch
from rotary_embedding_torch import RotaryEmbedding as PeerOfLucidrains
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama
from x_transformers.x_transformers import RotaryEmbedding as PeerOfXTransformers
from x_transformers.x_transformers import apply_rotary_pos_emb

from benchmarks.common import (
    interleave,
    keep_freed_memory,
    machine,
    medians,
    save,
    table,
)
from lib.rope import RotaryEmbedding, apply_rope

Q_HEADS, K_HEADS, WIDTH = 32, 8, 128
PACKAGES = ("transformers", "torchtune", "rotary-embedding-torch", "x-transformers")
OURS = {"interleaved": "ours, interleaved", "half": "ours, half"}
LAYOUT = {  # of the pairs, in each peer
    "transformers Llama": "half",
    "torchtune": "interleaved",
    "rotary-embedding-torch": "interleaved",
    "x-transformers": "interleaved",
    "Meta, complex": "interleaved",
}


def by_heads(x):
    """[B, T, H, D] → [B, H, T, D], a view."""
    return x.transpose(1, 2)


def ours(positions, compiled=False):
    """Both layouts, eager or compiled."""
    rotate = torch.compile(apply_rope, dynamic=True) if compiled else apply_rope

    def way(layout):
        rotary = RotaryEmbedding(WIDTH, layout=layout).to(positions.device)
        cos, sin = rotary.cos_sin(positions)
        return lambda q, k: [rotate(by_heads(x), cos, sin, layout) for x in (q, k)]

    ending = ", compiled" if compiled else ""
    return {name + ending: way(layout) for layout, name in OURS.items()}


def torchtune_class():
    """Load the one file of torchtune that is needed; the package asks for torchao."""
    package = importlib.util.find_spec("torchtune").submodule_search_locations[0]
    file = pathlib.Path(package) / "modules" / "position_embeddings.py"
    spec = importlib.util.spec_from_file_location("torchtune_positions", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RotaryPositionalEmbeddings


def llama(positions, dtype):
    """The tables of transformers' Llama in the dtype of the model, as it makes them."""
    config = LlamaConfig(head_dim=WIDTH, num_attention_heads=Q_HEADS)
    rotary = modeling_llama.LlamaRotaryEmbedding(config).to(positions.device)
    like = torch.empty(0, dtype=dtype, device=positions.device)
    cos, sin = rotary(like, positions[None])
    rotate = modeling_llama.apply_rotary_pos_emb
    return lambda q, k: rotate(by_heads(q), by_heads(k), cos, sin)


def meta(positions):
    """The complex form of Llama's own code, after its public definition."""
    inv_freq = 1e4 ** (-torch.arange(0, WIDTH, 2, device=positions.device) / WIDTH)
    angles = torch.outer(positions.float(), inv_freq)
    turns = torch.polar(torch.ones_like(angles), angles)[:, None]  # [T, 1, D/2]

    def rotate(x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)

    return lambda q, k: (rotate(q), rotate(k))


def peers(positions, dtype):
    """Each peer as its own models call it, with its cache already filled."""
    device = positions.device
    tune = torchtune_class()(WIDTH, max_seq_len=len(positions)).to(device)
    lucid = PeerOfLucidrains(WIDTH, cache_max_seq_len=len(positions)).to(device)
    freqs, scale = PeerOfXTransformers(WIDTH).to(device)(positions)
    return {
        "transformers Llama": llama(positions, dtype),
        "torchtune": lambda q, k: (tune(q), tune(k)),
        "rotary-embedding-torch": lambda q, k: [
            lucid.rotate_queries_or_keys(by_heads(x)) for x in (q, k)
        ],
        "x-transformers": lambda q, k: [
            apply_rotary_pos_emb(by_heads(x), freqs, scale) for x in (q, k)
        ],
        "Meta, complex": meta(positions),
    }


def with_backward(way, q, k):
    """One call forward and back, with upstream gradients in the result's own order."""
    upstream = [torch.randn_like(out) for out in way(q, k)]
    return lambda: torch.autograd.grad(way(q, k), (q, k), upstream)


def contenders(length, dtype, backward, device="cpu", compiled=True):
    """Name → a function of no arguments, for one length, dtype and direction."""
    generator = torch.Generator().manual_seed(0)
    q, k = (
        torch.randn(1, length, heads, WIDTH, generator=generator)
        .to(device, dtype)
        .requires_grad_(backward)
        for heads in (Q_HEADS, K_HEADS)
    )
    positions = torch.arange(length, device=device)
    quick = ours(positions, compiled=True) if compiled else {}
    ways = ours(positions) | quick | peers(positions, dtype)
    if backward:
        bare = (q.detach(), k.detach())
        calls = {name: with_backward(way, q, k) for name, way in ways.items()}
        return {"copy": lambda: [x.clone() for x in bare * 2], **calls}
    calls = {name: lambda way=way: way(q, k) for name, way in ways.items()}
    return {"copy": lambda: (q.clone(), k.clone()), **calls}


def one_row(length, dtype, backward, rounds, device="cpu", compiled=True):
    """Time one row; all figures but the copy's own are multiples of the copy."""
    calls = contenders(length, dtype, backward, device, compiled)
    seconds = medians(interleave(calls, rounds, warmup=2))
    copy = seconds.pop("copy")
    return {
        "tokens": length,
        "dtype": str(dtype).removeprefix("torch."),
        "direction": "forward, backward" if backward else "forward",
        "copy, ms": 1e3 * copy,
    } | {name: time / copy for name, time in seconds.items()}


def decoding(dtype, rounds):
    """Microseconds for one token at position 1,000: the tables, then q and k."""
    q, k = (
        torch.randn(1, 1, heads, WIDTH, dtype=dtype) for heads in (Q_HEADS, K_HEADS)
    )
    position = torch.tensor([[1000]])
    config = LlamaConfig(head_dim=WIDTH, num_attention_heads=Q_HEADS)
    peer = modeling_llama.LlamaRotaryEmbedding(config)
    rotate = modeling_llama.apply_rotary_pos_emb
    calls = {
        "transformers Llama": lambda: rotate(
            by_heads(q), by_heads(k), *peer(q, position)
        )
    }
    for layout, name in OURS.items():
        rotary = RotaryEmbedding(WIDTH, layout=layout)
        calls[name] = lambda rotary=rotary: rotary(by_heads(q), by_heads(k), position)
    seconds = medians(interleave(calls, rounds, warmup=rounds // 4))
    return {"dtype": str(dtype).removeprefix("torch.")} | {
        name: 1e6 * time for name, time in seconds.items()
    }


def beaten(rows, slack=0.05):
    """Say where a peer with the same layout is faster by more than the slack."""
    return [
        f"{peer}, {row['tokens']} tokens, {row['dtype']}, {row['direction']}: "
        f"{row[peer]:.2f}, {OURS[layout]} {row[OURS[layout]]:.2f}"
        for row in rows
        for peer, layout in LAYOUT.items()
        if row[peer] * (1 + slack) < row[OURS[layout]]
    ]


def main():
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kept = keep_freed_memory(True)
    longest = max(arguments.lengths)  # shorter ones get as much time, in more rounds
    rows = [
        one_row(length, dtype, backward, arguments.rounds * longest // length)
        for length in arguments.lengths
        for dtype in (torch.float32, torch.bfloat16)
        for backward in (False, True)
    ]
    with torch.no_grad():
        tokens = [decoding(dtype, 2000) for dtype in (torch.float32, torch.bfloat16)]
    print(table(rows), "", table(tokens), "", *beaten(rows), sep="\n")
    results = {"keeps freed memory": kept, "rotation": rows, "decoding": tokens}
    save("rope", {"machine": machine(*PACKAGES), **results})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
