"""Errors for programs that touch memory that is not there: what the handler of the signal noted, as a report."""

from __future__ import annotations

import ctypes
import linecache
import signal
import struct
from collections.abc import Sequence
from typing import NoReturn, Protocol

from emu.tile.cpu import call
from emu.tile.cpu.run import crash, watching
from emu.tile.cpu.run.known_memory import find_nearest
from emu.tile.cpu.run.line_table import LineTable
from emu.tile.cpu.run.thread import thread_state
from emu.tile.ir import Location

_FROM_KERNEL = 128
"""Code of a signal for an address that no memory can have, which the CPU does not tell."""

_WRITES = 2
"""Bit of the error code of x86: the access was a write."""

_ADVICE = """\
  What the kernel had written before is in memory, also where it should not be. Run it again with EMU_CHECK=bounds, or
  emu run --check bounds: that names the lane and the tensor of the first access outside of one."""


class ProgramFaultError(RuntimeError):
    """Error for a program of a kernel that touched memory that is not there, or that may not be written.

    Attributes:
        report: The whole report.
        program: Indices x, y, z of the program.
        location: File, line and column of the access; empty if not known.
        kernel: Name of the kernel.
        address: The address; None if not known.
    """

    def __init__(
        self,
        report: str,
        program: tuple[int, int, int],
        location: str = "",
        kernel: str = "",
        address: int | None = None,
    ) -> None:
        super().__init__(report, program, location, kernel, address)  # what pickling calls it with
        self.report = report
        self.program = program
        self.location = location
        self.kernel = kernel
        self.address = address

    def __str__(self) -> str:
        return self.report


class Faulting(Protocol):
    """The part of a kernel that a report needs; see :class:`emu.tile.cpu.Kernel`."""

    name: str
    symbol: str
    address: int
    code: bytes
    places: tuple[Location, ...]
    parameters: tuple[tuple[str, str], ...]


class _Fault:
    """What the handler noted in the call table of this thread."""

    def __init__(self) -> None:
        table = thread_state.buffers[0]
        words = struct.unpack_from(f"{call.END + 1}q", table)
        self.grid = words[call.X], words[call.Y], words[call.Z]
        x, y, _ = self.grid
        number = words[call.NUMBER]
        self.program = number % x, number // x % y, number // (x * y)
        self.arguments = words[call.ARGUMENTS]
        noted = struct.unpack_from("2q2Q", table, 8 * call.FAULT_SIGNAL)
        self.signal, self.code, address, self.error = noted
        self.address = None if self.code == _FROM_KERNEL else address
        # The instruction itself, and what may be return addresses behind it.
        self.places = struct.unpack_from(f"{1 + call.STACK_WORDS}Q", table, 8 * call.FAULT_PLACE)


def raise_fault(kernel: Faulting) -> NoReturn:
    """Raise the error for the fault that ended this thread's part of a launch."""
    fault = _Fault()
    watching.leave_loop()
    location = _find_location(kernel, fault.places)
    name = signal.Signals(fault.signal).name
    lines = _places(location)
    lines.append(
        f"{name} in kernel {kernel.name}, program {fault.program} of {fault.grid}: {_access(fault)}"
    )
    values = list((ctypes.c_int64 * len(kernel.parameters)).from_address(fault.arguments))
    lines += _nearest(kernel, fault.address, values)
    lines += _arguments(kernel, fault.address, values)
    error = ProgramFaultError(
        "\n".join([*lines, _ADVICE]),
        fault.program,
        str(location or ""),
        kernel.name,
        fault.address,
    )
    crash.end_report()
    raise error


def _access(fault: _Fault) -> str:
    if fault.signal == signal.SIGFPE:
        return "an arithmetic operation"
    verb = "access to"
    if crash.tells_writes():
        verb = "write to" if fault.error & _WRITES else "read of"
    if fault.address is None:
        return "access to an address that no memory can have"
    if fault.signal == signal.SIGBUS:
        verb = f"{verb} memory without storage (a file that is shorter, or no room in /dev/shm),"
        return f"{verb} at address {fault.address:#x}"
    return f"{verb} address {fault.address:#x}"


def _find_location(kernel: Faulting, places: Sequence[int]) -> Location | None:
    """Return the place of the first address that is in the kernel's code."""
    try:
        table = LineTable(kernel.code, kernel.symbol)
        for n, place in enumerate(places):
            distance = place - kernel.address - bool(n)  # a return address is behind its call
            if table.has(distance):
                number = table.find(distance)
                return None if number is None else kernel.places[number - 1]
    except (ValueError, IndexError, struct.error):  # code that another compiler has written
        return None
    return None


def _places(location: Location | None) -> list[str]:
    """Return file, line and caret of each call that leads to a place, the kernel's first."""
    if location is None:
        return []
    head = f"{location}: in {location.function}:" if location.function else f"{location}:"
    lines = [*_places(location.caller), head]
    text = linecache.getline(location.file, location.line).rstrip("\n")
    if text:
        blank = "".join("\t" if c == "\t" else " " for c in text[: location.column - 1])
        lines += [text, f"{blank}^"]
    return lines


def _nearest(kernel: Faulting, address: int | None, values: Sequence[int]) -> list[str]:
    if address is None:
        return []
    names = {
        value: name
        for (name, type_), value in zip(kernel.parameters, values, strict=True)
        if type_.startswith("ptr")
    }
    nearest = find_nearest(address, names)
    if nearest is None:
        return ["  no tensor is near"]
    return [f"  nearest tensor {nearest.where(address)}"]


def _arguments(kernel: Faulting, address: int | None, values: Sequence[int]) -> list[str]:
    lines = []
    for (name, type_), value in zip(kernel.parameters, values, strict=True):
        text = f"{value}" if type_.startswith(("i", "u")) else f"{value % (1 << 64):#x}"
        if type_.startswith("ptr") and address is not None:
            text += f", from which the address is {address - value % (1 << 64)} bytes away"
        lines.append(f"  {name}: {type_} = {text}")
    return lines
