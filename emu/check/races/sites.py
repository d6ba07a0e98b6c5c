"""Lines of the program: which one does something, and how other processes can name it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

from emu.check.area import SITE_BYTES, SITES
from emu.comm.arrays import Bytes
from emu.kernels.core.own_files import OWN_FOLDERS

_OWN = (*OWN_FOLDERS, "<frozen", "<launcher of ")
_BETWEEN = (
    "listened.py",
    "listened_array.py",
    "listened_meetings.py",
    "listened_scopes.py",
    "steered.py",
    "unchecked.py",
    "array.py",
    "nonblocking.py",
    "one_sided.py",
    "locking.py",
    "waiting.py",
)
_ROOMS_BETWEEN = tuple(
    f"{folder}{room}{os.sep}"
    for folder in OWN_FOLDERS
    for room in ("check", "schedule", "fault", "trace")
)
_KERNEL_CALLS = "kernel_calls.py"
_FRONTS = tuple(f"{folder}{os.sep.join(('accelerator', 'nvshmem', ''))}" for folder in OWN_FOLDERS)
"""Front ends that are other names of the World's methods: they promise no more than those, so their calls are the program's."""
_NUMPY = (f"{Path(np.__file__).parent}{os.sep}",)


class Site(NamedTuple):
    """A line of the program, and what it does there.

    Attributes:
        number: In this PE's table; 0: the table is full, and the line not known.
        is_own: Whether emu itself does it, for a front end.
    """

    number: int
    is_own: bool


class Place(NamedTuple):
    """What a table of sites holds."""

    operation: str
    file: str
    line: int


class Sites:
    """The sites of one PE, in shared memory.

    Args:
        table: The memory.
        between: Number of further frames between who is told of an operation and who calls it.
    """

    def __init__(self, table: Bytes, between: int = 0) -> None:
        self._table = table
        self._behind = between + 1
        self._known: dict[tuple[int, int, str], tuple[Site, CodeType]] = {}
        self._numbers: dict[Place, int] = {}
        self._kinds: dict[CodeType, int] = {}
        self.task: Site | None = None
        """The line of the program whose task runs: it stands for all that is done."""

    def find(self, operation: str, depth: int) -> Site:
        """Return the line of the program that calls an operation.

        Args:
            operation: What it does.
            depth: Number of frames between the caller of this function and who calls the operation.
        """
        return self.task or self._of(operation, sys._getframe(depth + self._behind))

    def find_user(self, operation: str) -> Site:
        """Return the line of the program from which NumPy, or emu, uses memory."""
        if self.task is not None:
            return self.task
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and self._kind(frame.f_code) == 2:
            frame = frame.f_back
        assert frame is not None  # a PE's first frames are emu's, and not the check's
        return self._of(operation, frame)

    def find_program(self, operation: str) -> Site:
        """Return the line of the program that has emu do something, however deep in emu that is done."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_back is not None and self._is_library(frame.f_code):
            frame = frame.f_back
        assert frame is not None
        return self._of(operation, frame)

    def at(self, operation: str, code: CodeType, instruction: int) -> Site:
        """Return the line of an instruction, at which the program makes an operation that emu does for it later."""
        key = (id(code), instruction, operation)
        known = self._known.get(key)
        if known is None:
            line = code.co_firstlineno
            for start, end, number in code.co_lines():
                if start <= instruction < end and number is not None:
                    line = number
            number = self._number(Place(operation, code.co_filename, line))
            known = self._known[key] = (Site(number, is_own=True), code)
        return known[0]

    def _of(self, operation: str, frame: FrameType) -> Site:
        kind = self._kind(frame.f_code)
        if kind == 3 and (place := _place_in_kernel()) is not None:
            return Site(self._number(Place(f"{operation} of a kernel", *place)), is_own=False)
        if kind >= 3:
            return self._of_program(operation if kind == 4 else f"{operation} of a kernel", frame)
        key = (id(frame.f_code), frame.f_lasti, operation)
        known = self._known.get(key)
        if known is None:
            # The code object is kept: its id would else be another's.
            known = self._known[key] = (self._add(operation, frame), frame.f_code)
        return known[0]

    def _of_program(self, operation: str, frame: FrameType | None) -> Site:
        """Return the line of the program that launches a kernel, or calls a front end, which makes its operation."""
        while frame is not None and frame.f_back is not None and self._kind(frame.f_code):
            frame = frame.f_back
        assert frame is not None
        key = (id(frame.f_code), frame.f_lasti, operation)
        known = self._known.get(key)
        if known is None:
            place = Place(operation, frame.f_code.co_filename, frame.f_lineno)
            known = self._known[key] = (Site(self._number(place), is_own=False), frame.f_code)
        return known[0]

    def _kind(self, code: CodeType) -> int:
        """Return 0 of code of the program, 1 of emu's, 2 of the check's and of NumPy's, 3 of what kernels call, 4 of fronts."""
        kind = self._kinds.get(code)
        if kind is None:
            name = code.co_filename
            own = name.startswith(_OWN)
            kind = 1 if own else 0
            if name.startswith(_NUMPY) or (own and _is_between(name)):
                kind = 2
            elif own and name.endswith(_KERNEL_CALLS):
                kind = 3
            elif name.startswith(_FRONTS):
                kind = 4
            self._kinds[code] = kind
        return kind

    def _is_library(self, code: CodeType) -> bool:
        """Return whether code is emu's, NumPy's or torch's."""
        if self._kind(code):
            return True
        torch = sys.modules.get("torch")
        folder = None if torch is None else torch.__file__
        return folder is not None and code.co_filename.startswith(f"{Path(folder).parent}{os.sep}")

    def _add(self, operation: str, frame: FrameType) -> Site:
        is_own = self._kind(frame.f_code) != 0
        at: FrameType | None = frame
        while at is not None and self._kind(at.f_code):
            at = at.f_back
        at = at or frame
        place = Place(operation, at.f_code.co_filename, at.f_lineno)
        return Site(self._number(place), is_own)

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = len(self._numbers) + 1
            if number >= SITES:
                return 0
            self._numbers[place] = number
            text = f"{place.line}\0{place.operation}\0{place.file}".encode()[: SITE_BYTES - 8]
            start = number * SITE_BYTES
            self._table[start : start + 8].view(np.int64)[0] = len(text)
            self._table[start + 8 : start + 8 + len(text)] = np.frombuffer(text, np.uint8)
        return number


def _place_in_kernel() -> tuple[str, int] | None:
    """Return file and line of the call that a kernel makes; None: only the launch's is known."""
    calls = sys.modules.get("emu.comm.world.kernel_calls")
    return None if calls is None else calls.place_of_call()


def _is_between(name: str) -> bool:
    """Return whether a file of emu's is one through which an access goes: of the check, or of symmetric arrays."""
    # Where emu itself lies says nothing: a checkout may be below a folder of that name.
    return name.startswith(_ROOMS_BETWEEN) or name.rpartition(os.sep)[2] in _BETWEEN


def read_site(table: Bytes, number: int) -> Place:
    """Return a site of any PE."""
    if number <= 0 or number >= SITES:
        return Place("an operation", "", 0)
    start = number * SITE_BYTES
    size = int(table[start : start + 8].view(np.int64)[0])
    text = bytes(table[start + 8 : start + 8 + size]).decode(errors="replace")
    line, operation, file = text.split("\0", 2)
    return Place(operation, file, int(line))
