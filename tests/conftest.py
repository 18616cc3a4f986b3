"""Fixtures that all tests share."""

import pytest
import torch

from lib.device import available_devices


@pytest.fixture(params=available_devices())
def device(request) -> torch.device:
    """Each device type that this machine has: the CPU, and CUDA or MPS if present."""
    return torch.device(request.param)
