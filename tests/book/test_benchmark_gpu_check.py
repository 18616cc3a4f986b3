"""`benchmarks.gpu_check`, as far as a machine without a card can tell."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import common, gpu_check

ROOT = Path(__file__).resolve().parents[2]
# torch warns of parts of its own, and a peer uses them.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
without_card = pytest.mark.skipif(torch.cuda.is_available(), reason="a card is here")


@without_card
def test_without_a_card_one_line_and_status_two():
    command = [sys.executable, "-m", "benchmarks.gpu_check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stdout == ""
    [line] = run.stderr.splitlines()
    assert "needs a CUDA card" in line
    assert torch.__version__ in line


@pytest.mark.parametrize("dtype", gpu_check.LIMITS, ids=str)
def test_differences_of_the_cpu_from_itself(dtype):
    row = gpu_check.differences("cpu", dtype)
    errors = [row[name] for name in row if name != "dtype"]
    assert len(errors) == 4
    assert max(errors) <= gpu_check.LIMITS[dtype]
    assert (max(errors) == 0) == (dtype == torch.float32)


def test_a_difference_beyond_the_limit_stops_the_run(monkeypatch):
    monkeypatch.setitem(gpu_check.LIMITS, torch.bfloat16, 1e-6)
    with pytest.raises(SystemExit, match=r"rotation.* beyond 1e-06"):
        gpu_check.differences("cpu", torch.bfloat16)


def test_rotation_beside_peers():
    rows = gpu_check.rotation_rows("cpu", tokens=32, rounds=1)
    assert [(row["dtype"], row["direction"]) for row in rows] == [
        ("float32", "forward"),
        ("float32", "forward, backward"),
        ("bfloat16", "forward"),
        ("bfloat16", "forward, backward"),
    ]
    for row in rows:
        assert {"copy, ms", "ours, half", "torchtune", "Meta, complex"} <= set(row)
        assert not [name for name in row if "compiled" in name]


def test_alibi_beside_peers(monkeypatch):
    bench_alibi = importlib.import_module("benchmarks.bench_alibi")
    quick = {n: way for n, way in bench_alibi.WAYS.items() if "compiled" not in n}
    monkeypatch.setattr(bench_alibi, "WAYS", quick)
    monkeypatch.setitem(bench_alibi.ROUNDS, 64, 1)
    monkeypatch.setattr(bench_alibi, "peak_extra_bytes", lambda way: way() is None)
    rows = gpu_check.alibi_rows("cpu", tokens=64)
    assert [row["way"] for row in rows] == [*quick, *quick]
    assert all(row["times no bias"] > 0 for row in rows)


def test_losses_beside_plain(monkeypatch):
    bench_tied_head = importlib.import_module("benchmarks.bench_tied_head")
    monkeypatch.setattr(bench_tied_head, "VOCABULARY", 512)
    monkeypatch.setattr(bench_tied_head, "TOKENS", 64)
    rows = gpu_check.loss_rows("cpu")
    assert [row["dtype"] for row in rows[:: len(bench_tied_head.WAYS)]] == [
        "float32",
        "bfloat16",
    ]
    assert rows[0]["times plain"] == 1


def test_files_bear_the_cards_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    gpu_check.write("NVIDIA H200 (80 GB)", {"a part": [{"way": "ours", "times": 1.5}]})
    assert common.load("gpu_nvidia_h200_80_gb")["a part"][0]["times"] == 1.5
    text = (tmp_path / "gpu_nvidia_h200_80_gb.md").read_text()
    assert text.startswith("# NVIDIA H200 (80 GB), torch ")
    assert "| ours | 1.5 |" in text
    assert capsys.readouterr().out.strip() == text.strip()


def test_a_card_stamps_begin_and_end_itself(monkeypatch):
    said = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            said.append("record")

        def elapsed_time(self, other):
            assert other is not self
            return 250.0

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("wait"))
    times = common.interleave({"a": lambda: said.append("call")}, rounds=1)
    assert times == {"a": [0.25]}
    assert said == ["wait", "record", "call", "record", "wait"]
