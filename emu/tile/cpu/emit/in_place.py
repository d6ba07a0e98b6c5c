"""Loads that only products, or one scan, read: they are not copied to scratch but read where they lie.

What a product or scan reads, it reads when it runs, which may be later than the load stands in the program: between the
two no operation may write memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile import ops
from emu.tile.cpu.emit import byte_products
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.groups import GroupEmitter
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.plan.analysis import Step
from emu.tile.cpu.plan.schedule import Group
from emu.tile.ir import Operation, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import BF16, F32, I8, Tile, element_of

_CHANGE = ops.EFFECTS | ops.CONTROL


def loads_in_place(frame: Frame, operations: Sequence[Operation]) -> frozenset[Operation]:
    """Return the loads of a stretch of straight-line code that its products and scans read where they lie."""
    order = {operation: n for n, operation in enumerate(operations)}
    if not any(operation.code in (Code.DOT, Code.SCAN) for operation in operations):
        return frozenset()
    changes = [n for operation, n in order.items() if operation.code in _CHANGE]
    found = set()
    for operation in operations:
        if operation.code is not Code.LOAD or not isinstance(operation.result.type, Tile):
            continue
        if _is_scanned_in_place(frame, operation, order, changes):
            found.add(operation)
            continue
        uses = _uses(frame, operation.result, (0, 1))
        if not uses or any(dot not in order for dot, _, _ in uses):
            continue
        last = max(order[dot] for dot, _, _ in uses)
        if any(order[operation] < n < last for n in changes):
            continue
        steps = _emitter(frame, operation).steps_in_place()
        if steps is not None and all(_fits(operation, steps, *use) for use in uses):
            found.add(operation)
    return frozenset(found)


def _is_scanned_in_place(
    frame: Frame, load: Operation, order: dict[Operation, int], changes: Sequence[int]
) -> bool:
    """Return whether one scan along neighbours in memory is all that reads a load."""
    users = frame.analysis.users[load.result]
    if len(users) != 1 or users[0].code is not Code.SCAN or users[0] not in order:
        return False
    (scan,) = users
    if any(order[load] < n < order[scan] for n in changes):
        return False
    steps = _emitter(frame, load).steps_in_place()
    return (
        steps is not None and steps[scan.attributes["axis"]] == element_of(load.result.type).bytes
    )


def place(frame: Frame, load: Operation) -> Register | None:
    """Bind the result of a load in place to the memory that it reads; see ``GroupEmitter.place``."""
    return _emitter(frame, load).place()


def found(frame: Frame, load: Operation) -> tuple[Memory, Register | None]:
    """Return the memory that a load in place reads, and whether; see ``GroupEmitter.found``."""
    return _emitter(frame, load).found()


def _emitter(frame: Frame, load: Operation) -> GroupEmitter:
    return GroupEmitter(frame, Group(load.result.shape, False, [load]))


Axes = tuple[int, ...]


def _uses(frame: Frame, value: Value, axes: Axes) -> list[tuple[Operation, int, Axes]] | None:
    """Return the products that read a matrix, which operand of theirs it is, and its axes in their order.

    ``None`` if anything else reads it.
    """
    if len(value.shape) != 2:
        return None
    found: list[tuple[Operation, int, Axes]] = []
    for user in frame.analysis.users[value]:
        if user.code is Code.PERMUTE:
            turned = tuple(axes[axis] for axis in user.attributes["order"])
            deeper = _uses(frame, user.result, turned)
            if deeper is None:
                return None
            found += deeper
        elif user.code is Code.DOT and value is not user.operands[2]:
            found += [(user, n, axes) for n in (0, 1) if user.operands[n] is value]
        else:
            return None
    return found


def _fits(load: Operation, along: Sequence[Step], dot: Operation, which: int, axes: Axes) -> bool:
    """Return whether a product can read an operand where a load finds it."""
    element, size = element_of(load.result.type), element_of(load.result.type).bytes
    steps = [along[axis] for axis in axes]
    if element == F32 and element_of(dot.result.type) == F32:
        return which == 0 or size in steps
    if element in (I8, BF16) and byte_products.is_covered(dot):
        return steps[1] == size and (which == 1 or byte_products.reads_bytes(dot))
    return False
