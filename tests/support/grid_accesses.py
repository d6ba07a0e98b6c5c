"""What programs of a launch access, byte by byte, as the reference executes them; and the races that follow from it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.tile.ir import Module, Operation
from emu.tile.ops import Code
from emu.tile.passes import simplify
from emu.tile.passes.check_bounds import MASK_AT
from emu.tile.reference.interpreter import Program, argument


@dataclass(frozen=True)
class Byte:
    """One access to one byte.

    Attributes:
        program: Number of the program, x fastest.
        line: Line of the source.
        kind: ``"read"``, ``"write"`` or ``"atomic"``.
        width: Bytes of the element.
        is_same: Of a write, whether the byte had that value before.
    """

    program: int
    line: int
    kind: str
    width: int
    is_same: bool


class _Traced(Program):
    """A program that notes its accesses in ``trace``, a list by address."""

    trace: dict[int, list[Byte]]

    def evaluate(self, operation: Operation, operands: list[Any], frame: Any = None) -> Any:
        code = operation.code
        if code in MASK_AT:
            self._note(operation, operands)
        return super().evaluate(operation, operands, frame)

    def _note(self, operation: Operation, operands: list[Any]) -> None:
        code, at = operation.code, MASK_AT[operation.code]
        pointer = np.asarray(operands[0])
        mask = np.ones(pointer.shape, np.bool_)
        if at is not None and len(operands) > at:
            mask = operands[at]
        kind = {Code.LOAD: "read", Code.STORE: "write"}.get(code, "atomic")
        width = operation.operands[0].type
        width = getattr(width, "element", width)
        width = getattr(width, "element", width).bytes
        x, y, _ = self.grid
        number = self.number[0] + x * (self.number[1] + y * self.number[2])
        line = operation.location.line if operation.location else 0
        for lane in np.ndindex(pointer.shape):
            if not mask[lane]:
                continue
            address = int(pointer[lane])
            value = np.asarray(operands[1][lane]).tobytes() if code is Code.STORE else b""
            for n in range(width):
                here = (np.ctypeslib.ctypes.c_ubyte).from_address(address + n).value
                same = bool(value) and value[n] == here
                byte = Byte(number, line, kind, width, same)
                self.trace.setdefault(address + n, []).append(byte)


def trace(
    module: Module, values: Sequence[Any], grid: tuple[int, int, int]
) -> dict[int, list[Byte]]:
    """Execute a kernel, one program after another, and return the accesses to each byte in their order."""
    module = simplify(module)
    kernel = module.kernel
    given = [argument(v, a.type) for v, a in zip(values, kernel.body.arguments, strict=True)]
    found: dict[int, list[Byte]] = {}
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*(range(e) for e in reversed(grid))):
            program = _Traced(module, (x, y, z), grid, lambda text: None)
            object.__setattr__(program, "trace", found)
            program.call(kernel, given)
    return found


def races(accesses: dict[int, list[Byte]]) -> tuple[set[int], set[frozenset[int]]]:
    """Return the bytes on which programs race, as no order is among them, and the pairs of lines that do.

    A race in which the bytes stay the same is not one of them: none of the writes, so far, has changed it.
    """
    bad: set[int] = set()
    pairs: set[frozenset[int]] = set()
    for address, found in accesses.items():
        for n, later in enumerate(found):
            for earlier in found[:n]:
                if _conflict(earlier, later) and not _is_benign(found, n, earlier, later):
                    bad.add(address)
                    pairs.add(frozenset((earlier.line, later.line)))
    return bad, pairs


def _conflict(a: Byte, b: Byte) -> bool:
    if a.program == b.program or a.kind == b.kind == "read":
        return False
    return not (a.kind == b.kind == "atomic" and a.width == b.width)


def _is_benign(found: Sequence[Byte], n: int, earlier: Byte, later: Byte) -> bool:
    if "atomic" in (earlier.kind, later.kind):
        return False
    if later.kind == "write":
        return later.is_same
    return all(b.is_same for b in found[:n] if b.kind == "write")
