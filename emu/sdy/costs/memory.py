"""Peak of memory of a device's program, from the lifetimes of its values.

A value takes memory from the operation that computes it to its last use. Arguments are there all the
time, unless they are donated: then to their last use. These take no memory of their own: a reshape
has its operand's; so has a ``dynamic_update_slice`` whose operand is not used after it, and a loop
whose initial value is not; a constant of equal elements takes one element. Nothing else is
fused or reused in place, so a compiler that does so needs less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from emu.mlir.attributes import BoolAttr, DenseElementsAttr
from emu.mlir.dense import element_bytes
from emu.mlir.ir import Block, Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType, TupleType, Type
from emu.sdy.dialect.functions import callee_name, func_arg_attribute

_VIEWS = {"stablehlo.reshape", "stablehlo.optimization_barrier", "stablehlo.get_tuple_element"}
_BRANCHES = {"stablehlo.case", "stablehlo.if"}


def type_bytes(type_: Type) -> int:
    """Return the bytes of a value; elements of less than a byte take one, unknown types none."""
    if isinstance(type_, TupleType):
        return sum(map(type_bytes, type_.elements))
    if not isinstance(type_, TensorType) or not type_.is_static:
        return 0
    return math.prod(type_.static_shape) * (element_bytes(type_.element) or 0)


def is_donated(function: Operation, index: int) -> bool:
    """Return whether a caller gives up an argument, as JAX marks it."""
    donor = func_arg_attribute(function, index, "jax.buffer_donor")
    if isinstance(donor, BoolAttr):
        return donor.value
    return func_arg_attribute(function, index, "tf.aliasing_output") is not None


class Lifetimes:
    """Peaks of blocks and functions of a module.

    Args:
        module: The program of one device.
    """

    def __init__(self, module: Operation) -> None:
        self._table = SymbolTable(module)
        self._callees: dict[str, int] = {}
        self._open: set[str] = set()

    def peak(self, function: Operation) -> int:
        """Return the peak of a function, its arguments and results included."""
        arguments = function.body().arguments
        owned = [is_donated(function, index) for index in range(len(arguments))]
        return self._block(function.body(), owned)

    def _callee(self, call: Operation) -> int:
        """Return what a called function needs beyond its arguments and results."""
        name = callee_name(call)
        if name not in self._callees:
            function = self._table.lookup(name)
            if function is None or name in self._open or not function.regions[0].blocks:
                return 0
            self._open.add(name)
            block = function.body()
            peak = self._block(block, [False] * len(block.arguments))
            given = sum(type_bytes(v.type) for v in (*block.arguments, *block.terminator.operands))
            self._callees[name] = max(0, peak - given)
            self._open.discard(name)
        return self._callees[name]

    def _inner(self, op: Operation) -> int:
        """Return what regions of an operation need beyond its operands and results."""
        if op.name == "func.call":
            return self._callee(op)
        if op.name == "stablehlo.while":
            blocks = [region.blocks[0] for region in op.regions]
            # Each turn may overwrite what the last one left: the body owns what is carried.
            carried = sum(type_bytes(argument.type) for argument in blocks[0].arguments)
            peaks = [self._block(b, [True] * len(b.arguments)) for b in blocks]
            return max(0, max(peaks) - carried)
        if op.name in _BRANCHES:
            results = sum(type_bytes(result.type) for result in op.results)
            peaks = [self._block(region.blocks[0], []) for region in op.regions]
            return max(0, max(peaks, default=0) - results)
        return 0

    def _block(self, block: Block, owned: Sequence[bool]) -> int:
        """Return the peak of a block, its arguments included."""
        operations = list(block)
        places = {op: place for place, op in enumerate(operations)}
        buffers = _Buffers(block, places)
        for argument, is_owned in zip(block.arguments, owned, strict=False):
            buffers.add(argument, type_bytes(argument.type), is_kept=not is_owned)
        live = buffers.live
        peak = live
        for place, op in enumerate(operations):
            self._results(op, buffers, place)
            peak = max(peak, buffers.live + self._inner(op))
            buffers.free_after(place)
        return peak

    def _results(self, op: Operation, buffers: _Buffers, place: int) -> None:
        for index, result in enumerate(op.results):
            source = None
            if op.name in _VIEWS:
                source = op.operands[min(index, len(op.operands) - 1)] if op.operands else None
            elif op.name == "stablehlo.dynamic_update_slice":
                source = buffers.taken_over(op.operands[0], place)
            elif op.name == "stablehlo.while" and op.operands.count(op.operands[index]) == 1:
                source = buffers.taken_over(op.operands[index], place)
            if source is not None and buffers.share(result, source):
                continue
            buffers.add(result, _result_bytes(op, result))


def _result_bytes(op: Operation, result: Value) -> int:
    data = op.properties.get("value")
    if isinstance(data, DenseElementsAttr) and data.splat:
        return len(data.data)
    return type_bytes(result.type)


class _Buffers:
    """Buffers that live at one place of a block."""

    def __init__(self, block: Block, places: dict[Operation, int]) -> None:
        self.live = 0
        self._block = block
        self._places = places
        self._of: dict[Value, int] = {}
        self._sizes: list[int] = []
        self._last: list[int] = []  # place after which it is free; the block's length: never
        self._ends: dict[int, set[int]] = {}

    def add(self, value: Value, size: int, *, is_kept: bool = False) -> None:
        """Give a value a buffer of its own."""
        number = len(self._sizes)
        self._of[value] = number
        self._sizes.append(size)
        self._last.append(-1)
        self.live += size
        self._extend(number, len(self._places) if is_kept else self._last_use(value))

    def share(self, value: Value, source: Value) -> bool:
        """Put a value into the buffer of another one; return whether that has one here."""
        number = self._of.get(source)
        if number is None:
            return False
        self._of[value] = number
        self._extend(number, self._last_use(value))
        return True

    def taken_over(self, value: Value, place: int) -> Value | None:
        """Return the value if its buffer may be overwritten at a place, where it was last used."""
        number = self._of.get(value)
        return value if number is not None and self._last[number] == place else None

    def free_after(self, place: int) -> None:
        """Free the buffers whose last use was at a place."""
        for number in self._ends.pop(place, ()):
            self.live -= self._sizes[number]

    def _extend(self, number: int, last: int) -> None:
        old = self._last[number]
        if last > old:
            self._ends.get(old, set()).discard(number)
            self._last[number] = last
            self._ends.setdefault(last, set()).add(number)

    def _last_use(self, value: Value) -> int:
        """Return the place of the last use; that of the definition where there is none."""
        definer = value.defining_op
        last = self._places[definer] if definer is not None else 0
        for user in value.users:
            last = max(last, self._place_of(user))
        return last

    def _place_of(self, op: Operation) -> int:
        """Return the place of an operation, or of the one of this block that contains it."""
        while op not in self._places:
            outer = op.parent_op
            if outer is None:
                return len(self._places)
            op = outer
        return self._places[op]
