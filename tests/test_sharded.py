"""`lib.sharded`: processes against one process in float64 and plain cross-entropy."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sharded_cases as cases
import torch
import torch.nn.functional as F

from lib.sharded import (
    PeakMemory,
    VocabParallelEmbedding,
    run_processes,
    step_traffic,
)

pytestmark = pytest.mark.slow  # processes start

SIZES = (4, 2, 1)  # each loads what those before it have saved
KEPT: dict[int, list[dict]] = {}  # results by number of processes, for all tests
GONE = "no process group.*run_processes.*torchrun"


@pytest.fixture(scope="module", params=SIZES)
def ranks(request, tmp_path_factory):
    """What all ranks return at a number of processes; each is started once."""
    return results(request.param, tmp_path_factory.getbasetemp())


def results(world, folder):
    for n in SIZES[: SIZES.index(world) + 1]:
        if n not in KEPT:
            folders = [folder / f"saved_by_{n}" for n in (n, *KEPT)]
            KEPT[n] = run_processes(cases.everything, n, *folders, timeout=120)
    return KEPT[world]


def reference(case):
    """One process, float64, full logits and F.cross_entropy; no line of the library."""
    table, head, bias, layer, ids, targets = cases.problem(case)
    tied, with_bias = case.get("tied", True), case.get("bias", False)
    dtype = case.get("dtype", torch.float64)
    parts = [x.to(dtype).double() for x in (table, head, layer)]
    table, head, layer = (x.requires_grad_() for x in parts)
    head = table if tied else head
    bias = bias.requires_grad_() if with_bias else None
    rows = F.embedding(ids, table, case.get("padding_idx")) * case.get("scale", 1.0)
    hidden = (rows @ layer).tanh()
    hidden.retain_grad()
    logits = hidden @ head.T + (0 if bias is None else bias)
    options = case.get("options", {})
    if "softcap" in options:
        logits = options["softcap"] * (logits / options["softcap"]).tanh()
    reduction = case.get("reduction", "mean")
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    extra = options.get("z_loss", 0) * logits.logsumexp(-1).flatten().square()
    losses = losses + extra.where(targets.flatten() != -100, 0)
    count = max(1, int((targets != -100).sum())) if reduction == "mean" else 1
    loss = losses.view(targets.shape) if reduction == "none" else losses.sum() / count
    loss.sum().backward()
    found = {"loss": loss, "hidden": hidden.grad, "layer": layer.grad}
    found |= {"table": table.grad, "head": head.grad}
    found |= {} if bias is None else {"bias": bias.grad}
    weights = {"layer": layer, "table": table, "head": head}
    unique = {id(x): x for x in [*weights.values(), bias] if x is not None}
    torch.optim.AdamW(unique.values(), lr=0.1).step()
    found |= {f"{name} after": x for name, x in weights.items()}
    return {name: x.detach() for name, x in found.items()} | {"logits": logits.detach()}


def tolerance(case):
    dtype = case.get("dtype", torch.float64)
    return {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 0.03}[dtype]


@pytest.mark.parametrize("name", cases.CASES)
def test_equals_one_process(ranks, name):
    case = cases.CASES[name]
    wanted, limit = reference(case), tolerance(case)
    for found in ranks:
        for key, ours in found[name].items():
            theirs = wanted[key]
            if key.endswith("after") and limit > 1e-12:
                continue  # Adam divides by the gradient's size: signs of noise
            assert ours.shape == theirs.shape, key
            error = (ours.double() - theirs).abs().max()
            assert error <= limit * (1 + theirs.abs().max()), (key, error)


@pytest.mark.parametrize("name", cases.CASES)
def test_all_ranks_hold_the_same_numbers(ranks, name):
    first = ranks[0][name]
    for found in ranks[1:]:
        for key, value in found[name].items():
            assert torch.equal(value, first[key]), key


@pytest.mark.parametrize("name", ["even", "uneven", "a rank without rows", "untied"])
def test_logits_are_sharded_for_torchs_own_loss(ranks, name):
    case = cases.CASES[name]
    wanted = reference(case)
    for found in ranks:
        found = found[f"logits: {name}"]
        assert torch.allclose(found["logits"], wanted["logits"])
        if found["loss"] is not None:
            for key in ("loss", "table", "layer"):
                assert torch.allclose(found[key], wanted[key]), key


def test_losses_and_sums_are_float32_of_bfloat16(ranks):
    for found in ranks:
        assert found["bfloat16"]["loss"].dtype == torch.float32
        assert found["bfloat16"]["hidden"].dtype == torch.bfloat16
        assert found["autocast"]["dtype"] == "torch.float32"


def test_autocast_casts_as_for_a_linear_layer(ranks):
    table, *_, targets = cases.problem({"rows": 11})
    hidden = torch.linspace(-1, 1, 72).view(3, 4, 6)
    logits = F.linear(hidden.bfloat16(), table.bfloat16()).float()
    wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    for found in ranks:
        assert abs(found["autocast"]["loss"] - wanted) < 1e-2


def test_the_start_does_not_depend_on_the_number_of_processes(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    starts = {n: [r["start"] for r in results(n, base)] for n in SIZES}
    whole = starts[1][0]["whole"]
    for n, found in starts.items():
        for rank in found:
            assert torch.equal(rank["whole"], whole)
            assert torch.equal(rank["back"], whole)
            assert not torch.equal(rank["again"], whole)  # the next draw is another
        rows = torch.cat([rank["local"] for rank in found])
        assert torch.equal(rows, whole)
        assert len({tuple(row) for row in rows.tolist()}) == len(rows)  # no two equal
        sizes = [rank["bytes"] for rank in found]
        assert max(sizes) == -(-2_600 // n) * 8 * 4
    assert whole[1].eq(0).all()
    rest = whole[2:]
    assert abs(rest.mean()) < 1e-3
    assert abs(rest.std() - 0.02) < 1e-3


def test_traffic_equals_the_formula(ranks):
    tokens, width = 12, 6
    formula = step_traffic(tokens, width, torch.float32)
    for found in ranks:
        found = found["traffic"]
        assert sum(formula.values()) == 4 * tokens * (2 * width + 3)
        assert found["ours"] == {"all_reduce": sum(formula.values())}
        assert sum(found["torch"].values()) == found["calls"]["all_reduce"] == 4


def test_peak_memory_counts_each_storage_once_while_it_lives():
    before = torch.zeros(1_000)
    with PeakMemory() as memory:
        view = before.view(10, 100)[1:]  # of what was there before: nothing new
        assert memory.bytes == 0
        first = torch.zeros(1_000, dtype=torch.float64)
        again = first[10:]  # a second tensor of one storage
        del first
        assert memory.bytes == 8_000
        again.add_(1)
        torch.empty(10**9, device="meta")  # has no memory
        del again
        last = before + 1
    assert (memory.bytes, memory.peak) == (4_000, 8_000)
    del view, last


def test_traffic_of_bfloat16_sums_in_float32():
    assert step_traffic(10, 6, torch.bfloat16) == {
        "lookup": 10 * 6 * 2,
        "loss": 3 * 10 * 4,
        "backward": 10 * 6 * 4,
    }


def test_plain_shards_of_any_split(ranks):
    world = len(ranks)
    table, *_, targets = cases.problem({"rows": world * (world + 1) // 2})
    hidden = torch.linspace(-1, 1, 72, dtype=torch.float64).view(3, 4, 6)
    hidden, table = hidden.requires_grad_(), table.requires_grad_()
    loss = F.cross_entropy((hidden @ table.T).flatten(0, 1), targets.flatten())
    loss.backward()
    rows = torch.cat([found["plain_shards"]["rows"] for found in ranks])
    assert torch.allclose(rows, table.grad)
    for found in ranks:
        assert torch.allclose(found["plain_shards"]["loss"], loss)
        assert torch.allclose(found["plain_shards"]["hidden"], hidden.grad)


WRONG = {
    "too few rows": ("ValueError", "rows"),
    "another split": ("ValueError", "rank 0"),
    "another width": ("ValueError", "width"),
    "another dtype": ("ValueError", "rank 0", "float32", "rank 1 of torch.float64"),
    "sizes that disagree": ("ValueError", "10", "11"),
    "id too large": ("IndexError", "id 10", "10 rows, ids 0 to 9"),
    "id below zero": ("IndexError", "id -1", "10 rows"),
    "id of floats": ("TypeError", "float32"),
    "target too large": ("IndexError", "target 10", "10 rows, targets 0 to 9"),
    "target below zero": ("IndexError", "target -1"),
    "no rows at all": ("ValueError", "num_embeddings", "0"),
    "chunk of nothing": ("ValueError", "chunk_size", "0"),
    "a reduction": ("ValueError", "median"),
    "sparse": ("ValueError", "sparse"),
    "no table": ("TypeError", "VocabParallelEmbedding"),
    "hidden width": ("ValueError", "5"),
}
TOGETHER = ("another split", "another width", "another dtype", "sizes that disagree")


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_has_a_clear_error_on_every_rank(ranks, name):
    said = [found["mistakes"][name] for found in ranks]
    if len(ranks) == 1 and name in TOGETHER:
        assert (said == [None]) == (name != "another split")  # which has a row more
        return
    assert len(set(said)) == 1
    for part in WRONG[name]:
        assert part in said[0]


FROM_ONE = {
    "another std": ("ValueError", "std", "rank 0 has 1.0", "10.0"),
    "another scale": ("ValueError", "scale", "rank 0 has 1.0", "2.0"),
    "another padding row": ("ValueError", "padding_idx", "rank 0 has 2", "has 3"),
    "a padding row outside": ("IndexError", "padding_idx 12", "12 rows"),
    "one without a shard": ("ValueError", "no shard", "rank"),
    "a sparse one": ("ValueError", "sparse"),
}


@pytest.mark.parametrize("name", FROM_ONE)
def test_a_mistake_of_one_rank_is_an_error_on_all(ranks, name):
    for found in ranks:
        said = found["mistakes_of_one_rank"][name]
        if len(ranks) == 1:
            assert said is None
            continue
        for part in FROM_ONE[name]:
            assert part in said


def test_a_bias_is_split_as_the_table_is(ranks):
    logits = torch.arange(12.0).expand(2, 12)
    wanted = F.cross_entropy(logits, torch.tensor([1, 2]))
    for found in ranks:
        said = found["biases"]
        assert torch.allclose(said["right"], wanted)
        assert "TypeError" in said["whole"]
        assert "split by rows" in said["whole"]
        assert "Shard(0)" in said["everywhere"]
        assert "TypeError" in said["split, of a plain table"] or len(ranks) > 1
        assert "(3,) does not fit a table of 12 rows" in said["too short"]


def test_what_all_ranks_hold_alike_may_be_a_dtensor(ranks):
    for found in ranks:
        found = found["hidden_states_of_a_kind"]
        assert torch.equal(found["alike"], found["plain"])
        assert found["alike ids"] is None
        for name in ("split", "split ids"):
            assert "must be the same on all ranks" in found[name]


def test_gradients_are_clipped_together(ranks):
    wanted = reference({"rows": 11})
    parts = [wanted["table"], wanted["layer"]]
    weights = [torch.zeros_like(x).requires_grad_() for x in parts]
    for weight, gradient in zip(weights, parts, strict=True):
        weight.grad = gradient.clone()
    length = torch.nn.utils.clip_grad_norm_(weights, 0.01)
    for found in ranks:
        found = found["clipped"]
        assert torch.allclose(found["length"], length)
        for ours, weight in zip(found["grads"], weights, strict=True):
            assert torch.allclose(ours, weight.grad)


def test_states_of_one_process_and_heads_that_are_tied(ranks):
    table = cases.problem({"rows": 11})[0]
    for found in ranks:
        found = found["states"]
        assert torch.equal(found["whole"], 2 * table)
        assert "1 of 11 rows" in found["differs"]
        assert "VocabParallelHead.untied" in found["untie"]
        assert found["owned"] == [1, 0]
        assert found["tied"]
        assert found["meta"] == (True, True, (11,))
        assert "leave group out" in found["group"]


def test_traffic_is_what_goes_in(ranks):
    many = {"reduce_scatter_tensor": 40 * len(ranks)}
    names = "all_reduce", "broadcast", "all_gather", "all_gather_into_tensor"
    for found in ranks:
        assert found["collectives"] == dict.fromkeys(names, 40) | many


def test_frozen_parts_second_passes_and_checkpointing(ranks):
    table, *_, targets = cases.problem({"rows": 11})
    hidden = torch.linspace(-1, 1, 72, dtype=torch.float64).view(3, 4, 6)
    hidden, table = hidden.requires_grad_(), table.requires_grad_()
    loss = F.cross_entropy((hidden @ table.T).flatten(0, 1), targets.flatten())
    loss.backward()
    wanted = {"hidden alone": hidden.grad, "table alone": table.grad}
    wanted |= {"twice": 2 * hidden.grad, "checkpointed": hidden.grad, "no grad": loss}
    for found in ranks:
        found = found["parts_of_a_backward_pass"]
        for name, value in wanted.items():
            assert torch.allclose(found[name], value), name


def test_a_checkpoint_is_loaded_at_another_number_of_processes(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    wanted = cases.problem({"rows": 11})[0].float()
    for n, before in {2: 1, 1: 2}.items():
        for found in results(n, base):
            assert len(found["loaded"]) == before
            for keys, table in found["loaded"]:
                assert keys == ["layer", "table.weight"]  # one key for the pair
                assert torch.equal(table, wanted)


def test_without_processes_the_error_says_how_to_start_some():
    with pytest.raises(RuntimeError, match=GONE):
        VocabParallelEmbedding(10, 4)


def stopped(function, folder, timeout, expected):
    """Run what fails; returns message and seconds, and sees that none is left."""
    begin = time.monotonic()
    with pytest.raises(expected) as caught:
        run_processes(function, 2, folder, timeout=timeout)
    seconds = time.monotonic() - begin
    pids = [int(file.read_text()) for file in folder.glob("*.pid")]
    assert len(pids) == 2
    assert not any(cases.is_alive(pid) for pid in pids)
    return str(caught.value), seconds


def test_a_killed_worker_ends_the_run(tmp_path):
    said, seconds = stopped(cases.killed, tmp_path, 60, RuntimeError)
    assert "rank 1" in said
    assert "SIGKILL" in said
    assert seconds < 40


def test_a_hung_worker_ends_the_run(tmp_path):
    # Starting is a part of the time, and takes long where other tests run beside it.
    said, seconds = stopped(cases.hung, tmp_path, 40, TimeoutError)
    assert "40 s" in said
    assert "rank 1" in said
    assert "oversleep" in said
    assert seconds < 50


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (cases.failing, "LookupError: the row of rank 1 is gone"),
        (cases.aborting, "LookupError: the row of rank 1 is gone"),
        (cases.leaving, "rank 1 of 2 ended with exit status 3"),
        (cases.quitting, "SystemExit: 0"),
    ],
)
def test_a_worker_s_end_names_rank_and_cause(tmp_path, function, part):
    said, _ = stopped(function, tmp_path, 60, RuntimeError)
    assert said.startswith("rank 1 of 2")
    assert part in said


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")
def test_what_a_worker_has_started_ends_with_it(tmp_path):
    stopped(cases.parent, tmp_path, 60, RuntimeError)
    children = [int(file.read_text()) for file in tmp_path.glob("*.child")]
    end = time.monotonic() + 5
    while any(cases.is_running(pid) for pid in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert children
    assert not any(cases.is_running(pid) for pid in children)


SCRIPT = """
from lib.sharded import run_processes
import torch.distributed as dist
print(run_processes(dist.get_rank, 1, timeout=100))
"""


def test_a_script_without_its_guard_is_told_where_to_look(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    command = [sys.executable, str(tmp_path / "script.py")]
    options = {"capture_output": True, "text": True, "timeout": 100}
    ran = subprocess.run(command, env=environment, **options)
    assert ran.returncode == 1
    assert "rank 0 of 1 ended with exit status 1 and no result" in ran.stderr


def test_two_runs_at_once_of_a_function_that_sends_nothing():
    found = {}

    def run(name):
        found[name] = run_processes(cases.rank_and_pid, 2, timeout=90)

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [rank for rank, _ in found["a"]] == [0, 1]
    assert len({pid for name in "ab" for _, pid in found[name]}) == 4


@pytest.mark.parametrize("processes", [0, -1])
def test_a_number_of_processes_below_one(processes):
    with pytest.raises(ValueError, match="processes must be at least 1"):
        run_processes(cases.rank_and_pid, processes)


def test_torchrun_prints_the_table():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "lib.sharded"]
    root = Path(__file__).resolve().parents[1]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=root, env=environment, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert "2 processes" in ran.stdout
    assert "traffic" in ran.stdout
