"""Which values own memory, which are views of others, and how long each is needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.mlir.ir import Value
from emu.mlir.types import TensorType
from emu.stablehlo.compiled.units import Unit, Units, walk, walk_blocks
from emu.stablehlo.compiled.views import offset_of, shadow, view_of
from emu.stablehlo.reference.dtypes import constant_array, dtype_of
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array


@dataclass(frozen=True, slots=True)
class Stem:
    """How a value lies in the memory of its owner.

    Attributes:
        owner: The value that has the memory; often the value itself.
        shadow: Its shape, dtype, strides and offset in the owner's memory.
    """

    owner: Value
    shadow: Array

    @property
    def is_whole(self) -> bool:
        """Whether it is all that the owner is, C-contiguous."""
        if offset_of(self.shadow) or not is_contiguous(self.shadow):
            return False
        return self.shadow.nbytes == plain_shadow(self.owner).nbytes


def is_contiguous(array: Array) -> bool:
    """Return whether an array is C-contiguous; a broadcast one of several elements is not."""
    return bool(array.flags.c_contiguous)


def plain_shadow(value: Value) -> Array:
    """Return the shadow of a value that owns its memory; that of a token is empty."""
    type_ = value.type
    if str(type_) == "!stablehlo.token":
        return shadow((0,), np.dtype(np.bool_))
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise EvaluationError(f"{type_} has no static shape")
    return shadow(type_.static_shape, dtype_of(type_.element))


class Lifetimes:
    """Owners of all values of a program, and the times of their last uses.

    Attributes:
        stems: Stem per value.
        last: Time of the last use per owner, through all views of it.
        constants: Values of constants.
        windows: Per value that is a window of another, that one.
        home: Block per value.
    """

    def __init__(self, main: Units) -> None:
        self.stems: dict[Value, Stem] = {}
        self.last: dict[Value, int] = {}
        self.constants: dict[Value, Array] = {}
        self.windows: dict[Value, Value] = {}
        self.home: dict[Value, Units] = {}
        self.is_view: set[Unit] = set()
        for argument in main.block.arguments:
            self._own(argument)
        self._find_owners(main)
        self._find_homes(main)
        self._find_uses(main)

    def owner(self, value: Value) -> Value:
        """Return the value whose memory a value lies in."""
        return self.stems[value].owner

    def _own(self, value: Value) -> None:
        self.stems[value] = Stem(value, plain_shadow(value))

    # Owners

    def _find_owners(self, units: Units) -> None:
        for unit in units.units:
            if unit.form is not None or not self._special(unit):
                for result in unit.results:
                    self._own(result)

    def _special(self, unit: Unit) -> bool:
        """Find the stems of what is no plain operation; return whether it is none."""
        op = unit.op
        if op.name == "stablehlo.while" and unit.blocks:
            self._while(unit)
            return True
        for inner in unit.blocks:
            self._find_owners(inner)
        if op.name in ("stablehlo.constant", "chlo.constant", "sdy.constant"):
            return self._constant(unit)
        if op.name == "stablehlo.dynamic_slice":
            return self._window(unit)
        if len(unit.results) != 1 or not unit.operands or op.regions:
            return False
        source = self.stems[unit.operands[0]]
        found = view_of(op, source.shadow)
        if found is None:
            return False
        self.stems[unit.results[0]] = Stem(source.owner, found)
        self.is_view.add(unit)
        return True

    def _constant(self, unit: Unit) -> bool:
        result = unit.results[0]
        try:
            array = constant_array(unit.op.properties["value"])
        except EvaluationError:
            return False  # The step says so, if it runs.
        if array.ndim and array.size and not any(array.strides):
            # A splat is one element that all places show.
            array = array[(slice(0, 1),) * array.ndim]
        self.constants[result] = array = np.array(array, order="C")
        whole = plain_shadow(result)
        if array.shape != whole.shape:
            whole = np.broadcast_to(shadow(array.shape, array.dtype), whole.shape)
        self.stems[result] = Stem(result, whole)
        self.is_view.add(unit)
        return True

    def _window(self, unit: Unit) -> bool:
        """Let a dynamic slice show a part of its operand, with the operand's strides."""
        source, result = self.stems[unit.operands[0]], unit.results[0]
        whole = plain_shadow(result)
        self.stems[result] = Stem(result, shadow(whole.shape, whole.dtype, source.shadow.strides))
        self.windows[result] = unit.operands[0]
        return True

    def _while(self, unit: Unit) -> None:
        condition, body = unit.blocks
        for index, (start, result) in enumerate(zip(unit.operands, unit.results, strict=True)):
            inner = body.block.arguments[index], condition.block.arguments[index]
            if is_invariant(unit, index):
                for value in (result, *inner):
                    self.stems[value] = self.stems[start]
            else:
                for value in (result, *inner):
                    self._own(value)
        self._find_owners(condition)
        self._find_owners(body)

    # Uses

    def _find_homes(self, main: Units) -> None:
        for units in walk_blocks(main):
            self.home.update(dict.fromkeys(units.block.arguments, units))
            for unit in units.units:
                self.home.update(dict.fromkeys(unit.results, units))

    def _find_uses(self, main: Units) -> None:
        for units in walk_blocks(main):
            for value in units.returned:
                self._use(value, units, units.end)
        for units, unit in walk(main):
            for value in unit.results:
                self._use(value, units, unit.time)
            if unit in self.is_view:
                continue
            for value in unit.operands:
                self._use(value, units, unit.time)
        for window, source in reversed(self.windows.items()):
            self._use(source, self.home[window], self.last[window])

    def _use(self, value: Value, units: Units, time: int) -> None:
        owner = self.owner(value)
        home = self.home[owner]
        inner: Units | None = units
        while inner is not None and inner is not home:
            # What is used in a loop is used in each round.
            if inner.holder is not None:
                time = max(time, inner.holder.end)
            inner = inner.parent
        if time > self.last.get(owner, 0):
            self.last[owner] = time


def is_invariant(unit: Unit, index: int) -> bool:
    """Return whether a loop never changes a value that it carries."""
    body = unit.blocks[1]
    return body.returned[index] is body.block.arguments[index]
