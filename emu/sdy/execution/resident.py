"""PEs that stay between calls of a program, with its compiled form, its buffers, inputs and results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.orders import Orders
from emu.comm.process.session import Session
from emu.comm.world.current import world
from emu.mlir.ir import Operation
from emu.sdy.execution.device import WorldDevice
from emu.sdy.execution.local_program import BoundLocalProgram, LocalProgram
from emu.sdy.execution.memory import Buffer, Memory
from emu.sdy.execution.pickled import Pickled
from emu.sdy.execution.trace import Values
from emu.stablehlo.reference.values import Array

if TYPE_CHECKING:  # they load Numba, and launchers import this
    from emu.comm.world.world import World
    from emu.stablehlo.compiled import CompiledProgram

PRELOAD = "emu.sdy.execution.preload"
"""What the process loads that PEs are forked from."""


@dataclass(frozen=True)
class Allocate:
    """An order: allocate so many bytes; the reply is their offset in the heap."""

    nbytes: int


@dataclass(frozen=True)
class Run:
    """An order: run the program; the reply is what the probes saw.

    Attributes:
        inputs: Offset of each input in a heap, and of each PE whose heap it is; None for its own.
        outputs: Offset of each result in its own heap.
    """

    inputs: tuple[tuple[int, tuple[int, ...] | None], ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Measure:
    """An order: tell the memory of the process; the reply is a ``Usage``."""


@dataclass(frozen=True)
class Usage:
    """Memory of a PE, in bytes.

    Attributes:
        buffers: What the compiled program has planned, beside inputs and results.
        private: The largest private memory so far, beside what the process had before its first order:
            the interpreter, libraries and kernels. Inputs and results are no part of it.
    """

    buffers: int
    private: int


def _resident_bytes(field: str) -> int:
    """Return a number of bytes from ``/proc/self/status``; 0 where there is none."""
    try:
        with open("/proc/self/status") as file:
            found = (line.split() for line in file if line.startswith(f"{field}:"))
            return next((1024 * int(words[1]) for words in found), 0)
    except OSError:
        return 0


_loaded: list[CompiledProgram] = []
"""The program of the session, in PEs that were forked from a process that has loaded it."""


def load(code: Pickled[CompiledProgram | Operation]) -> None:
    """Load a program and its kernels, in the process that the PEs are forked from."""
    program = code.value
    if not isinstance(program, Operation):
        program.load()
        _loaded[:] = [program]


def serve(
    orders: Iterable[Allocate | Measure | Run], program: LocalProgram, n_replicas: int
) -> None:
    """Carry out orders, as a PE.

    Args:
        orders: The ``Orders`` of this PE.
        program: The program.
        n_replicas: Number of replicas.
    """
    assert isinstance(orders, Orders)
    here = world()
    if _loaded:
        program.code.value = _loaded[0]
    bound: BoundLocalProgram | None = None
    allocated, before = 0, _resident_bytes("RssAnon")
    for order in orders:
        if isinstance(order, Measure):
            buffers = 0 if bound is None else bound.buffer_bytes
            # There is no peak of private memory alone; files and symmetric memory only grow.
            shared = _resident_bytes("RssFile") + _resident_bytes("RssShmem")
            orders.reply(Usage(buffers, _resident_bytes("VmHWM") - shared - before))
            continue
        if isinstance(order, Allocate):
            key = f"sdy.arrays.{allocated}"
            allocated += 1
            orders.reply(here.alloc(order.nbytes, np.uint8, key=key, name="arrays").offset)
            continue
        if bound is None:
            bound = program.bind(WorldDevice(here, n_replicas, here.n_pes // n_replicas))
        orders.reply(bound(_inputs(here, program, order), _outputs(here, program, order)))


def _inputs(here: World, program: LocalProgram, order: Run) -> list[Array]:
    found = []
    for (shape, dtype), (offset, owners) in zip(program.inputs, order.inputs, strict=True):
        pe = here.my_pe if owners is None else owners[here.my_pe]
        found.append(_view(here, pe, offset, shape, dtype))
    return found


def _outputs(here: World, program: LocalProgram, order: Run) -> list[Array]:
    return [
        _view(here, here.my_pe, offset, shape, dtype)
        for (shape, dtype), offset in zip(program.results, order.outputs, strict=True)
    ]


def _view(
    here: World, pe: int, offset: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> Array:
    layout = here.segment.layout
    start = layout.heaps + pe * layout.stride + offset
    return np.ndarray(shape, dtype, here.segment.bytes, start)


class ResidentPEs:
    """The launcher's side: the session of a program, and its memory for inputs and results.

    Args:
        program: The program.
        n_pes: Number of PEs.
        n_replicas: Number of replicas among them.
        options: Settings of the launch.
    """

    def __init__(
        self, program: LocalProgram, n_pes: int, n_replicas: int, options: LaunchOptions
    ) -> None:
        self.options = options
        # Loaded once for all PEs, where this launch is the first.
        preloaded = replace(options, preload=(*options.preload, PRELOAD))
        self.session = Session(
            serve,
            n_pes,
            args=(program, n_replicas),
            options=preloaded,
            load=(load, (program.code,)),
        )
        session = self.session
        self.memory = Memory(
            session.segment, lambda nbytes: int(session.order(Allocate(nbytes))[0])
        )

    def run(
        self,
        inputs: Sequence[tuple[Buffer, tuple[int, ...] | None]],
        outputs: Sequence[Buffer],
    ) -> list[Values]:
        """Run the program once; return what the probes of each PE saw."""
        order = Run(
            tuple((buffer.offset, owners) for buffer, owners in inputs),
            tuple(buffer.offset for buffer in outputs),
        )
        found: list[Values] = self.session.order(order)
        return found

    def usage(self) -> list[Usage]:
        """Return the memory of each PE."""
        found: list[Usage] = self.session.order(Measure())
        return found

    def close(self) -> None:
        """End the PEs."""
        self.session.close()

    def __del__(self) -> None:
        # Handles of results may live on, and with them the session's memory.
        session = getattr(self, "session", None)
        if session is not None:
            session.abandon()
