"""Operations that communicate with other devices and with the host.

The collectives are not pure: for MLIR their effects are unknown.
"""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.attributes import StringAttr
from emu.mlir.forms import ATTRIBUTES, RESULT_TYPE, SAME_TYPE, Operands
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType, TensorType, Type
from emu.stablehlo.checks import Invalid, integer, operand_tensor, tensor, unchanged
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.reducers import accumulators, check_reducer
from emu.stablehlo.spec import AtLeast, OpSpec
from emu.stablehlo.traits import compatible_types, pairwise_counts, same_element_types

# Collectives


def _check_all_gather(op: Operation) -> None:
    dimension = integer(op, "all_gather_dim")
    if any(dimension >= tensor(value.type).rank for value in op.operands):
        raise Invalid("all_gather_dim must be a valid index of operand")


def _infer_all_reduce(op: Operation) -> list[Type]:
    element = accumulators(op, 0, op.operands)[0]
    return [TensorType(tensor(value.type).shape, element) for value in op.operands]


def _infer_all_to_all(op: Operation) -> list[Type]:
    split, concat = integer(op, "split_dimension"), integer(op, "concat_dimension")
    count = integer(op, "split_count")
    results: list[Type] = []
    for index in range(len(op.operands)):
        source = operand_tensor(op, index)
        for name, d in (("split_dimension", split), ("concat_dimension", concat)):
            if d >= source.rank:
                raise Invalid(f"AllToAll {name} {d} is out-of-bounds for input rank {source.rank}")
        shape = list(source.shape)
        size = shape[split]
        if size is not None:
            if size % count:
                raise Invalid(
                    f"split dimension has size {size}, expected to be a multiple of split_count "
                    f"{count}"
                )
            shape[split] = size // count
        size = shape[concat]
        shape[concat] = None if size is None else size * count
        results.append(TensorType(tuple(shape), source.element))
    return results


def root_operand(op: Operation) -> int | None:
    """Return the index of the operand that holds the roots; None where each group's first is it."""
    return len(op.operands) - 1 if "has_dynamic_root" in op.properties else None


def _check_root(op: Operation) -> None:
    name, last = op.name.partition(".")[2], root_operand(op)
    if last is None:
        if not op.operands:
            raise Invalid(f"{name} requires at least one data operand")
        return
    rooted = f"{name} with has_dynamic_root=true"
    if last < 1:
        raise Invalid(f"{rooted} requires at least two operands (data + root)")
    type_ = operand_tensor(op, last)
    if type_.rank != 1 or type_.element != IntegerType(32):
        raise Invalid(f"last operand of {rooted} must be a rank-1 i32 tensor, but got '{type_}'")
    if type_.shape[0] not in (None, last):
        raise Invalid(
            f"last operand of {rooted} must have the same number of elements as data operands "
            f"({last}), but got {type_.shape[0]}"
        )


def _check_collective_reduce(op: Operation) -> None:
    _check_root(op)
    check_reducer(op)


def _infer_broadcast(op: Operation) -> list[Type]:
    return [value.type for value in op.operands[: root_operand(op)]]


def _infer_collective_reduce(op: Operation) -> list[Type]:
    element = accumulators(op, 0, op.operands)[0]
    data = op.operands[: root_operand(op)]
    return [TensorType(tensor(value.type).shape, element) for value in data]


define_ops(
    OpSpec(
        name="stablehlo.all_gather",
        results=None,
        required=("all_gather_dim", "replica_groups"),
        optional=("channel_handle", "use_global_device_ids"),
        traits=(pairwise_counts,),
        check=_check_all_gather,
    ),
    OpSpec(
        name="stablehlo.all_reduce",
        results=None,
        regions=("computation",),
        required=("replica_groups",),
        optional=("channel_handle", "use_global_device_ids"),
        check=check_reducer,
        infer=_infer_all_reduce,
        pointwise=True,
    ),
    OpSpec(
        name="stablehlo.all_to_all",
        results=None,
        required=("split_dimension", "concat_dimension", "split_count", "replica_groups"),
        optional=("channel_handle",),
        traits=(pairwise_counts,),
        infer=_infer_all_to_all,
    ),
    OpSpec(
        name="stablehlo.reduce_scatter",
        operands=1,
        regions=("computation",),
        required=("scatter_dimension", "replica_groups"),
        optional=("channel_handle", "use_global_device_ids"),
        check=check_reducer,
    ),
)
_COPY = OpSpec(
    name="",
    operands=1,
    optional=("channel_handle",),
    traits=(same_element_types,),
    infer=unchanged,
    pointwise=True,
)
define_ops(
    OpSpec(
        name="stablehlo.collective_broadcast",
        results=None,
        required=("replica_groups",),
        optional=("channel_handle", "has_dynamic_root"),
        check=_check_root,
        infer=_infer_broadcast,
        pointwise=True,
    ),
    OpSpec(
        name="stablehlo.collective_reduce",
        results=None,
        regions=("computation",),
        required=("replica_groups",),
        optional=("channel_handle", "use_global_device_ids", "has_dynamic_root"),
        check=_check_collective_reduce,
        infer=_infer_collective_reduce,
        pointwise=True,
    ),
    replace(_COPY, name="stablehlo.collective_permute", required=("source_target_pairs",)),
    OpSpec(
        name="stablehlo.cross-replica-sum",
        operands=1,
        required=("replica_groups",),
        traits=(compatible_types,),
        pure=True,
        pointwise=True,
    ),
)


# Numbers of devices, and tokens

_SOURCE = OpSpec(name="", pieces=(ATTRIBUTES, " : ", RESULT_TYPE), operands=0, pure=True)
define_ops(
    replace(_SOURCE, name="stablehlo.partition_id", needs_no_rule=True),
    replace(_SOURCE, name="stablehlo.replica_id"),
    replace(_SOURCE, name="stablehlo.create_token", needs_no_rule=True),
    OpSpec(
        name="stablehlo.after_all",
        pieces=(" ", Operands(), ATTRIBUTES, " : ", SAME_TYPE),
        pure=True,
        needs_no_rule=True,
    ),
)


# Transfers

_TRANSFER = OpSpec(
    name="",
    required=("channel_handle",),
    optional=("is_host_transfer", "source_target_pairs"),
    needs_no_rule=True,
)
define_ops(
    replace(_TRANSFER, name="stablehlo.send", operands=AtLeast(1)),
    replace(_TRANSFER, name="stablehlo.recv", operands=1, results=None),
    OpSpec(
        name="stablehlo.infeed",
        operands=1,
        results=None,
        optional=("infeed_config", "layout"),
        defaults=(("infeed_config", StringAttr("")),),
        needs_no_rule=True,
    ),
    OpSpec(
        name="stablehlo.outfeed",
        operands=AtLeast(1),
        optional=("outfeed_config",),
        defaults=(("outfeed_config", StringAttr("")),),
        needs_no_rule=True,
    ),
)
