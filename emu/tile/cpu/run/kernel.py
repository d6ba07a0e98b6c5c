"""Compiled kernels, which can be launched, saved and loaded without the compiler."""

from __future__ import annotations

import ctypes
import pickle
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emu.tile import machine_words, observing
from emu.tile.assertions import Failure, describe
from emu.tile.cpu import call, native
from emu.tile.cpu.reports import (
    CALLBACK,
    CODE_BITS,
    FAULT,
    LOOP_CODES,
    Assert,
    FailedAssert,
    Loop,
    Observe,
    Print,
)
from emu.tile.cpu.run import (
    crash,
    crash_text,
    faults,
    order,
    pool,
    private_memory,
    red_zones,
    turns,
    watching,
)
from emu.tile.cpu.run.red_zones import DAMAGED
from emu.tile.cpu.run.thread import thread_state
from emu.tile.ir import Location

MAX_FAILURES = 256
"""Number of failures that are kept until they are raised."""

_Entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class ProgramAssertionError(AssertionError, RuntimeError):
    """Error for a failed assertion of a kernel.

    It is a RuntimeError too, as the error of a GPU is.

    Attributes:
        message: The assertion's message; may be empty.
        program: Indices x, y, z of the program.
        location: File, line and column of the assertion.
        kernel: Name of the kernel.
        failure: How it failed: the first lane, the number of lanes, and the values that the condition compares;
            None if that is not known.
    """

    def __init__(
        self,
        message: str,
        program: tuple[int, int, int],
        location: str,
        kernel: str = "",
        failure: Failure | None = None,
    ) -> None:
        super().__init__(message, program, location, kernel, failure)  # what pickling calls it with
        self.message = message
        self.program = program
        self.location = location
        self.kernel = kernel
        self.failure = failure

    def __str__(self) -> str:
        return describe(self.message, self.failure, self.program, self.kernel, self.location)


@dataclass
class Kernel:
    """A kernel in native code.

    Attributes:
        name: Name of the kernel's function.
        symbol: Symbol of the code in the object file.
        format: Format of the packed arguments for :mod:`struct`, 8 bytes each.
        scratch_bytes: Bytes of scratch that a thread needs while it runs programs.
        asserts: Asserts, by number.
        prints: What is told while it runs, by number: prints, and the values of failed asserts.
        loops: WHILE loops, by number.
        parameters: Name and type of each argument.
        place: File and line of the kernel; empty if not known.
        updated: Number of the argument whose memory the first atomic operation on a tile updates, and how many
            elements; (-1, 0) if there is none.
        machine_calls: Names of the calls of the machine that it makes; None: it needs no machine, so it runs anywhere.
        places: Places of its instructions, by the number of the line table in ``code``.
        code: The object file.
        llvm: The LLVM IR before optimisation; empty in a kernel that was loaded.
        echo: Function that receives the text of prints. Default: write to standard output.
        program_ns: Time of one program when last measured, in nanoseconds of one thread; 0: never run.
    """

    name: str
    symbol: str
    format: str
    scratch_bytes: int
    asserts: tuple[Assert, ...]
    prints: tuple[Print | FailedAssert | Observe, ...]
    loops: tuple[Loop, ...]
    parameters: tuple[tuple[str, str], ...]
    place: str
    updated: tuple[int, int]
    machine_calls: tuple[str, ...] | None
    places: tuple[Location, ...]
    code: bytes
    llvm: str = field(default="", repr=False)
    echo: Callable[[str], None] | None = field(default=None, repr=False)
    program_ns: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.address = native.load_once(self.code, self.symbol)
        self._entry: Callable[[int], int] = _Entry(crash.entry() or self.address)
        self._failures: dict[tuple[int, int, int], Failure] = {}
        self._callback = CALLBACK(self._report) if self.prints else None
        # Native code finds all of these by address: they must live as long as the kernel.
        self._facts = (ctypes.c_int64 * call.FACTS_WORDS)()
        self._facts_address = ctypes.addressof(self._facts)
        if self._callback is not None:
            self._facts[call.PRINT] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self._facts[call.MACHINE] = machine_words.ADDRESS
        self._facts[call.LAUNCHES] = private_memory.LAUNCHES_ADDRESS
        self._facts[call.KERNEL] = watching.register_kernel(self)
        self._facts[call.CODE] = self.address
        self._pointers = red_zones.pointers(tuple(self.parameters))
        self._facts[call.POINTERS] = ctypes.addressof(self._pointers)
        note = crash_text.note(self.name, self.place, self.parameters)
        self._note = ctypes.create_string_buffer(note)
        self._facts[call.NOTE] = ctypes.addressof(self._note)
        self._facts[call.NOTE_BYTES] = len(note)
        crash.install()

    def to_bytes(self) -> bytes:
        """Return the kernel as bytes for :meth:`from_bytes`, valid for this kind of CPU."""
        kept = (self.name, self.symbol, self.format, self.scratch_bytes)
        facts = (self.asserts, self.prints, self.loops, self.parameters, self.place, self.updated)
        return pickle.dumps((*kept, *facts, self.machine_calls, self.places, self.code))

    @classmethod
    def from_bytes(cls, data: bytes) -> Kernel:
        """Return the kernel of :meth:`to_bytes`. The bytes are code: load them from trusted places only.

        Raises:
            TypeError: ``data`` is not bytes.
            ValueError: ``data`` does not come from :meth:`to_bytes`.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, but got {type(data).__name__}")
        try:
            return cls(*pickle.loads(data))
        except (pickle.PickleError, EOFError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(f"data must be what to_bytes() gave, but is not: {error}") from error

    def launch(self, arguments: int, x: int = 1, y: int = 1, z: int = 1, threads: int = 1) -> None:
        """Run the programs of a grid, and return when all have ended.

        Args:
            arguments: Address of the arguments, packed as ``format`` says.
            x: Extent of the grid, as are ``y`` and ``z``; programs run in the order x fastest.
            y: As ``x``.
            z: As ``x``.
            threads: Number of threads that may run programs at once; fewer do if that is faster.

        Raises:
            ProgramAssertionError: A program's assert failed; others may have run or not.
            ProgramFaultError: A program touched memory that is not there; likewise.
            CommError: The kernel asks the machine, and this process is no PE.
        """
        if self.machine_calls is not None:
            machine_words.prepare(self.machine_calls)
        total = x * y * z
        if threads > 1 and total > 1:
            status = pool.run(self, arguments, total, (x, y, z), threads)
        else:
            status = self.run_part(arguments, 0, total, (x, y, z))
        if status:
            self._fail(status, x, y)

    def bind(self, threads: int) -> Callable[[int, int, int, Sequence[object]], None]:
        """Return a function that packs arguments and launches in one step.

        Args:
            threads: As in :meth:`launch`.

        Returns:
            ``run(x, y, z, values)``, with the values that ``format`` packs; raises as :meth:`launch`.

        Raises:
            ValueError: The arguments take more than 64 KiB.
            CommError: The kernel asks the machine, and this process is no PE.
        """
        if self.machine_calls is not None:
            machine_words.prepare(self.machine_calls)
        if not self.loops and (seed := order.seed()):
            return self._in_order(seed)
        # Local names, and ``_call`` written out: a launch of a small kernel takes as long as a few look-ups.
        pack_into, entry, facts = self._packer().pack_into, self._entry, self._facts_address
        state, needed = thread_state, self.scratch_bytes
        updated, lanes = self.updated
        find_private_range = private_memory.find_private_range
        worth, clock = pool.WORTH_THREADS_NS, time.perf_counter_ns
        zones = red_zones.loaded()
        look = None if zones is None else zones.look
        if zones is not None:
            entry = zones.entry

        def run(x: int, y: int, z: int, values: Sequence[object]) -> None:
            total = x * y * z
            # Read at each launch: a signal handler that launches has other buffers.
            table, address, arguments, place, size, _ = state.buffers
            if size < needed:
                place = state.grow(needed)
            low = high = 0
            if threads == 1 and total * lanes >= private_memory.WORTH_LANES:
                low, high = find_private_range(values[updated], total * lanes)  # type: ignore[arg-type]
            pack_into(
                table, 0, arguments, 0, total, x, y, z, place, facts, 0, 0, low, high, *values
            )
            if threads == 1 or total == 1:
                status = entry(address)
            elif 0 < self.program_ns * total < worth:
                began = clock()
                status = entry(address)
                self.program_ns = max(1, (clock() - began) // total)
            else:
                status = pool.run(self, arguments, total, (x, y, z), threads)
                if look is not None and not status:
                    status = look(address)
            if status == DAMAGED:
                red_zones.report_launch(self.name, self.place, self.parameters, arguments)
            elif status:
                self._fail(status, x, y)

        return run

    def _in_order(self, seed: int) -> Callable[[int, int, int, Sequence[object]], None]:
        """Return what :meth:`bind` does, for one thread that runs programs in an order that is drawn.

        A kernel with a WHILE loop is not for it: its programs may wait for each other.
        """
        packer, state = self._packer(), thread_state

        def run(x: int, y: int, z: int, values: Sequence[object]) -> None:
            table, _, arguments, *_ = state.buffers
            # The head, of which only this is right, is packed again for each part.
            packer.pack_into(table, 0, arguments, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *values)
            for first, last in order.draw(x * y * z, seed):
                status = self.run_part(arguments, first, last, (x, y, z))
                if status:
                    self._fail(status, x, y)

        return run

    def _packer(self) -> struct.Struct:
        """Return what packs the head of a call's table and the arguments behind it."""
        packer = struct.Struct(call.CALL.format + self.format)
        if packer.size > call.BYTES:
            raise ValueError(
                f"arguments of a kernel must take at most {call.BYTES - call.CALL.size} bytes, but those of "
                f"{self.name} take {packer.size - call.CALL.size}"
            )
        return packer

    def run_part(self, arguments: int, first: int, last: int, grid: tuple[int, int, int]) -> int:
        """Run programs ``first`` to before ``last``; return 0 or the status of a failed assert."""
        status = self._call(arguments, first, last, grid, 0, 0)
        return turns.settle(status) if status else 0

    def run_span(self, arguments: int, first: int, last: int, grid: tuple[int, int, int]) -> int:
        """Run programs as :meth:`run_part`, on a thread of a launch whose programs take turns."""
        return self._call(arguments, first, last, grid, 0, 0)

    def run_shared(
        self, arguments: int, last: int, grid: tuple[int, int, int], counter: int, step: int
    ) -> int:
        """Run programs that no other thread has taken, ``step`` at a time, until none before ``last`` is left.

        Args:
            arguments: As in :meth:`launch`.
            last: Number of the program after the last.
            grid: Its extents.
            counter: Address of an i64, the number of the first program that is not taken.
            step: Number of programs to take at once.

        Returns:
            0, or the status of a failed assert; then no thread takes another program.
        """
        return self._call(arguments, 0, last, grid, counter, step)

    def _call(
        self,
        arguments: int,
        first: int,
        last: int,
        grid: tuple[int, int, int],
        counter: int,
        step: int,
    ) -> int:
        table, address, _, place, size, _ = thread_state.buffers
        if size < self.scratch_bytes:
            place = thread_state.grow(self.scratch_bytes)
        facts = self._facts_address
        shared = (counter, step, 0, 0)
        call.CALL.pack_into(table, 0, arguments, first, last, *grid, place, facts, *shared)
        return self._entry(address)

    def _report(self, index: int, address: int) -> None:
        report = self.prints[index]
        if isinstance(report, Observe):
            try:
                observing.tell_at(report.site, address)
            except BaseException as error:  # noqa: BLE001 - a signal's: the next poll stops the kernel
                thread_state.error = error
            return
        if isinstance(report, FailedAssert):
            program, failure = report.read(address)
            self._failures[program] = failure
            return
        text = report.text(address)
        if self.echo is not None:
            self.echo(text)
        else:
            sys.stdout.write(text + "\n")

    def check_stopped(self, status: int, grid: tuple[int, int, int]) -> None:
        """Raise the error for which this thread was told to stop, if ``status`` says that it was."""
        program, code = status >> CODE_BITS, status & ((1 << CODE_BITS) - 1)
        if code == FAULT:
            faults.raise_fault(self)
        if code >= LOOP_CODES:
            x, y, _ = grid
            numbers = (program % x, program // x % y, program // (x * y))
            watching.raise_error(self, code - LOOP_CODES, numbers)

    def _fail(self, status: int, x: int, y: int) -> None:
        """Raise the error that a status is about; none if it only says that other threads ran the rest."""
        status = turns.settle(status)
        if not status:
            return
        self.check_stopped(status, (x, y, 1))
        program = status >> CODE_BITS
        numbers = (program % x, program // x % y, program // (x * y))
        found = self.asserts[(status & ((1 << CODE_BITS) - 1)) - 1]
        failure = self._failures.pop(numbers, None)
        if len(self._failures) > MAX_FAILURES:  # of other threads, whose errors nobody raised
            self._failures.clear()
        raise ProgramAssertionError(found.message, numbers, found.location, self.name, failure)


def _stop_thread(error: BaseException) -> None:
    """Let the kernel that runs on this thread end with an error, which its launch raises."""
    thread_state.error = error
    struct.pack_into("q", thread_state.own_buffers[0], 8 * call.STOPPED, 1)


def _site_of_call() -> tuple[str, int] | None:
    """Return file and line of the call of the machine that this thread's kernel makes, once; None: not known."""
    table = thread_state.buffers[0]
    (address,) = struct.unpack_from("q", table, 8 * call.SITE)
    if not address:
        return None
    struct.pack_into("q", table, 8 * call.SITE, 0)
    line, _, file = ctypes.string_at(address).decode(errors="replace").partition(":")
    return file, int(line)


machine_words.on_failure = _stop_thread
machine_words.site_of_call = _site_of_call
