"""`benchmarks.common`: the timing and the files that all benchmarks share."""

import platform
import subprocess
import sys
import time

import pytest
import torch

from benchmarks import common


def test_no_function_always_runs_behind_the_same_neighbour():
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "abc"}
    times = common.interleave(functions, rounds=40)
    rounds = ["".join(calls[i : i + 3]) for i in range(0, len(calls), 3)]
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) == 6  # every order occurs
    assert [len(times[name]) for name in "abc"] == [40, 40, 40]


def test_warmup_is_called_and_not_timed():
    calls = []
    times = common.interleave({"a": lambda: calls.append(1)}, rounds=2, warmup=3)
    assert len(calls) == 5
    assert len(times["a"]) == 2


def test_seconds_are_seconds():
    times = common.interleave({"a": lambda: time.sleep(0.05), "b": int}, rounds=2)
    assert min(times["a"]) >= 0.05
    assert 0 <= min(times["b"]) < 0.05


@pytest.mark.parametrize(("rounds", "warmup"), [(0, 0), (-1, 0), (1, -1)])
def test_counts_out_of_range(rounds, warmup):
    with pytest.raises(ValueError, match=f"{rounds} and {warmup}"):
        common.interleave({"a": int}, rounds, warmup)


def test_a_saved_result_names_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    path = common.save("trial", {"seconds": {"ours": 0.5}, "note": "ä"})
    assert path == tmp_path / "trial.json"
    loaded = common.load("trial")
    assert loaded["seconds"] == {"ours": 0.5}
    assert loaded["note"] == "ä"
    assert loaded["machine"]["torch"] == torch.__version__
    assert loaded["machine"]["cpu"]
    assert loaded["machine"]["cores"] >= 1


def test_versions_of_named_packages():
    assert common.machine("pytest")["pytest"] == pytest.__version__


def test_table_aligns_rows_with_the_first_rows_columns():
    text = common.table([{"a": 1234567.0, "b": None}, {"b": "x", "a": 0.000123456}])
    assert text.splitlines()[2:] == ["| 1,234,567 | None |", "| 0.000123 | x |"]


@pytest.mark.skipif(
    not (torch.cuda.is_available() or sys.platform == "linux"),
    reason="needs CUDA, or a Linux kernel that resets a process's peak memory",
)
def test_peak_memory_is_what_a_function_takes_and_gives_back():
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def take(megabytes):
        torch.ones(megabytes * 250_000, device=device)  # 4 bytes a number

    assert common.peak_extra_bytes(lambda: take(100)) == pytest.approx(100e6, rel=0.05)
    assert common.peak_extra_bytes(lambda: take(20)) == pytest.approx(20e6, rel=0.25)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's peak memory")
def test_memory_that_was_freed_before_does_not_hide_a_peak(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    torch.ones(5_000_000)  # once freed, blocks of this size stay with the process
    blocks = [torch.ones(4_500_000) for _ in range(12)]
    held = torch.ones(4_500_000)  # above them: no free end that would go at once
    del blocks
    extra = common.peak_extra_bytes(lambda: torch.ones(25_000_000))
    assert extra == pytest.approx(100e6, rel=0.05)
    assert held[0] == 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc")
@pytest.mark.parametrize("keep", [False, True])
def test_freed_memory_stays_when_it_is_to_be_kept(keep):
    lines = [
        "import torch",
        "from benchmarks import common",
        f"assert common.keep_freed_memory({keep})",
        "before = common._resident('VmRSS')",
        "torch.ones(25_000_000)",
        "print(common._resident('VmRSS') - before)",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]  # it would outlast this test
    left = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(left) == pytest.approx(100e6 if keep else 0, abs=15e6)
