"""Kernels in ``--check streams``: what of each tensor a launch has touched, as the check of streams is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from emu.tile.passes.record_extents import NOTHING, WORDS
from emu.triton.runtime import arguments as kinds
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.backends import Launch
from emu.triton.runtime.bounds import Argument, value_of

Run = Callable[[Launch, tuple[int, int, int, Sequence[Packed]], Mapping[str, object] | None], None]
"""Runs an executable with a grid and values, given the arguments by name."""


class TouchedRecorder:
    """Launcher of a kernel that was instrumented by ``record_extents``.

    Args:
        kernel: Its name.
        arguments: Arguments of the executable, in order.
        run: Runs it, with other checks.
    """

    def __init__(self, kernel: str, arguments: Sequence[Argument], run: Run) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._run = run

    def launch(
        self,
        launch: Launch,
        call: tuple[int, int, int, Sequence[Packed]],
        given: Mapping[str, object] | None,
    ) -> None:
        """Run the kernel, and tell the check of streams.

        Args:
            launch: Runs the executable.
            call: Extents of the grid and the packed values.
            given: Arguments by the names of the parameters; None: their memory is not known, and not checked.

        Raises:
            StreamOrderError: Another stream uses memory that the kernel uses, and nothing orders them.
        """
        facts = np.empty((len(self._arguments), WORDS // 2, 2), np.int64)
        facts[:] = NOTHING
        address = facts.ctypes.data

        def inner(x: int, y: int, z: int, packed: Sequence[Packed]) -> None:
            launch(x, y, z, (*packed, address))

        self._run(inner, call, given)
        checked: Any = sys.modules.get("emu.accelerator.stream_check")
        if given is None or checked is None or not checked.is_on():
            return
        touched = []
        for argument, spans in zip(self._arguments, facts.tolist(), strict=True):
            tensor = _tensor(value_of(given, argument))
            if tensor is not None:
                touched.append((tensor, *map(tuple, spans)))
        checked.note_kernel(self._kernel, touched)


def _tensor(value: Any) -> Any:
    """Return the tensor of an argument: itself, or what it wraps; None if there is none."""
    while value is not None and type(value) not in kinds.tensors:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return value
        base = getattr(value, "base", None)
        value = None if base is value or callable(base) else base
    return value
