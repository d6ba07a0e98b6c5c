"""Buffers in symmetric memory, which compiled code allocates for the inputs of ``torch.ops.symm_mem``.

Inductor writes the number of the buffer's device into the code. Here its graphs name the CPU, and one code may serve several
devices, so that the code asks for the current device.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from emu.accelerator.import_hooks import after_import
from emu.accelerator.patches import Ledger

_NUMBERED = torch.device("cuda", 0)
_WRITTEN = 'torch.device("cuda:0")'
_ASKED = 'torch.device("cuda", torch.cuda.current_device())'


def install(ledger: Ledger) -> None:
    """Change Inductor's writer of allocations, when it is imported."""
    after_import("torch._inductor.codegen.wrapper", functools.partial(_change, ledger), ledger)


class _Node:
    """A buffer of the graph that says that it is on a CUDA device."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def get_device(self) -> torch.device:
        """Return a device with a number."""
        return _NUMBERED


class _Code:
    """The code that is written, in which an allocation asks for the current device."""

    def __init__(self, code: Any) -> None:
        self._code = code

    def writeline(self, line: str) -> None:
        """Write a line."""
        self._code.writeline(line.replace(_WRITTEN, _ASKED))


def _change(ledger: Ledger, module: Any) -> None:
    write = getattr(module.AllocateLine, "_codegen_comm_buffer", None)
    if write is None:  # a torch that writes them elsewhere
        return

    def codegen_comm_buffer(self: Any, code: Any) -> None:
        node = self.node
        device = node.get_device()
        if device is None or device.type != "cpu":
            write(self, code)
            return
        self.node = _Node(node)
        try:
            write(self, _Code(code))
        finally:
            self.node = node

    ledger.replace(
        module.AllocateLine,
        "_codegen_comm_buffer",
        codegen_comm_buffer,
        "graphs name the CPU, which has no symmetric memory",
    )
