"""Conversion of functions, calls, computations and constants."""

from __future__ import annotations

from emu.mlir.attributes import Attribute, DenseElementsAttr, TypeAttr
from emu.mlir.ir import Operation, Value
from emu.mlir.types import FunctionType
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.functions import func_arg_sharding, func_result_sharding, function_type
from emu.sdy.passes.builder import I1, Builder, tensor
from emu.sdy.passes.export.local.collectives import dynamic_slice_along
from emu.sdy.passes.export.local.identities import identity
from emu.sdy.passes.export.local.localization import Localization, axes_of, is_replicated
from emu.sdy.passes.export.local.sums import combining_operation, counts_start
from emu.sdy.passes.insertion_point import Place
from emu.sdy.rules.reading import integers


def localize_function(state: Localization, op: Operation) -> None:
    """Convert a function's type in place."""
    type_ = function_type(op)
    if op.regions[0].blocks:
        arguments = op.body().arguments
        state.retype(arguments)
        inputs = tuple(argument.type for argument in arguments)
    else:
        # A declaration has no block arguments to convert, only the attributes of its type.
        inputs = tuple(
            state.local(input_, func_arg_sharding(op, index))
            for index, input_ in enumerate(type_.inputs)
        )
    results = tuple(
        state.local(result, func_result_sharding(op, index))
        for index, result in enumerate(type_.results)
    )
    op.properties["function_type"] = TypeAttr(FunctionType(inputs, results))


def localize_return(state: Localization, op: Operation) -> None:
    """Convert a return, which keeps no attributes."""
    new = Operation("func.return", state.operands(op), location=op.location)
    Place.before(op).insert(new)
    state.replace(op, ())


def localize_call(state: Localization, op: Operation) -> None:
    """Convert a call, which keeps no attribute but its callee.

    Shardy leaves its results global, and then rejects it unless they are replicated.
    """
    new = Operation(
        "func.call",
        state.operands(op),
        [state.local_type(result) for result in op.results],
        properties={"callee": op.properties["callee"]},
        location=op.location,
    )
    Place.before(op).insert(new)
    state.replace(op, new.results)


def localize_named_computation(state: Localization, op: Operation) -> None:
    """Convert to the same computation of local tensors."""
    new = Operation(
        op.name,
        state.operands(op),
        [state.local_type(result) for result in op.results],
        properties=op.properties,
        location=op.location,
    )
    Place.before(op).insert(new)
    state.move_regions(op, new)
    state.replace(op, new.results)


def localize_manual_computation(state: Localization, op: Operation) -> None:
    """Convert by inlining the body, which is already local along the manual axes."""
    block = op.body()
    values = state.operands(op)
    state.retype(block.arguments)
    terminator = block.terminator
    # The operations are moved, not converted: the walk of the pass visits them afterwards.
    for inner in block.operations:
        if inner is not terminator:
            inner.move_before(op)
    for argument, value in zip(block.arguments, values, strict=True):
        state.substitute(argument, value)
    state.replace(op, terminator.operands)
    state.replace(terminator, ())


def localize_constant(state: Localization, op: Operation) -> None:
    """Convert to a smaller splat, or to the device's shard of the global constant."""
    value = op.properties["value"]
    type_ = state.local_type(op.result)
    sharding = state.sharding(op.result)
    build = Builder.before(op)
    if type_ == op.result.type:
        new = build.constant(value, type_)
    elif isinstance(value, DenseElementsAttr) and value.splat:
        new = build.constant(DenseElementsAttr(value.data, type_, True), type_)
    else:
        new = _shard(state, op, value, sharding)
    state.replace(op, [new])


def _shard(
    state: Localization, op: Operation, value: Attribute, sharding: TensorSharding | None
) -> Value:
    mesh = state.mesh(sharding, of=" for constant")
    whole = Builder.before(op).constant(value, op.result.type)
    axes = [dim.axes for dim in sharding.dims] if sharding is not None else []
    return dynamic_slice_along(state, op, whole, mesh, axes, state.local_tensor(op.result))


def localize_stablehlo_constant(state: Localization, op: Operation) -> None:
    """Convert like ``sdy.constant`` if it is sharded, which Shardy does not expect."""
    if is_replicated(state.sharding(op.result)):
        state.localize(op)
    else:
        localize_constant(state, op)


def localize_reduce(state: Localization, op: Operation) -> None:
    """Convert a reduction; along sharded dimensions it gives each device a partial result.

    Only the first device of those that are combined starts from the initial value, if it would
    count several times otherwise. The others start from the identity.
    """
    new = state.localize(op)
    source = state.sharding(op.operands[0])
    dims = integers(op, "dimensions") or ()
    axes = [axis for dim in dims for axis in axes_of(source, dim)]
    if not axes or not state.options.fix_wrong_results:
        return
    mesh = state.mesh(source)
    for index, result in enumerate(new.results):
        name = combining_operation(result)
        if name is None or not counts_start(result, name):
            continue
        place = len(new.results) + index
        start = new.operands[place]
        neutral = identity(name, tensor(start).element)
        if neutral is None:
            state.warn(op, f"each device starts from the initial value, and {name} counts it")
            continue
        build = Builder.before(new)
        is_first = [int(shard == 0) for shard in state.shard_indices(op, mesh, axes)]
        table = build.integers(is_first, (len(is_first),), I1)
        entry = build.reshape(build.entry_at(table, state.device_id(build)), ())
        others = build.constant(neutral, neutral.type)
        new.set_operand(place, build.select(entry, start, others))


def localize_random_bits(state: Localization, op: Operation) -> None:
    """Convert: each device computes all bits and keeps its shard, as all have the same state."""
    sharding = state.sharding(op.results[-1])
    if is_replicated(sharding):
        state.localize(op)
        return
    if not state.options.fix_wrong_results:
        state.warn(
            op,
            "each device makes the same random bits for its shard: the program gives other "
            "results than the one with global shapes",
        )
        state.localize(op)
        return
    # The state is replicated, so all devices draw the same bits of the global shape, and
    # the slices of them are what the program with global shapes draws.
    types = [*(state.local_type(result) for result in op.results[:-1]), op.results[-1].type]
    build = Builder.before(op)
    new = build.op("rng_bit_generator", state.operands(op), types, op.properties)
    axes = [dim.axes for dim in sharding.dims] if sharding is not None else []
    mesh = state.mesh(sharding)
    type_ = state.local_tensor(op.results[-1])
    shard = dynamic_slice_along(state, op, new.results[-1], mesh, axes, type_)
    state.replace(op, [*new.results[:-1], shard])
