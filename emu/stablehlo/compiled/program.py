"""Compiled programs, and programs bound to the memory of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emu.mlir.attributes import TypeAttr
from emu.mlir.ir import Operation
from emu.mlir.types import FunctionType, TensorType
from emu.stablehlo.reference.devices import Device, SingleDevice
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.evaluate import evaluate
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array


class CompiledProgram:
    """A function of a module, compiled; immutable and picklable.

    Attributes:
        module: The module.
        function: Name of the function.
        inputs: Types of its parameters.
        results: Types of its results.
        donated: Indices of the inputs whose memory a call may overwrite.
    """

    def __init__(
        self,
        module: Operation,
        function: str,
        custom_calls: Mapping[str, CustomCall],
        donated: Sequence[int],
    ) -> None:
        self.module = module
        self.function = function
        self.donated = tuple(donated)
        self._custom_calls = dict(custom_calls)
        found = [op for op in module.body() if op.symbol_name == function]
        if not found or not found[0].regions or not found[0].regions[0].blocks:
            raise EvaluationError(f"there is no function @{function} with a body")
        attribute = found[0].properties["function_type"]
        assert isinstance(attribute, TypeAttr)
        assert isinstance(attribute.type, FunctionType)
        self.inputs = tuple(attribute.type.inputs)
        self.results = tuple(attribute.type.results)

    def bind(
        self, device: Device | None = None, custom_calls: Mapping[str, CustomCall] | None = None
    ) -> BoundProgram:
        """Allocate the buffers of one process.

        Args:
            device: The process that runs it. Default: the only one.
            custom_calls: Functions by the name of their target, beside those that
                ``compile_program`` was given. Default: none.
        """
        calls = {**self._custom_calls, **(custom_calls or {})}
        return BoundProgram(self, SingleDevice() if device is None else device, calls)


class BoundProgram:
    """A compiled program with its buffers: what one process calls.

    Attributes:
        program: The compiled program.
    """

    def __init__(
        self, program: CompiledProgram, device: Device, custom_calls: Mapping[str, CustomCall]
    ) -> None:
        self.program = program
        self._device = device
        self._custom_calls = custom_calls

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers, beside inputs and results."""
        return 0

    def __call__(
        self, inputs: Sequence[Array], outputs: Sequence[Array] | None = None
    ) -> list[Array]:
        """Run the program.

        Args:
            inputs: One array per parameter, of its shape and dtype.
            outputs: Arrays to write the results to. Default: new ones.

        Returns:
            ``outputs``, or the new arrays.

        Raises:
            EvaluationError: An input or output does not fit, or an operation cannot be evaluated.
        """
        found = evaluate(
            self.program.module,
            *inputs,
            function=self.program.function,
            device=self._device,
            custom_calls=self._custom_calls,
        )
        if outputs is None:
            return found
        checked = [
            check_array(f"output {i}", x, t)
            for i, (x, t) in enumerate(zip(outputs, self.program.results, strict=True))
        ]
        for target, source in zip(checked, found, strict=True):
            target[...] = source
        return checked


def check_array(what: str, value: Array, type_: object) -> Array:
    """Return an array that must be of a type."""
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise EvaluationError(f"{what} is {type_}, which has no static shape")
    array = np.asarray(value)
    if array.shape != type_.shape or array.dtype != dtype_of(type_.element):
        raise EvaluationError(f"{what} must be {type_}, but is {array.dtype}{list(array.shape)}")
    return array


def compile_program(
    module: Operation,
    function: str = "main",
    *,
    custom_calls: Mapping[str, CustomCall] | None = None,
    donated: Sequence[int] = (),
) -> CompiledProgram:
    """Compile a function of a module.

    Args:
        module: A verified module of static shapes; it is left as it is.
        function: Name of the function. Default: "main".
        custom_calls: Functions by the name of their target. Default: none.
        donated: Indices of the inputs whose memory a call may overwrite. Default: none.

    Returns:
        The program: immutable, picklable if ``custom_calls`` are.

    Raises:
        EvaluationError: There is no such function.
    """
    return CompiledProgram(module, function, custom_calls or {}, donated)
