"""Fixtures that all tests share."""

import os

import pytest
import torch
from browser import launch_chromium

os.environ.setdefault("MPLBACKEND", "agg")

from lib.device import available_devices

collect_ignore = ["offline"]  # importing it closes the network for the whole process


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium a worker: Playwright allows one at a time."""
    with launch_chromium() as chromium:
        yield chromium


@pytest.fixture(params=available_devices())
def device(request) -> torch.device:
    """Each device type that this machine has: the CPU, and CUDA or MPS if present."""
    return torch.device(request.param)
