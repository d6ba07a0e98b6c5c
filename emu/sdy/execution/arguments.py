"""Arguments of ``emu.sdy.compile`` and of calls, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emu.comm.process.launch_arguments import MAX_PES, as_integer
from emu.kernels.core.messages import shown
from emu.mlir.attributes import Attribute, BoolAttr, IntegerAttr, StringAttr, UnitAttr
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import Mesh, MeshAxis
from emu.sdy.dialect.functions import func_arg_attribute, function_type
from emu.sdy.execution.arrays import DeviceArray, PerDevice, to_array
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.local_program import local_form
from emu.sdy.execution.shards import Placement
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array

Input = Array | PerDevice | DeviceArray
_DONATIONS = ("jax.buffer_donor", "tf.aliasing_output")


# Inputs


def check_inputs(
    values: Sequence[Any], placements: Sequence[Placement], n_devices: int
) -> list[Input]:
    """Return inputs as arrays of the program's shapes and dtypes.

    Raises:
        ExecutionError: There are too many or too few, or one does not fit.
    """
    if len(values) != len(placements):
        noun = "input" if len(placements) == 1 else "inputs"
        raise ExecutionError(f"the program takes {len(placements)} {noun}, but got {len(values)}")
    return [
        _checked(index, value, placement, n_devices)
        for index, (value, placement) in enumerate(zip(values, placements, strict=True))
    ]


def _checked(index: int, value: Any, placement: Placement, n_devices: int) -> Input:
    if isinstance(value, (list, tuple)) and any(hasattr(x, "shape") for x in value):
        try:
            value = PerDevice(value)
        except ExecutionError as error:
            raise ExecutionError(f"input {index}: {error}") from error
    if isinstance(value, PerDevice):
        return _checked_shards(index, value, placement, n_devices)
    type_ = placement.type
    if isinstance(value, DeviceArray) and value.is_donated:
        raise ExecutionError(
            f"input {index} is {value!r}, which was donated to a call: its value is gone"
        )
    found: Array | DeviceArray = (
        value if isinstance(value, DeviceArray) else to_array(f"input {index}", value)
    )
    dtype = dtype_of(type_.element)
    # NumPy's scalars have a dtype of their own; some derive from Python's.
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        found = _scalar(index, value, placement)
    if found.shape != type_.shape or found.dtype != dtype:
        raise ExecutionError(
            f"input {index} must be {type_}, but is {found.dtype}{list(found.shape)}"
        )
    return found


def _scalar(index: int, value: complex, placement: Placement) -> Array:
    """Return a number of Python's as an array of the input's dtype."""
    dtype = dtype_of(placement.type.element)
    is_complex = isinstance(value, complex) and dtype.kind != "c"
    if is_complex or (dtype.kind == "b" and not isinstance(value, bool)):
        raise ExecutionError(f"input {index} must be {placement.type}, but is {value!r}")
    try:
        with np.errstate(all="ignore"):
            found: Array = np.asarray(value).astype(dtype)
            is_same = dtype.kind not in "iub" or bool(found == value)
    except (OverflowError, TypeError, ValueError):
        is_same = False
    if not is_same:
        raise ExecutionError(f"input {index} must be {placement.type}, but is {value!r}")
    return found


def _checked_shards(
    index: int, value: PerDevice, placement: Placement, n_devices: int
) -> PerDevice:
    if len(value.shards) != n_devices:
        raise ExecutionError(
            f"input {index} must have {n_devices} shards, one per device, but has "
            f"{len(value.shards)}"
        )
    shape, dtype = local_form(placement)
    for device, shard in enumerate(value.shards):
        if shard.shape != shape or shard.dtype != dtype:
            raise ExecutionError(
                f"input {index} must have shards {dtype}{list(shape)}, but that of device {device} "
                f"is {shard.dtype}{list(shard.shape)}"
            )
    return value


# Donation


def check_donated(module: Operation, main: Operation, donate: object) -> tuple[int, ...]:
    """Return the numbers of the donated inputs: those given, and those that the module's attributes name.

    Raises:
        ExecutionError: ``donate`` is no sequence of numbers of inputs.
    """
    count = len(function_type(main).inputs)
    if isinstance(donate, (str, bytes)) or not isinstance(donate, Sequence):
        raise ExecutionError(f"donate must be a sequence of integers, but is {shown(donate)}")
    found = set()
    for each in donate:
        index = as_integer(each)
        if index is None or not 0 <= index < count:
            raise ExecutionError(
                f"donate must hold numbers of inputs in [0, {count}), but has {shown(each)}"
            )
        found.add(index)
    for index in range(count):
        if any(_is_set(func_arg_attribute(main, index, name)) for name in _DONATIONS):
            found.add(index)
    return tuple(sorted(found))


def check_donations(given: Sequence[Input], donated: Sequence[int]) -> None:
    """Raise ExecutionError where a handle that is donated is another input, too."""
    for index in donated:
        value = given[index]
        if not isinstance(value, DeviceArray):
            continue
        for other, each in enumerate(given):
            if other != index and each is value:
                raise ExecutionError(
                    f"input {index} is donated, so its handle must be no other input, but is input "
                    f"{other}"
                )


def _is_set(attribute: Attribute | None) -> bool:
    if isinstance(attribute, BoolAttr):
        return attribute.value
    return isinstance(attribute, (IntegerAttr, UnitAttr))


# Choices


def check_choice(name: str, value: object, known: Sequence[str | None]) -> None:
    """Raise ExecutionError for anything but the values that are known."""
    if not (value is None or isinstance(value, str)) or value not in known:
        listed = [repr(each) for each in known]
        raise ExecutionError(
            f"{name} must be {', '.join(listed[:-1])} or {listed[-1]}, but is {shown(value)}"
        )


def check_custom_calls(calls: object) -> dict[str, CustomCall]:
    """Return functions by the name of their target; none for None.

    Raises:
        ExecutionError: ``calls`` is no mapping from names to functions.
    """
    if calls is None:
        return {}
    if not isinstance(calls, Mapping) or not all(
        isinstance(name, str) and callable(call) for name, call in calls.items()
    ):
        raise ExecutionError(
            f"custom_calls must be a mapping from names to functions, but is {shown(calls)}"
        )
    return dict(calls)


# Devices


def check_count(name: str, value: object, most: int = MAX_PES) -> int:
    """Return a number of PEs or replicas.

    Raises:
        ExecutionError: It is no integer in ``[1, most]``.
    """
    found = as_integer(value)
    if found is None or not 1 <= found <= most:
        raise ExecutionError(f"{name} must be an integer in [1, {most}], but is {shown(value)}")
    return found


def parse_mesh(mesh: object) -> Mesh:
    """Return a mesh given as ``{"x": 2, "y": 4}`` or ``"x=2,y=4"``.

    Raises:
        ExecutionError: It is neither.
    """
    pairs: list[tuple[object, object]] = []
    if isinstance(mesh, str):
        for part in filter(None, (each.strip() for each in mesh.split(","))):
            name, _, size = part.partition("=")
            pairs.append((name.strip(), int(size) if size.strip().isdecimal() else None))
    elif isinstance(mesh, Mapping):
        pairs = list(mesh.items())
    sizes = [(name, as_integer(size)) for name, size in pairs]
    names = [name for name, _ in sizes]
    good = all(
        isinstance(name, str) and name and size is not None and 1 <= size <= MAX_PES
        for name, size in sizes
    )
    if not sizes or not good or len(set(names)) < len(names):
        raise ExecutionError(
            f'mesh must name axes and their sizes in [1, {MAX_PES}], as {{"x": 2, "y": 4}} or '
            f'"x=2,y=4", but is {shown(mesh)}'
        )
    return Mesh(tuple(MeshAxis(str(name), int(size or 0)) for name, size in sizes))


def with_mesh(module: Operation, mesh: object) -> Operation:
    """Return a copy of a module on another mesh, which its shardings name; a new one has it as ``@mesh``.

    Raises:
        ExecutionError: The module has several meshes, or axes that the mesh has not.
    """
    wanted = parse_mesh(mesh)
    copy = module.clone()
    there = [op for op in copy.body() if op.name == "sdy.mesh"]
    if len(there) > 1:
        names = ", ".join(f"@{op.symbol_name}" for op in there)
        raise ExecutionError(f"mesh must be None for a module of several meshes: {names}")
    if there:
        before = there[0].properties["mesh"]
        assert isinstance(before, Mesh)
        missing = {axis.name for axis in before.axes} - {axis.name for axis in wanted.axes}
        if missing:
            raise ExecutionError(
                f"mesh must have the axes of @{there[0].symbol_name}, but {shown(mesh)} has no "
                f"{', '.join(sorted(missing))}"
            )
        there[0].properties["mesh"] = wanted
    else:
        op = Operation("sdy.mesh", properties={"sym_name": StringAttr("mesh"), "mesh": wanted})
        copy.body().insert_before(copy.body().first, op)
    return copy
