"""Programs of dynamic shapes: one of static shapes for each set of shapes that they are called with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.functions import function_type
from emu.sdy.execution.arrays import DeviceArray, PerDevice, to_array
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.program import main_function
from emu.sdy.passes.shapes.errors import CannotRefine
from emu.sdy.passes.shapes.refinement import refine_shapes

_MOST_PROGRAMS = 8


class Closable(Protocol):
    """A program, which has PEs."""

    def close(self) -> None:
        """End its PEs."""


P = TypeVar("P", bound=Closable)


class Specializations(Generic[P]):
    """The programs made of a module of dynamic shapes, the last eight of them.

    Args:
        module: The module.
    """

    def __init__(self, module: Operation) -> None:
        self._module = module.clone()
        self._programs: OrderedDict[tuple[Type, ...], P] = OrderedDict()

    def program(self, inputs: Sequence[Any], make: Callable[[Operation], P]) -> P:
        """Return the program for inputs.

        Args:
            inputs: The inputs of a call.
            make: Makes a program of the module of their shapes.

        Raises:
            ExecutionError: The inputs do not fit.
        """
        types = self._types(inputs)
        program = self._programs.get(types)
        if program is None:
            module = self._module.clone()
            try:
                refine_shapes(module, main_function(module), types)
            except CannotRefine as error:
                place = "" if error.location is None else f"{error.location}: "
                raise ExecutionError(f"{place}{error}") from None
            program = make(module)
            if len(self._programs) == _MOST_PROGRAMS:
                self._programs.popitem(last=False)[1].close()
            self._programs[types] = program
        self._programs.move_to_end(types)
        return program

    def _types(self, inputs: Sequence[Any]) -> tuple[Type, ...]:
        written = function_type(main_function(self._module)).inputs
        if len(inputs) != len(written):
            raise ExecutionError(f"the program takes {len(written)} inputs, but got {len(inputs)}")
        return tuple(
            _type(index, type_, value)
            for index, (type_, value) in enumerate(zip(written, inputs, strict=True))
        )

    def close(self) -> None:
        """End the PEs of all programs."""
        for program in self._programs.values():
            program.close()


def _type(index: int, type_: Type, value: Any) -> Type:
    if not isinstance(type_, TensorType) or type_.is_static:
        return type_  # the program checks the value
    if isinstance(value, (PerDevice, list, tuple)):
        raise ExecutionError(
            f"input {index} must be one array, since the program has no shape for it, {type_}, but "
            "is one per device"
        )
    found = value if isinstance(value, DeviceArray) else to_array(f"input {index}", value)
    return TensorType(tuple(found.shape), type_.element)
