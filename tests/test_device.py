"""`lib.device`: the choice of a device and the one seed."""

import random

import numpy as np
import pytest
import torch

from lib import device as module
from lib.device import DEVICE_VARIABLE, available_devices, pick_device, seed_everything


def pretend(monkeypatch, cuda=0, mps=False):
    monkeypatch.delenv(DEVICE_VARIABLE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(2, True, "cuda"), (1, False, "cuda"), (0, True, "mps"), (0, False, "cpu")],
)
def test_order_is_cuda_mps_cpu(monkeypatch, cuda, mps, expected):
    pretend(monkeypatch, cuda, mps)
    assert pick_device() == torch.device(expected)


@pytest.mark.parametrize("wanted", ["cpu", "cuda", "cuda:1", " cpu "])
def test_environment_variable_overrides(monkeypatch, wanted):
    pretend(monkeypatch, cuda=2)
    monkeypatch.setenv(DEVICE_VARIABLE, wanted)
    assert pick_device() == torch.device(wanted.strip())


def test_empty_variable_is_no_override(monkeypatch):
    pretend(monkeypatch, cuda=1)
    monkeypatch.setenv(DEVICE_VARIABLE, "")
    assert pick_device() == torch.device("cuda")


@pytest.mark.parametrize(
    "wanted", ["gpu", "cuda:2", "mps", "cuda:", "cuda:-1", "tpu:0"]
)
def test_unknown_device_lists_what_exists(monkeypatch, wanted):
    pretend(monkeypatch, cuda=2)
    monkeypatch.setenv(DEVICE_VARIABLE, wanted)
    with pytest.raises(ValueError, match="cuda:0, cuda:1, cpu") as error:
        pick_device()
    assert repr(wanted) in str(error.value)


def test_cpu_is_always_last():
    assert available_devices()[-1] == "cpu"


def test_one_seed_for_all_generators(device):
    def draw():
        return (
            random.random(),
            np.random.rand(),  # noqa: NPY002
            torch.rand(3).tolist(),
            torch.rand(3, device=device).tolist(),
        )

    first_generator = seed_everything(7)
    first = draw()
    second_generator = seed_everything(7)
    assert draw() == first
    assert torch.equal(
        torch.rand(3, generator=first_generator),
        torch.rand(3, generator=second_generator),
    )
    seed_everything(8)
    assert draw() != first


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seed_out_of_range_names_it(seed):
    with pytest.raises(ValueError, match=str(seed)):
        module.seed_everything(seed)


@pytest.mark.parametrize("seed", [1.0, "1", None, True])
def test_seed_of_another_type(seed):
    with pytest.raises(TypeError, match="int"):
        module.seed_everything(seed)
