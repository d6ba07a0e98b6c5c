"""What belongs to a thread: its current devices, its streams, and the call that it is in."""

from __future__ import annotations

import threading
from typing import Any

import torch

TYPES = ("cuda", "npu")
"""The device types that are emulated."""


class _State(threading.local):
    """Each thread begins with device 0 of each type, and outside any call, as with CUDA.

    Attributes:
        running: The device of the call that is being handled.
        current: The index of the current device of each type.
        in_pass: The number of the backward pass whose device was made the current one.
        streams: The streams that were entered, by type, innermost last.
    """

    def __init__(self) -> None:
        self.running: torch.device | None = None
        self.current = dict.fromkeys(TYPES, 0)
        self.in_pass = -1
        self.streams: dict[str, list[Any]] = {kind: [] for kind in TYPES}


state = _State()

_PASS = "emu.accelerator: device of the backward pass"
# Torch carries objects that are stashed so to each thread in which it runs the pass.
_stash, _stashed = torch._C._stash_obj_in_tls, torch._C._is_key_in_tls


def begin_pass(device: torch.device | None) -> tuple[Any, ...]:
    """Note that a backward pass begins in this thread; return what :func:`end_pass` needs."""
    before = pass_device(), dict(state.current), state.in_pass
    _stash(_PASS, device)
    return before


def end_pass(before: tuple[Any, ...]) -> None:
    """Note that the innermost backward pass has ended."""
    device, state.current, state.in_pass = before
    _stash(_PASS, device)


def pass_device() -> torch.device | None:
    """Return the device on which the innermost running backward pass was started."""
    return torch._C._get_obj_in_tls(_PASS) if _stashed(_PASS) else None


def current() -> dict[str, int]:
    """Return the index of the current device of each type, which may be changed.

    What a backward pass calls begins with the device of the pass, as in the threads that CUDA uses.
    """
    number = torch._C._current_graph_task_id()
    if number >= 0 and number != state.in_pass:
        state.in_pass = number
        device = pass_device()
        if device is not None:
            state.current[device.type] = device.index
    return state.current
