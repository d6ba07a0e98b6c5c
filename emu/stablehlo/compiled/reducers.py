"""The region of a reducing collective: one of the reductions of a World, or a fold by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.kernels.reduce import CODES
from emu.mlir.attributes import StringAttr, TypeAttr
from emu.mlir.ir import Operation, Region
from emu.mlir.types import FunctionType
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.reduction import fold
from emu.stablehlo.reference.scope import Program, Scope, callee
from emu.stablehlo.reference.values import Array
from emu.stablehlo.regions import captured, only_operation

_NAMES = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "prod",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}
_BOOLEAN_NAMES = {"stablehlo.and": "min", "stablehlo.or": "max"}
_COMBINE = "region of a collective"


@dataclass(frozen=True, eq=False)
class Reducer:
    """What a region does to two elements.

    Attributes:
        name: The World's reduction that does the same; None if there is none.
        dtype: Dtype that the region works in; inputs are converted to it.
        module: A module whose only public function has the region's body.
    """

    name: str | None
    dtype: np.dtype[np.generic]
    module: Operation

    def fold(self, parts: Sequence[Array]) -> Array:
        """Combine arrays element by element, in their order."""
        if len(parts) == 1:
            return parts[0]
        program = Program(self.module, SingleDevice(), {})
        region = program.function(_COMBINE).regions[0]
        (found,) = fold(region, [parts[0]], [np.stack(parts[1:])], Scope(program))
        return found


def reducer_of(op: Operation) -> Reducer:
    """Return the reducer of an operation with a region of two scalars.

    Raises:
        EvaluationError: The region uses values from outside.
    """
    region = op.regions[0]
    dtype = result_dtype(region.blocks[0].arguments[0].type)
    return Reducer(_name(region, dtype), dtype, _module(op))


def _name(region: Region, dtype: np.dtype[np.generic]) -> str | None:
    """Return the World's name of a reduction that is a single operation of both parameters."""
    first = only_operation(region)
    if first is None:
        return None
    name = _NAMES.get(first.name)
    if dtype == np.bool_:
        name = _BOOLEAN_NAMES.get(first.name, name)
    if dtype == np.float16 and name in ("sum", "prod"):
        return None  # a World adds in float32, where what overflows on the way may come back
    # The sum of complex numbers is that of their parts.
    known = dtype in CODES or (dtype.kind == "c" and name == "sum")
    return name if known else None


def _module(op: Operation) -> Operation:
    """Return a module with the region as a function, and the functions that it calls."""
    region = op.regions[0]
    if captured(op):
        raise EvaluationError("the region uses values from outside of it")
    block = region.blocks[0]
    types = FunctionType(
        tuple(a.type for a in block.arguments),
        tuple(v.type for v in block.terminator.operands),
    )
    module = Operation("builtin.module", regions=[Region()])
    body = module.regions[0].add_block()
    body.append(
        Operation(
            "func.func",
            properties={"sym_name": StringAttr(_COMBINE), "function_type": TypeAttr(types)},
            regions=[region.clone({})],
        )
    )
    for function in _called(op):
        body.append(function.clone())
    return module


def _called(op: Operation) -> list[Operation]:
    """Return the functions that an operation calls, and that they call."""
    around: Operation | None = op
    while around is not None and around.name != "builtin.module":
        around = around.parent_op
    known = (
        {f.symbol_name: f for f in around.body() if f.name == "func.func"}
        if around is not None
        else {}
    )
    found: list[Operation] = []
    left = [op]
    while left:
        for call in left.pop().walk():
            if call.name not in ("func.call", "stablehlo.composite"):
                continue
            function = known.get(callee(call))
            if function is not None and function not in found:
                found.append(function)
                left.append(function)
    return found
