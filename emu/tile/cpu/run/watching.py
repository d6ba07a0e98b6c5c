"""What happens while a kernel runs for long: signals are handled, a stopped world ends it, a wait is reported.

Kernels ask about every 20 ms (``polling``). The question is a generator's ``send``: Python runs the handlers of
signals that have come before anything else in it, inside of its ``try``, which a function called back could not
catch. A kernel that is told to stop returns, and the launch raises what the handler raised.

In a PE, a loop that goes on reading the same is a wait, and the launcher is told so: of a world in which every PE
waits it says which loops, and for what.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
import threading
import time
import weakref
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from emu.tile.cpu import call
from emu.tile.cpu.run.thread import fresh, memory
from emu.tile.types import DTYPES

if TYPE_CHECKING:
    from emu.tile.cpu.reports import Read
    from emu.tile.cpu.run.kernel import Kernel

_GUARD = ctypes.CFUNCTYPE(None)
_WATCH = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_FORMS = {
    "i1": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "f16": "e", "f32": "f", "f64": "d",
}  # fmt: skip
_NEAR = 1 << 40
"""An address at most so far behind a pointer is told as an element of it."""

_numbers = itertools.count(1)
_kernels: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()


def enrol(kernel: Kernel) -> int:
    """Return a number by which a kernel is found."""
    number = next(_numbers)
    _kernels[number] = kernel
    return number


@dataclass
class Spin:
    """A loop that runs for long.

    Attributes:
        kernel: Of the loop.
        loop: Its number, 0 for the loop over programs.
        program: Numbers x, y, z of the program.
        grid: Its extents.
        seen: Addresses and what was read there, when last asked.
        bases: The packed arguments.
        same: Whether that was so before, too.
        since: When what is read changed last, by ``time.monotonic``.
    """

    kernel: Kernel
    loop: int
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    seen: tuple[int, ...]
    bases: tuple[int, ...]
    same: bool = False
    since: float = field(default_factory=time.monotonic)

    def reads_as(self, before: Spin) -> bool:
        """Say whether this is the same loop of the same program, and reads what it read before."""
        mine = self.loop, self.program, self.seen
        same = mine == (before.loop, before.program, before.seen)
        return same and self.kernel is before.kernel

    def describe(self) -> str:
        """Say where the loop is and what it waits for."""
        waits = self.waits()
        return self.where() + (f"; it waits for {waits}" if waits else "")

    def where(self) -> str:
        """Say where the loop is."""
        return where(self.kernel, self.loop, self.program, self.grid)

    def waits(self) -> str:
        """Say what the loop reads; empty where it waits for nothing."""
        if not self.loop:
            return ""
        reads = self.kernel.loops[self.loop - 1].reads
        said = [
            _describe_read(self.kernel, read, self.seen[2 * n], self.seen[2 * n + 1], self.bases)
            for n, read in enumerate(reads)
        ]
        return " and ".join(said)


def where(
    kernel: Kernel, loop: int, program: tuple[int, int, int], grid: tuple[int, int, int] | None
) -> str:
    """Name a kernel, a program and a loop of it."""
    at = f" ({kernel.place})" if kernel.place else ""
    of = f" of {grid}" if grid else ""
    inside = f", in the loop at {kernel.loops[loop - 1].location}" if loop else ""
    return f"kernel {kernel.name}{at}, program {program}{of}{inside}"


def _describe_read(
    kernel: Kernel, read: Read, address: int, bits: int, bases: tuple[int, ...]
) -> str:
    there = _value(read.dtype, bits)
    if not read.by_address:
        return f"what is read at {read.location} (now {there})"
    address &= (1 << 64) - 1
    size = DTYPES[read.dtype].bytes if read.dtype else 8
    name = f"address {address:#x}"
    found = [
        (address - base, argument)
        for (argument, type_), base in zip(kernel.parameters, bases, strict=True)
        if type_.startswith("ptr") and 0 <= address - base < _NEAR
    ]
    if found:
        distance, argument = min(found)
        name = f"{argument}[{distance // size}] ({read.dtype or 'pointer'} at {address:#x})"
    return f"{name}, read at {read.location} (there: {there})"


def _value(dtype: str, bits: int) -> str:
    form = _FORMS.get(dtype)
    if form is None:
        return f"{bits & ((1 << 64) - 1):#x}"
    return str(struct.unpack_from(form, struct.pack("q", bits))[0])


def prepare_address() -> int:
    """Return the address of the function that gives a thread what it asks by."""
    return ctypes.cast(_PREPARE, ctypes.c_void_p).value or 0


def _prepare() -> None:
    if memory.all is not memory.mine:
        return  # a handler's own launch, in the middle of another: it is not asked about
    generator = _watch()
    next(generator)
    guard = _GUARD(functools.partial(setattr, memory, "all", fresh()))
    watch = _WATCH(generator.send)
    memory.kept = generator, guard, watch
    table = memory.mine[0]
    for which, function in ((call.GUARD, guard), (call.WATCH, watch)):
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        struct.pack_into("Q", table, 8 * which, address)


_PREPARE = _GUARD(_prepare)


def _watch() -> Generator[int, int]:
    """Answer whether a kernel shall stop."""
    answer = 0
    while True:
        try:
            while True:
                told = yield answer  # here handlers of signals run, and may raise
                memory.all = memory.mine
                answer = 1  # if anything is raised
                answer = _ask(told)
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001 - the launch raises it
            memory.all = memory.mine
            memory.error = error
            answer = 1


def _ask(told: int) -> int:
    if memory.job is not None and memory.job.failed:
        return 1
    words = (ctypes.c_int64 * call.PAIRS).from_address(told)
    loop = words[call.LOOP]
    if loop == call.ENDED:
        leave()
        return 0
    _check_stopped()
    _look(loop, told, words[call.COUNT])
    return 0


def _look(loop: int, told: int, count: int) -> None:
    """See whether a loop reads what it read before."""
    pairs = (ctypes.c_int64 * (2 * count)).from_address(told + 8 * call.PAIRS)
    table = struct.unpack_from("12q", memory.mine[0])
    kernel = _kernels[
        (ctypes.c_int64 * call.FACTS_WORDS).from_address(table[call.FACTS])[call.KERNEL]
    ]
    grid = table[call.X], table[call.Y], table[call.Z]
    number = table[call.NUMBER]
    program = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
    before = memory.spin
    bases = (ctypes.c_int64 * len(kernel.parameters)).from_address(table[call.ARGUMENTS])
    spin = Spin(kernel, loop, program, grid, tuple(pairs), tuple(bases))
    if count and before is not None and spin.reads_as(before):
        spin.same, spin.since = True, before.since
    memory.spin = spin
    if memory.job is None:
        publish([spin])
    else:
        memory.job.look(spin)


def leave() -> None:
    """Forget the loop that this thread was in."""
    if memory.spin is not None:
        memory.spin = None
        if memory.job is None:
            publish([])
        else:
            memory.job.look(None)


def stop(kernel: Kernel, loop: int, program: tuple[int, int, int]) -> NoReturn:
    """Raise why a kernel was told to stop, with the loop that it was in."""
    spin, error = memory.spin, memory.error
    memory.error = None
    leave()
    if error is None:
        error = RuntimeError(f"kernel {kernel.name} was stopped with no reason")
    described = spin is not None and (spin.loop, spin.program) == (loop, program)
    text = spin.describe() if described and spin is not None else where(kernel, loop, program, None)
    blame(error, text)
    raise error


def blame(error: BaseException, text: str) -> None:
    """Say in an exception what was interrupted."""
    if isinstance(error, KeyboardInterrupt) and not error.args:
        error.args = (f"in {text}",)
    else:
        error.add_note(f"in {text}")


# ---- in a PE


def _world() -> Any:
    worlds = sys.modules.get("emu.comm.world.current")
    return None if worlds is None else worlds.current()


def _check_stopped() -> None:
    world = _world()
    if world is not None:
        from emu.comm.memory.stop import check_stopped

        check_stopped(world.segment)


def publish(spins: list[Spin]) -> None:
    """Tell the launcher for what this PE waits, if all that its threads do is to wait."""
    world = _world()
    if world is None or threading.current_thread() is not threading.main_thread():
        return
    from emu.comm.watchdog import spinning

    if spins and all(spin.same for spin in spins):
        text = "; another thread: ".join([spins[0].waits(), *(s.describe() for s in spins[1:8])])
        spinning.wait(world, spins[0].where(), text)
    else:
        spinning.go_on(world)
