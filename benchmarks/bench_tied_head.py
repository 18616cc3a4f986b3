"""The loss over a real vocabulary: time, memory and error beside plain and two peers.

`python -m benchmarks.bench_tied_head` prints three tables and saves
`results/tied_head.json`, from which chapter 16 takes what a step's memory and work are.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.common import (
    interleave,
    machine,
    medians,
    peak_extra_bytes,
    save,
    table,
)
from lib.tied_head import tied_cross_entropy

VOCABULARY, WIDTH, TOKENS = 128_256, 1_024, 4_096
ERROR_TOKENS, ROUNDS = 256, 2
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight), targets)


def vocabulary_chunks(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return tied_cross_entropy(hidden, weight, targets)


def token_chunks(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return tied_cross_entropy(hidden, weight, targets, chunk_by="tokens")


def torch_chunks(
    hidden: Tensor, weight: Tensor, targets: Tensor, tokens: int = 256
) -> Tensor:
    """With chunks as long as ours; torch's own choice is among the OPTIONS."""
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=tokens)
    return F.linear_cross_entropy(hidden, weight, targets, options=options)


def torch_default(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """With the size of chunk that torch chooses."""
    options = nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(hidden, weight, targets, options=options)


def torchtune_loss() -> nn.Module:
    """Load the one file of torchtune that is needed; the package asks for torchao."""
    package = importlib.util.find_spec("torchtune").submodule_search_locations[0]
    file = Path(package, "modules", "loss", "ce_chunked_output_loss.py")
    spec = importlib.util.spec_from_file_location("torchtune_loss", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CEWithChunkedOutputLoss(num_output_chunks=8)


TORCHTUNE = torchtune_loss()


def torchtune_chunks(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    parts = hidden[None].chunk(TORCHTUNE.num_output_chunks, dim=1)
    return TORCHTUNE([F.linear(part, weight) for part in parts], targets[None])


WAYS: dict[str, Loss] = {
    "plain": plain,
    "vocabulary chunks": vocabulary_chunks,
    "token chunks": token_chunks,
    "torch, chunks of 256": torch_chunks,
    "torchtune, 8 chunks": torchtune_chunks,
}

# The settings of torch's function, at a size at which the slowest takes seconds.
FEW_TOKENS, NARROW = 512, 256
OPTIONS: dict[str, Loss] = {
    "plain": plain,
    "no options": F.linear_cross_entropy,
    "default options": torch_default,
    **{f"chunks of {n}": partial(torch_chunks, tokens=n) for n in (16, 64, 256)},
}


def problem(
    tokens: int,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    width: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states of length √d, a table with GPT-2's start, random targets."""
    generator, width = torch.Generator().manual_seed(0), width or WIDTH
    hidden = torch.randn(tokens, width, generator=generator)
    weight = 0.02 * torch.randn(VOCABULARY, width, generator=generator)
    targets = torch.randint(0, VOCABULARY, (tokens,), generator=generator)
    hidden, weight = (x.to(device, dtype).requires_grad_() for x in (hidden, weight))
    return hidden, weight, targets.to(device)


class Step:
    """Loss and gradients by one way; notes memory and processor time of every call."""

    def __init__(self, loss: Loss, inputs: tuple[Tensor, Tensor, Tensor]):
        self.loss, self.inputs = loss, inputs
        self.extra, self.processor = [], []

    def run(self) -> None:
        hidden, weight, _ = self.inputs
        begin = time.process_time()
        self.loss(*self.inputs).backward()
        self.processor.append(time.process_time() - begin)
        hidden.grad = weight.grad = None

    def __call__(self) -> None:
        hidden, weight, _ = self.inputs
        gradients = hidden.nbytes + weight.nbytes
        self.extra.append(peak_extra_bytes(self.run) - gradients)


def steps(device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[dict]:
    """Time each way in turn, with its memory beyond inputs and their gradients."""
    inputs = problem(TOKENS, device, dtype)
    ways = {name: Step(loss, inputs) for name, loss in WAYS.items()}
    seconds = medians(interleave(ways, rounds=ROUNDS))
    processor = medians({name: way.processor for name, way in ways.items()})
    extra = {name: max(way.extra) for name, way in ways.items()}
    return [
        {
            "way": name,
            "seconds": seconds[name],
            "times plain": seconds[name] / seconds["plain"],
            "processor time, times plain": processor[name] / processor["plain"],
            "extra MB": extra[name] / 1e6,
            "plain ÷ extra": extra["plain"] / extra[name],
        }
        for name in ways
    ]


def options_of_torch() -> dict[str, object]:
    """Memory and processor time of torch's function by setting, in three rounds."""
    inputs = problem(FEW_TOKENS, width=NARROW)
    ways = {name: Step(loss, inputs) for name, loss in OPTIONS.items()}
    interleave(ways, rounds=3)
    rows = [
        {
            "way": name,
            "processor s": statistics.median(way.processor),
            "least s": min(way.processor),
            "most s": max(way.processor),
            "extra MB": max(way.extra) / 1e6,
        }
        for name, way in ways.items()
    ]
    return {"V": VOCABULARY, "width": NARROW, "tokens": FEW_TOKENS, "step": rows}


def errors() -> list[dict]:
    """Compare loss and gradients with float64, relative to its largest gradient."""
    hidden, weight, targets = problem(ERROR_TOKENS)
    exact = [x.detach().double().requires_grad_() for x in (hidden, weight)]
    truth = plain(*exact, targets)
    wanted = torch.autograd.grad(truth, exact)
    rows = []
    for name, loss in WAYS.items():
        value = loss(hidden, weight, targets)
        found = torch.autograd.grad(value, (hidden, weight))
        largest = [
            ((ours - right).abs().max() / right.abs().max()).item()
            for ours, right in zip(found, wanted, strict=True)
        ]
        row = {"way": name, "loss": abs(value.item() - truth.item())}
        rows.append(row | dict(zip(("hidden states", "table"), largest, strict=True)))
    return rows


def main() -> None:
    step_rows = steps()
    shape = f"V = {VOCABULARY:,}, width {WIDTH:,}, fp32"
    print(f"{shape}, {TOKENS:,} tokens, loss and gradients\n{table(step_rows)}\n")
    error_rows = errors()
    print(f"{shape}, {ERROR_TOKENS} tokens, errors\n{table(error_rows, digits=2)}")
    options = options_of_torch() | {"machine": machine()}
    shape = f"width {NARROW}, {FEW_TOKENS} tokens"
    print(f"\nF.linear_cross_entropy, {shape}\n{table(options['step'])}")
    sizes = {"V": VOCABULARY, "width": WIDTH, "tokens": TOKENS}
    payload = {"sizes": sizes, "step": step_rows, "error": error_rows}
    payload["options"] = options
    save("tied_head", {"machine": machine("torchtune"), **payload})


if __name__ == "__main__":
    main()
