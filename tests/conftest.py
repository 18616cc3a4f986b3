"""Fixtures that all tests share."""

import os

import pytest
import torch
from browser import launch_chromium
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "agg")

from lib.device import available_devices

# How long an example takes says more of the machine's other work than of the code.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
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
