"""A module made ready to run: the program of one device, and where inputs and results are."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.attributes import BoolAttr, IntegerAttr, StringAttr
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, OpResult, Value
from emu.mlir.types import IntegerType, TensorType, Type
from emu.sdy.dialect.attributes import Mesh, TensorSharding
from emu.sdy.dialect.functions import func_arg_sharding, func_result_sharding, function_type
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.pickled import Pickled
from emu.sdy.execution.program import (
    DEFAULT_PIPELINE,
    NUMBER,
    PROBE,
    Partitioned,
    Probe,
    main_function,
    n_devices,
)
from emu.sdy.execution.shards import Placement
from emu.sdy.execution.trace import mark_whole, whole_number
from emu.sdy.passes.base import Pass, Pipeline
from emu.sdy.passes.export.local.conversion import ConvertGlobalToLocal
from emu.sdy.passes.run import run_passes
from emu.sdy.passes.text import passes_of

_ONE_DEVICE = Mesh(())
_REDUCING = {"sdy.all_reduce", "sdy.reduce_scatter"}
_SCALAR_REGIONS = (
    *("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.sort"),
    *("stablehlo.select_and_scatter", "stablehlo.map", "stablehlo.all_reduce"),
    *("stablehlo.reduce_scatter",),
)
_WITH_BODIES = {
    *("stablehlo.while", "stablehlo.if", "stablehlo.case", "func.call", "sdy.named_computation"),
    *("sdy.manual_computation", "stablehlo.composite"),
}
"""Operations that compute nothing but what operations inside do."""

_PADDING = {"stablehlo.pad", "stablehlo.slice"}
_COMPUTING = {"sdy.manual_computation", "sdy.named_computation"}


def partition(
    module: Operation, passes: str = DEFAULT_PIPELINE, *, probed: bool = False
) -> Partitioned:
    """Partition a copy of a module.

    Args:
        module: A module with shardings, or without any.
        passes: Pipeline that makes the program of one device of it.
        probed: Whether to put a probe behind each value. Default: False.

    Raises:
        ExecutionError: The module has no main function, or its types are not static tensors.
        PassFailed: A pass failed.
    """
    try:
        return _partition(module, passes, probed)
    except PassFailed:
        # Marks would show in the errors, and nothing was verified on the way, which takes half of the
        # time: run the passes again as a user would, for errors that name the pass that went wrong.
        run_passes(module.clone(), passes)
        raise


def _partition(module: Operation, passes: str, probed: bool) -> Partitioned:
    whole = module.clone()
    # A function per call: then each operation has one sharding, and runs in the same order in both.
    run_passes(whole, "sdy-flatten-call-graph", verify_each=False)
    operations = mark_whole(whole) if probed else {}
    local = whole.clone()
    type_ = function_type(main_function(local))
    count = n_devices(local)
    before, last = _split(passes)
    run_passes(local, before, verify_each=False)
    made = _texts(local) if probed else {}
    probes = _insert_probes(local, operations) if probed else {}
    run_passes(local, last, verify_each=False)
    main = main_function(local)
    arguments = [func_arg_sharding(main, i) for i in range(len(type_.inputs))]
    results = [func_result_sharding(main, i) for i in range(len(type_.results))]
    inputs, outputs = (
        tuple(
            _placement(local, t, s, f"{kind} {i}")
            for i, (t, s) in enumerate(zip(types, shardings, strict=True))
        )
        for kind, types, shardings in (
            ("input", type_.inputs, arguments),
            ("result", type_.results, results),
        )
    )
    run_passes(local, "sdy-drop-sharding-and-mesh")  # the only one that is verified behind
    _check_local(local, (inputs, outputs))
    modules = Pickled((whole, local))
    return Partitioned(modules, inputs, outputs, count, operations, made, probes)


def _check_local(local: Operation, placements: Sequence[Sequence[Placement]]) -> None:
    """Raise an error where passes left a program that is not one device's."""
    type_ = function_type(main_function(local))
    for kind, types, each in zip(
        ("input", "result"), (type_.inputs, type_.results), placements, strict=True
    ):
        for index, (found, placement) in enumerate(zip(types, each, strict=True)):
            if _shape(found) != placement.local_shape:
                raise ExecutionError(
                    f"passes must make the program of one device, whose {kind} {index} has the shape "
                    f"{list(placement.local_shape)}, but they leave {found}"
                )


def _split(passes: str) -> tuple[list[Pass], list[Pass]]:
    """Return the passes before types become local, and those from there on."""
    flat: list[Pass] = []
    for each in passes_of(passes):
        flat += each.passes() if isinstance(each, Pipeline) else [each]
    index = next((i for i, p in enumerate(flat) if isinstance(p, ConvertGlobalToLocal)), len(flat))
    return flat[:index], flat[index:]


def _texts(module: Operation) -> dict[int, list[str]]:
    """Return the first line of each operation by the mark of the one that it was made from."""
    found: dict[int, list[str]] = {}
    for op in module.walk():
        origin = whole_number(op.location)
        if origin is not None and op.results:
            found.setdefault(origin, []).append(str(op).split("\n", 1)[0].strip())
    return found


def _insert_probes(module: Operation, operations: dict[int, Operation]) -> dict[int, Probe]:
    """Put a custom call behind each value that stands for one of the whole program."""
    found: dict[int, Probe] = {}
    for op in list(module.walk()):
        origin = whole_number(op.location)
        inside = op.ancestor("sdy.manual_computation", *_SCALAR_REGIONS)
        if origin is None or inside is not None:
            continue
        for value in op.results:
            probe = _probe(module, value, origin, operations[origin])
            if probe is None:
                continue
            number = len(found)
            found[number] = probe
            call = Operation(
                "stablehlo.custom_call",
                [value],
                properties={
                    "call_target_name": StringAttr(PROBE),
                    "has_side_effect": BoolAttr(True),
                },
                attributes={NUMBER: IntegerAttr(number, IntegerType(64))},
                location=op.location,
            )
            assert op.parent is not None
            op.parent.insert_before(op.next_op, call)
    return found


def _probe(module: Operation, value: Value, origin: int, op: Operation) -> Probe | None:
    index = _origin(value, origin, op.name)
    # What is still to be added up is only part of a value.
    if index is None or _is_partial(value) or index >= len(op.results) or op.name in _WITH_BODIES:
        return None
    placement = _result_placement(module, value)
    if placement is None or placement.type.shape != _shape(op.results[index].type):
        return None
    return Probe(origin, index, placement)


def _is_partial(value: Value) -> bool:
    """Return whether a value is still to be reduced, perhaps after it is sliced."""
    return any(
        user.name in _REDUCING or (user.name == "sdy.all_slice" and _is_partial(user.result))
        for user in value.users
    )


def _shape(type_: Type) -> object:
    return type_.shape if isinstance(type_, TensorType) else None


def _origin(value: Value, origin: int, name: str) -> int | None:
    """Return which result of the whole program's operation a value stands for.

    An operation of sdy stands for its operand's; others of another name than the whole program's
    operation are steps on the way, and so are those of another number of results.
    """
    while isinstance(value, OpResult) and whole_number(value.owner.location) == origin:
        op = value.owner
        is_step = op.name.startswith("sdy.") and len(op.operands) == 1 and op.name not in _COMPUTING
        # Passes add padding to results, and remove it, at the same location.
        if is_step or (op.name in _PADDING and op.name != name):
            value = op.operands[0]
        else:
            return value.index
    return None


def _result_placement(module: Operation, value: Value) -> Placement | None:
    if not isinstance(value.type, TensorType) or not value.type.is_static:
        return None
    sharding = get_sharding(value)
    if sharding is None:
        return Placement(value.type, None, _ONE_DEVICE)
    if sharding.unreduced_axes:
        return None
    return Placement(value.type, sharding, get_mesh(module, sharding.mesh))


def _placement(
    module: Operation, type_: Type, sharding: TensorSharding | None, what: str
) -> Placement:
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise ExecutionError(f"{what} must be a tensor of static shape, but is {type_}")
    if sharding is None:
        return Placement(type_, None, _ONE_DEVICE)
    mesh = get_mesh(module, sharding.mesh)
    return Placement(type_, sharding, mesh)
