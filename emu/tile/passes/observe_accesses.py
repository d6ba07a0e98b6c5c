"""ObserveAccesses: code that tells an observer of every access to memory, in the order of the program.

A launch passes the number of its observer (see ``emu.tile.observing``) as one more argument of the kernel. A load or
an atomic operation is told after it was done, a store before that: its observer can compare what is written with
what is there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from emu.tile import ops
from emu.tile.ir import Builder, Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.passes.check_bounds import Access, describe_access, mask_of
from emu.tile.passes.origins import find_origins
from emu.tile.types import DTYPES, I64, DType, element_of

LOAD, STORE, ATOMIC, BARRIER, FENCE, END = range(6)
"""Kinds of sites. At BARRIER the lanes of a program have met; FENCE is a fence; END the end of a program."""

_MEETINGS = frozenset(
    {*(Code.REDUCE, Code.SCAN, Code.SORT, Code.HISTOGRAM, Code.DOT, Code.GATHER), *ops.ATOMIC}
)
"""Operations in which lanes of a program get values from others: on a device their threads meet there."""


@dataclass(frozen=True)
class Observed:
    """A site whose observer is told.

    The values told are the addresses (i64); the mask if there is one; of a STORE the values; of an ATOMIC that may
    fail, whether it did not (i1).

    Attributes:
        kind: ``LOAD``, ``STORE``, ``ATOMIC``, ``BARRIER``, ``FENCE`` or ``END``.
        access: What is accessed; of a site that accesses nothing, one of no bytes.
        order: ``""`` of a weak access, else one of ``ops.ORDERS``.
        scope: One of ``ops.SCOPES``.
        may_fail: Whether it is a compare-and-swap.
    """

    kind: int
    access: Access
    order: str = ""
    scope: str = "gpu"
    may_fail: bool = False


def observe_accesses(module: Module, observed: Collection[Operation]) -> tuple[Observed, ...]:
    """Instrument a kernel so that it tells of its accesses.

    Args:
        module: Module of a kernel that calls nothing. It is changed: its kernel gets one more argument.
        observed: The memory operations that count: those of the program, not of checks.

    Returns:
        The sites by number.
    """
    observer = _Observer(module.kernel.body, observed)
    observer.run()
    return tuple(observer.sites)


def describe_order(operation: Operation) -> tuple[str, str]:
    """Return order and scope of a memory operation; the order of a weak one is ``""``."""
    default = "acq_rel" if operation.code in ops.ATOMIC else ""
    attributes = operation.attributes
    return str(attributes.get("order", default)), str(attributes.get("scope", "gpu"))


def _stores_repeat(region: Region, observed: Collection[Operation], inside: bool = False) -> int:
    """Return how many stores of a region count, those in loops twice."""
    count = 0
    for operation in region.operations:
        if operation.code is Code.STORE and operation in observed:
            count += 2 if inside else 1
        is_loop = operation.code in (Code.FOR, Code.WHILE)
        for nested in operation.regions:
            count += _stores_repeat(nested, observed, inside or is_loop)
    return count


class _Observer:
    def __init__(self, body: Region, observed: Collection[Operation]) -> None:
        self.sites: list[Observed] = []
        self._body = body
        self._observed = observed
        self._origins = find_origins(body)
        self._number = Value(I64, name="observer")
        self._lanes_may_meet = _stores_repeat(body, observed) > 1
        own = [o for o in body.walk() if o in observed]
        self._has_order = any(
            describe_order(o)[0] in ("acquire", "release", "acq_rel") for o in own
        ) or any(o.attributes.get("fence") for o in body.walk() if o.code is Code.BARRIER)

    def run(self) -> None:
        self._region(self._body)
        if self._has_order:
            end = self._body.operations.pop()
            builder = Builder(self._body)
            self._tell(builder, Observed(END, _NOTHING), [])
            self._body.operations.append(end)
        self._body.arguments.append(self._number)

    def _region(self, region: Region) -> None:
        operations, region.operations = region.operations, []
        builder = Builder(region)
        for operation in operations:
            builder.location = operation.location
            if operation.code in (Code.FOR, Code.WHILE, Code.IF):
                for nested in operation.regions:
                    self._region(nested)
            counts = operation.code in ops.MEMORY and operation in self._observed
            if counts and operation.code is Code.STORE:
                self._access(builder, operation)
            region.operations.append(operation)
            if counts and operation.code is not Code.STORE:
                self._access(builder, operation)
            if operation.code is Code.BARRIER and operation.attributes.get("fence"):
                self._tell(builder, Observed(FENCE, _NOTHING), [])
            elif operation.code is Code.BARRIER or (
                operation.code in _MEETINGS and self._lanes_may_meet
            ):
                self._tell(builder, Observed(BARRIER, _NOTHING), [])

    def _access(self, builder: Builder, operation: Operation) -> None:
        pointer, mask = operation.operands[0], mask_of(operation)
        values = [builder.cast(pointer, I64)]
        if mask is not None:
            values.append(mask)
        kind = {Code.LOAD: LOAD, Code.STORE: STORE}.get(operation.code, ATOMIC)
        if kind == STORE:
            values.append(operation.operands[1])
        if operation.code is Code.ATOMIC_CAS:
            values.append(_is_swapped(builder, operation))
        access = describe_access(operation, self._origins)
        order, scope = describe_order(operation)
        may_fail = operation.code is Code.ATOMIC_CAS
        self._tell(builder, Observed(kind, access, order, scope, may_fail), values)

    def _tell(self, builder: Builder, site: Observed, values: list[Value]) -> None:
        builder.observe(len(self.sites), self._number, values)
        self.sites.append(site)


_NOTHING = Access("", None, None, "", 0, (), False)


def _is_swapped(builder: Builder, operation: Operation) -> Value:
    """Return whether a compare-and-swap has written: whether memory held, bit by bit, what it expected."""
    _, expected, _ = operation.operands
    old = operation.result
    element = element_of(old.type)
    assert isinstance(element, DType)
    if element.is_float:
        bits = DTYPES[f"i{element.bits}"]
        old, expected = builder.bitcast(old, bits), builder.bitcast(expected, bits)
    return builder.compare(Code.EQ, old, expected)
