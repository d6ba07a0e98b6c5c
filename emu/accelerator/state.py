"""Per-thread state: current devices, streams, and the device of the call being handled."""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol

import torch

TYPES = ("cuda", "npu")
"""Device types that are emulated."""


class Capture(Protocol):
    """What is asked of a CUDA graph while it is captured."""

    is_broken: bool


class _State(threading.local):
    """State of one thread; as with CUDA, each begins with device 0 of each type.

    Attributes:
        running: Device of the call that is being handled.
        creating: Device on which the call that is being handled makes a tensor, until an operator has heard of it.
        current: Index of the current device of each type.
        in_pass: Number of the backward pass whose device was made the current one; -1: none.
        streams: Streams that were entered, by type, innermost last.
        fakes_show_devices: Whether fake tensors say that they are on their emulated device: None where the mode
            decides, which it does for a program's own.
        capture: The CUDA graph that is captured in this thread.
        compiled_for: Device of the compiled function that runs, whose buffers have no tag; None outside of such.
    """

    def __init__(self) -> None:
        self.running: torch.device | None = None
        self.creating: torch.device | None = None
        self.current: dict[str, int] = dict.fromkeys(TYPES, 0)
        self.in_pass = -1
        self.fakes_show_devices: bool | None = None
        self.capture: Capture | None = None
        self.compiled_for: torch.device | None = None
        self.streams: dict[str, list[torch.Stream]] = {kind: [] for kind in TYPES}


state = _State()


def refuse_in_capture(what: str) -> None:
    """Refuse a call that waits for the device, if a CUDA graph is captured in this thread.

    Raises:
        RuntimeError: One is.
    """
    if state.capture is not None:
        state.capture.is_broken = True
        raise RuntimeError(
            f"CUDA error: operation not permitted when stream is capturing: {what} must stand outside of the graph"
        )


_PASS = "emu.accelerator: device of the backward pass"
# Torch copies objects stashed this way to each thread in which it runs the pass.
_stash, _stashed = torch._C._stash_obj_in_tls, torch._C._is_key_in_tls


class PassState(NamedTuple):
    """State of a thread before a backward pass."""

    device: torch.device | None
    current: dict[str, int]
    in_pass: int


def begin_pass(device: torch.device | None) -> PassState:
    """Begin a backward pass in this thread; return the state for :func:`end_pass`."""
    before = PassState(pass_device(), dict(state.current), state.in_pass)
    _stash(_PASS, device)
    return before


def end_pass(before: PassState) -> None:
    """End the innermost backward pass."""
    device, state.current, state.in_pass = before
    _stash(_PASS, device)


def pass_device() -> torch.device | None:
    """Return the device on which the innermost running backward pass was started."""
    return torch._C._get_obj_in_tls(_PASS) if _stashed(_PASS) else None


def working_device() -> torch.device | None:
    """Return the device for which torch's C++ code works now: that of the call being handled, or of the backward pass."""
    if state.running is None and torch._C._current_graph_task_id() >= 0:
        return pass_device()
    return state.running


def current() -> dict[str, int]:
    """Return the index of the current device of each type, as a dictionary that may be changed.

    Code called by a backward pass begins with the device of the pass, as in the threads that CUDA uses.
    """
    number = torch._C._current_graph_task_id()
    if number >= 0 and number != state.in_pass:
        state.in_pass = number
        device = pass_device()
        if device is not None:
            state.current[device.type] = device.index
    return state.current
