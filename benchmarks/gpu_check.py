"""What a graphics card makes of the book, in some five minutes.

`python -m benchmarks.gpu_check` runs the library's tests on CUDA, compares results on
the card with the CPU's in fp32 and bf16, measures rotation, ALiBi and the loss beside
their peers with the functions of the three benchmarks, and trains chapter 14's
experiment at a larger size. It saves `results/gpu_<card>.json` and the same as tables
in `results/gpu_<card>.md`. Without a CUDA card it says so and exits with status 2.
"""

import re
import subprocess
import sys
from dataclasses import replace

import torch

from benchmarks.common import RESULTS, machine, save, table
from lib.alibi import alibi_attention, alibi_slopes
from lib.rope import RotaryEmbedding
from lib.tied_head import tied_cross_entropy

MISSING = 2  # exit status
LIMITS = {torch.float32: 1e-4, torch.bfloat16: 5e-2}  # of differences, values near 1
ENCODINGS = ("none", "RoPE", "ALiBi")  # of chapter 14; each is trained once
STEPS = 600
PYTEST = ["-m", "pytest", "-q", "-n", "4", "--dist", "loadfile", "-k", "cuda"]
TESTS = ["-m", "not slow", "--ignore=tests/book", "tests"]


def missing_card() -> str:
    """Say what this machine lacks, or nothing."""
    if torch.cuda.is_available():
        return ""
    return f"gpu_check needs a CUDA card, and torch {torch.__version__} sees none"


def library_tests() -> list[dict]:
    """Run the tests that take a device, on the card alone; pytest's own last line."""
    command = [sys.executable, *PYTEST, *TESTS]
    run = subprocess.run(
        command, cwd=RESULTS.parents[1], capture_output=True, text=True
    )
    last = (run.stdout.strip().splitlines() or [run.stderr.strip()])[-1]
    return [{"exit status": run.returncode, "last line": last.strip("= ")}]


def results_on(device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Rotate, attend and lose on one device, from inputs that are alike everywhere."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 8, 512, 64, generator=generator).to(device, dtype)
    hidden = torch.randn(256, 64, generator=generator).to(device, dtype)
    weight = 0.1 * torch.randn(1000, 64, generator=generator)
    weight = weight.to(device, dtype).requires_grad_()
    targets = torch.randint(0, 1000, (256,), generator=generator).to(device)
    rotary = RotaryEmbedding(64).to(device)
    turned, _ = rotary(q, k, torch.arange(512, device=device))
    loss = tied_cross_entropy(hidden, weight, targets)
    loss.backward()
    return {
        "rotation": turned,
        "ALiBi": alibi_attention(q, k, v, alibi_slopes(8).to(device)),
        "tied loss": loss.detach(),
        "its gradient": weight.grad,
    }


def differences(device: str, dtype: torch.dtype) -> dict:
    """Compare with the CPU in fp32, from inputs rounded to the same dtype."""
    found, wanted = results_on(device, dtype), results_on("cpu", torch.float32)
    row: dict = {"dtype": str(dtype).removeprefix("torch.")}
    for name, exact in wanted.items():
        row[name] = (found[name].cpu().float() - exact).abs().max().item()
    too_far = [name for name in wanted if row[name] > LIMITS[dtype]]
    if too_far:
        raise SystemExit(f"{device}, {dtype}: {too_far} beyond {LIMITS[dtype]}: {row}")
    return row


# Each part imports its benchmark when it runs: a machine without a card is told so at
# once, and needs no peers for it.


def rotation_rows(device: str, tokens: int = 4096, rounds: int = 20) -> list[dict]:
    """Rotation beside its peers, as multiples of copying q and k."""
    from benchmarks.bench_rope import one_row

    return [
        one_row(tokens, dtype, backward, rounds, device, compiled=False)
        for dtype in LIMITS
        for backward in (False, True)
    ]


def alibi_rows(device: str, tokens: int = 4096) -> list[dict]:
    """ALiBi beside its peers in fp32, as multiples of attention without a bias."""
    from benchmarks.bench_alibi import peaks, rows_of, seconds, set_up_seconds

    rows = []
    for backward in (False, True):
        memory = peaks(tokens, backward, device)
        found = seconds(tokens, backward, device)
        set_up = set_up_seconds(tokens, backward, device)
        rows += rows_of(tokens, backward, found, set_up, memory)
    return rows


def loss_rows(device: str) -> list[dict]:
    """The loss over a real vocabulary, as multiples of the plain one."""
    from benchmarks.bench_tied_head import steps

    kinds = {str(dtype).removeprefix("torch."): dtype for dtype in LIMITS}
    return [
        {"dtype": kind} | row
        for kind, dtype in kinds.items()
        for row in steps(device, dtype)
    ]


def length_rows() -> list[dict]:
    """Chapter 14 with its setting for a card, in fewer steps and one seed."""
    from lib.length_experiment import SETTINGS, compare, pick_encodings

    setting = replace(SETTINGS["gpu"], steps=STEPS)
    results = compare(pick_encodings(*ENCODINGS), setting)
    return [
        {"encoding": result.encoding}
        | {f"loss at {length:,}": loss for length, loss in result.loss.items()}
        for result in results
    ]


def file_name(card: str) -> str:
    """Make a file's name of a card's: "NVIDIA H200" → "gpu_nvidia_h200"."""
    return "gpu_" + re.sub(r"[^a-z0-9]+", "_", card.lower()).strip("_")


def write(card: str, parts: dict[str, list[dict]]) -> None:
    """Save the parts as JSON and as tables, named after the card."""
    path = save(file_name(card), {"machine": machine("transformers"), **parts})
    tables = [f"## {name}\n\n{table(rows)}\n" for name, rows in parts.items()]
    text = f"# {card}, torch {torch.__version__}\n\n" + "\n".join(tables)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def main() -> None:
    """Measure all parts on the first card, print and save them."""
    if missing := missing_card():
        print(missing, file=sys.stderr)
        raise SystemExit(MISSING)
    parts = {
        "library tests": library_tests(),
        "differences from the CPU": [differences("cuda", dtype) for dtype in LIMITS],
        "rotation, times a copy": rotation_rows("cuda"),
        "ALiBi, times no bias": alibi_rows("cuda"),
        "tied loss, times plain": loss_rows("cuda"),
        "chapter 14, one seed": length_rows(),
    }
    write(torch.cuda.get_device_name(), parts)
    raise SystemExit(parts["library tests"][0]["exit status"])


if __name__ == "__main__":
    main()
