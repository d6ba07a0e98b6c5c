"""Checks of emulated devices that run in one fresh process, each reported by a test of its own."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterable

import pytest

import emu

LOADED_ONCE = (
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint.state_dict",
)
"""What PEs that train import, some seconds each: loaded by the process that they are forked from."""


def refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    """Assert that a call raises an error whose text matches."""
    with pytest.raises(error, match=text):
        call()


def run_with_devices(checks: Iterable[Callable[[], object]], devices: int) -> dict[str, str]:
    """Install ``devices`` devices of each type and run the checks; return the failed ones' tracebacks."""
    os.environ["EMU_DEVICES"] = str(devices)
    warnings.simplefilter("error")
    # torch, on that patch release alone.
    warnings.filterwarnings("ignore", "Guards may run slower on Python 3.13.0")
    import emu.accelerator

    emu.accelerator.install()
    emu.accelerator.install()  # a second call does nothing
    failures = {}
    for check in checks:
        try:
            check()
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - each is reported by its own test
            failures[check.__name__] = traceback.format_exc()
    return failures


def check_on_devices(check: Callable[[], object], devices: int = 2) -> None:
    """Run a check of a test file in a fresh process; fail with its traceback."""
    (failures,) = emu.launch(run_with_devices, 1, args=([check], devices), preload=["torch"])
    assert not failures, failures[check.__name__]
