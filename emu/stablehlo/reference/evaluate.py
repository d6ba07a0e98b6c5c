"""Evaluation of modules: on one device, or on several in step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emu.mlir.attributes import TypeAttr
from emu.mlir.ir import Operation
from emu.mlir.types import FunctionType, TensorType, Type
from emu.stablehlo.reference import (  # noqa: F401  (their handlers register themselves)
    chlo,
    communication,
    contraction,
    control,
    elementwise,
    gather_scatter,
    lapack,
    linear_algebra,
    random,
    reduction,
    shaping,
    transfers,
)
from emu.stablehlo.reference.devices import Device, SingleDevice, run_on_threads
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.quantization import stored_dtype
from emu.stablehlo.reference.scope import CustomCall, Observer, Program
from emu.stablehlo.reference.streams import Streams
from emu.stablehlo.reference.values import Array


def evaluate(
    module: Operation,
    *inputs: Array,
    function: str = "main",
    device: Device | None = None,
    custom_calls: Mapping[str, CustomCall] | None = None,
    observer: Observer | None = None,
    streams: Streams | None = None,
) -> list[Array]:
    """Run a function of a module.

    Args:
        module: A verified module of static shapes.
        *inputs: One array per parameter, of its shape and dtype.
        function: Name of the function. Default: "main".
        device: The process that runs it. Default: the only one.
        custom_calls: Functions by the name of their target. Default: none.
        observer: Sees all values. Default: nobody.
        streams: What ``infeed`` takes, ``outfeed`` gives and channels hold. Default: empty ones.

    Returns:
        One array per result.

    Raises:
        EvaluationError: An input does not fit, or an operation cannot be evaluated.
    """
    program = Program(
        module,
        SingleDevice() if device is None else device,
        custom_calls or {},
        observer,
        streams,
    )
    checked = _checked_inputs(program.function(function), inputs)
    # Copies: a result may be a view of an input, or of a constant's bytes.
    return [np.array(each) for each in program.call(function, checked)]


def evaluate_devices(
    module: Operation,
    inputs: Sequence[Sequence[Array]],
    *,
    n_replicas: int = 1,
    custom_calls: Mapping[str, CustomCall] | None = None,
) -> list[list[Array]]:
    """Run ``main`` once per device, each in a thread.

    Args:
        module: A verified, partitioned module.
        inputs: The inputs of each device.
        n_replicas: Number of replicas; it divides the number of devices. Default: 1.
        custom_calls: Functions by the name of their target. Default: none.

    Returns:
        The results of each device.

    Raises:
        EvaluationError: An input does not fit, or an operation cannot be evaluated.
    """
    n_partitions, rest = divmod(len(inputs), n_replicas) if n_replicas > 0 else (0, 1)
    if rest or not inputs:
        raise EvaluationError(
            f"n_replicas must divide the number of devices, {len(inputs)}, but is {n_replicas}"
        )

    def run(device: Device) -> list[Array]:
        return evaluate(module, *inputs[device.process], device=device, custom_calls=custom_calls)

    return run_on_threads(run, n_replicas, n_partitions)


def _checked_inputs(function: Operation, inputs: Sequence[Array]) -> list[Array]:
    attribute = function.properties["function_type"]
    assert isinstance(attribute, TypeAttr)
    assert isinstance(attribute.type, FunctionType)
    types = attribute.type.inputs
    if len(inputs) != len(types):
        raise EvaluationError(
            f"@{function.symbol_name} takes {len(types)} inputs, but got {len(inputs)}"
        )
    return [_checked(i, x, t) for i, (x, t) in enumerate(zip(inputs, types, strict=True))]


def _checked(index: int, value: Array, type_: Type) -> Array:
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise EvaluationError(f"input {index} is {type_}, which has no static shape")
    array = np.asarray(value)
    if array.shape != type_.shape or array.dtype != stored_dtype(type_.element):
        raise EvaluationError(
            f"input {index} must be {type_}, but is {array.dtype}{list(array.shape)}"
        )
    return array
