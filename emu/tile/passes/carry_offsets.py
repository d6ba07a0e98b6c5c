"""CarryOffsets: loops carry the offset of a tile of pointers instead of the tile.

``a_ptrs += BLOCK_K * stride`` in a loop carries a tile of pointers of which each element moves by one
amount. Carried as it stands it would be memory that is read and written each time, and nobody would see any
more that it is regular. So the loop is made to carry the amount, a scalar, and the tile is what it was at
first, plus that.
"""

from __future__ import annotations

from dataclasses import dataclass

from emu.tile.ir import Builder, Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import I64, DType, Kind, Pointer, Tile, element_of


@dataclass(frozen=True)
class CarryOffsets:
    """Rewrite FOR loops whose carried tiles of pointers or integers move evenly."""

    def apply(self, module: Module) -> None:
        """Rewrite all functions of a module in place."""
        for function in module.functions.values():
            _region(function.body)


def _region(region: Region) -> None:
    replaced: list[Operation] = []
    for operation in region.operations:
        for nested in operation.regions:
            _region(nested)
        if operation.code is Code.FOR:
            before, after = _rewrite(operation)
            replaced += [*before, operation, *after]
        else:
            replaced.append(operation)
    region.operations[:] = replaced


def _uniform(value: Value) -> Value | None:
    """Return the scalar that a tile repeats, if it is a SPLAT or a CONSTANT."""
    owner = value.owner
    while owner is not None and owner.code is Code.BROADCAST:
        owner = owner.operands[0].owner
    if owner is not None and owner.code is Code.SPLAT:
        return owner.operands[0]
    return None


def _constant(value: Value) -> int | None:
    owner = value.owner
    while owner is not None and owner.code is Code.BROADCAST:
        owner = owner.operands[0].owner
    if owner is not None and owner.code is Code.CONSTANT:
        number = owner.attributes["value"]
        return number if isinstance(number, int) else None
    return None


def _movement(yielded: Value, carried: Value) -> Value | int | None:
    """Return the step of a carried tile per round: a scalar, a number, or ``None`` if it is uneven."""
    owner = yielded.owner
    if owner is None or owner.code not in (Code.PTR_ADD, Code.ADD, Code.SUB):
        return None
    first, second = owner.operands
    if first is not carried:
        if second is not carried or owner.code is not Code.ADD:
            return None
        first, second = second, first
    amount = _constant(second)
    if owner.code is Code.SUB:  # of a scalar the negative would have to be computed
        return None if amount is None else -amount
    return _uniform(second) if amount is None else amount


def _moves(carried: Value) -> bool:
    if not isinstance(carried.type, Tile):
        return False
    element = element_of(carried.type)
    return isinstance(element, Pointer) or element.kind in (Kind.INT, Kind.UINT)


def _rewrite(loop: Operation) -> tuple[list[Operation], list[Operation]]:
    """Rewrite one FOR; return what must stand before and behind it."""
    (body,) = loop.regions
    terminator = body.terminator
    before, inside, end, after = (Builder() for _ in range(4))
    for builder in (before, inside, end, after):
        builder.location = loop.location
    operands, yielded, results = list(loop.operands), list(terminator.operands), list(loop.results)
    for n, carried in enumerate(body.arguments[1:]):
        amount = _movement(yielded[n], carried) if _moves(carried) else None
        if amount is None:
            continue
        initial, element = operands[3 + n], element_of(carried.type)
        type_: DType = I64 if isinstance(element, Pointer) else element
        # The carried tile and the loop's result stay the same Values, so that their users need no change: they are
        # redefined as ``initial + offset``, inside of the loop and behind it.
        offset, last = Value(type_), Value(type_, loop)
        operands[3 + n] = before.constant(0, type_)
        body.arguments[1 + n] = offset
        _define(inside, carried, initial, offset)
        _define(after, results[n], initial, last)
        results[n] = last
        # At the end of the body: the amount may be computed in it, and differ from round to round.
        step = amount if isinstance(amount, Value) else end.constant(amount, type_)
        yielded[n] = end.binary(Code.ADD, offset, end.cast(step, type_))
    loop.operands, loop.results, terminator.operands = (
        tuple(operands),
        tuple(results),
        tuple(yielded),
    )
    body.operations[:] = [
        *inside.region.operations,
        *body.operations[:-1],
        *end.region.operations,
        terminator,
    ]
    return before.region.operations, after.region.operations


def _define(builder: Builder, value: Value, initial: Value, offset: Value) -> None:
    """Define a carried tile as its initial value plus its offset."""
    row = builder.splat(offset, initial.shape)
    code = Code.PTR_ADD if isinstance(element_of(value.type), Pointer) else Code.ADD
    operation = builder.append(code, (initial, row))
    operation.results = (value,)
    value.owner = operation
