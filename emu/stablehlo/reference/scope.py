"""Evaluation of functions and regions, an operation at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from emu.mlir.attributes import StringAttr, SymbolRefAttr
from emu.mlir.diagnostics import shown_place
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.types import TensorType
from emu.stablehlo.reference.devices import Device
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.quantization import (
    evaluate_quantized,
    has_quantized_types,
    stored_dtype,
)
from emu.stablehlo.reference.streams import Streams
from emu.stablehlo.reference.values import Array

CustomCall = Callable[..., Sequence[Array]]
"""Called with the operation and its operands."""


class Observer(Protocol):
    """Sees the values of a running program, but for those of batched regions."""

    def enter(self, block: Block, arguments: Sequence[Array]) -> None:
        """Note the arguments of a block that is about to run."""

    def leave(self, op: Operation, results: Sequence[Array]) -> None:
        """Note the results of an operation that has run."""


Handler: TypeAlias = "Callable[[Operation, Sequence[Array], Scope], Sequence[Array]]"
"""Computes an operation's results from its operands."""

HANDLERS: dict[str, Handler] = {}
"""Handler per name of an operation."""

ELEMENTWISE: set[str] = set()
"""Operations whose handlers broadcast: a region of nothing else is applied to whole arrays."""

_TERMINATORS = {"stablehlo.return", "func.return", "sdy.return"}
_SCALAR_IDENTITIES = {"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.constant"}


class Program:
    """A module that is evaluated: its functions, and what they run on.

    Attributes:
        functions: Functions by name.
        device: The process that evaluates.
        custom_calls: Functions by the name of their target.
        observer: Told of every operation's results; None for nobody.
        streams: What is exchanged with the host.
    """

    def __init__(
        self,
        module: Operation,
        device: Device,
        custom_calls: Mapping[str, CustomCall],
        observer: Observer | None = None,
        streams: Streams | None = None,
    ) -> None:
        self.functions = {
            op.symbol_name: op for op in module.body() if op.name == "func.func" and op.symbol_name
        }
        self.device = device
        self.custom_calls = custom_calls
        self.observer = observer
        self.streams = Streams() if streams is None else streams

    def function(self, name: str) -> Operation:
        """Return the function of a name."""
        found = self.functions.get(name)
        if found is None or not found.regions or not found.regions[0].blocks:
            raise EvaluationError(f"there is no function @{name} with a body")
        return found

    def on(self, device: Device) -> Program:
        """Return the same program on another device."""
        other = copy.copy(self)
        other.device = device
        return other

    def call(self, name: str, arguments: Sequence[Array]) -> list[Array]:
        """Call a function: its values are its own."""
        return Scope(self).call(name, arguments)


class Scope:
    """Values of one call of a function; its regions see those around them.

    Attributes:
        program: The program.
        batched: Whether values of rank 0 may be arrays: many elements at once.
    """

    __slots__ = ("_values", "batched", "program")

    def __init__(
        self, program: Program, values: dict[Value, Array] | None = None, batched: bool = False
    ) -> None:
        self.program = program
        self.batched = batched
        self._values = {} if values is None else values

    def on(self, device: Device) -> Scope:
        """Return a scope that sees the same values and is another device's."""
        # A copy: devices run one region at the same time, in threads.
        return Scope(self.program.on(device), dict(self._values), self.batched)

    def call(self, name: str, arguments: Sequence[Array]) -> list[Array]:
        """Call a function, whose values are its own."""
        body = self.program.function(name).body()
        return Scope(self.program, batched=self.batched).block(body, arguments)

    def block(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """Evaluate the operations of a block; return what its terminator does."""
        values = self._values
        for argument, value in zip(block.arguments, arguments, strict=True):
            values[argument] = value
        if self.program.observer is not None and not self.batched:
            self.program.observer.enter(block, arguments)
        for op in block:
            operands = [values[operand] for operand in op.operands]
            if op.name in _TERMINATORS:
                return operands
            for result, found in zip(op.results, self._evaluate(op, operands), strict=True):
                values[result] = found
        raise EvaluationError("a block has no terminator")

    def run(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        """Evaluate a region once."""
        return self.block(region.blocks[0], arguments)

    def _evaluate(self, op: Operation, operands: Sequence[Array]) -> Sequence[Array]:
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise _at(op, EvaluationError("the operation cannot be evaluated"))
        if self.batched and op.name in _SCALAR_IDENTITIES and operands:
            return operands
        try:
            # NumPy warns of what StableHLO defines: overflow, 0 / 0, NaN.
            with np.errstate(all="ignore"):
                if has_quantized_types(op):
                    found = evaluate_quantized(op, operands, lambda o, args: handler(o, args, self))
                else:
                    found = handler(op, operands, self)
        except EvaluationError as error:
            raise _at(op, error) from error.__cause__
        if not self.batched:
            self._check(op, found)
            if self.program.observer is not None:
                self.program.observer.leave(op, found)
        return found

    def _check(self, op: Operation, found: Sequence[Array]) -> None:
        """Raise an error where a handler's results are not of the types that the program says."""
        for result, array in zip(op.results, found, strict=True):
            type_ = result.type
            if not isinstance(type_, TensorType) or not type_.is_static:
                continue
            if array.shape != type_.shape or array.dtype != stored_dtype(type_.element):
                raise _at(
                    op, EvaluationError(f"gives {array.dtype}{list(array.shape)}, but must {type_}")
                )

    def apply(
        self, region: Region, arguments: Sequence[Array], shape: tuple[int, ...]
    ) -> list[Array]:
        """Apply a region of scalars to each element of arrays.

        Args:
            region: Takes and returns tensors of rank 0.
            arguments: One array per parameter; they broadcast to ``shape``.
            shape: Shape of the results.

        Returns:
            One array per result.
        """
        if self.is_elementwise(region):
            scope = Scope(self.program, self._values, batched=True)
            found = scope.run(region, arguments)
            return [np.broadcast_to(each, shape) for each in found]
        wide = [np.broadcast_to(each, shape) for each in arguments]
        last = region.blocks[0].last
        types = [] if last is None else [value.type for value in last.operands]
        results: list[Array] = [
            np.empty(shape, stored_dtype(t.element)) for t in types if isinstance(t, TensorType)
        ]
        for index in np.ndindex(*shape):
            found = self.run(region, [each[index].reshape(()) for each in wide])
            for result, value in zip(results, found, strict=True):
                result[index] = value[()]
        return results

    def is_elementwise(self, region: Region) -> bool:
        """Return whether all that a region does broadcasts."""
        return all(self._is_scalar(op) for block in region.blocks for op in block)

    def _is_scalar(self, op: Operation) -> bool:
        if op.name in ELEMENTWISE or op.name in _TERMINATORS:
            return True
        if op.name == "func.call":
            return self.is_elementwise(self.program.function(callee(op)).regions[0])
        types = [value.type for value in (*op.operands, *op.results)]
        scalars = all(isinstance(t, TensorType) and not t.rank for t in types)
        return op.name in _SCALAR_IDENTITIES and scalars


def callee(op: Operation) -> str:
    """Return the name of the function that an operation calls."""
    for name in ("callee", "decomposition"):
        found = op.properties.get(name)
        if isinstance(found, SymbolRefAttr):
            return found.root
        if isinstance(found, StringAttr):
            return found.value
    raise EvaluationError("has no callee")


def _at(op: Operation, error: EvaluationError) -> EvaluationError:
    """Return an error that names the innermost operation and its place."""
    if error.placed:
        return error
    return EvaluationError(f"{shown_place(op.location)}: {op.name}: {error}", placed=True)


# Handlers


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Make a function the handler of operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"{name} has a handler")
            HANDLERS[name] = handler
        return handler

    return register


def define_elementwise(name: str, function: Callable[..., Array]) -> None:
    """Define an operation by a function of arrays that computes each element by itself."""
    handles(name)(lambda op, args, scope: (function(*args),))
    ELEMENTWISE.add(name)
