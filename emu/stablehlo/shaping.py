"""Operations that change the shape of an array, or the order of its dimensions."""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.forms import ATTRIBUTES, SAME_TYPE, SIGNATURE, Integer, Operands
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.checks import (
    Invalid,
    is_same_size,
    operand_tensor,
    sizes_text,
    tensor,
    unchanged,
)
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.kinds import ANY_TENSOR, TENSOR
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import Ints, ints
from emu.stablehlo.traits import compatible_element_types, same_element_types

_END = (ATTRIBUTES, " : ", SIGNATURE)
_PURE = OpSpec(name="", pieces=(" ", Operands(), *_END), pure=True)


def _check_reshape(op: Operation) -> None:
    source, result = tensor(op.operands[0].type), tensor(op.result.type)
    if source.is_static and result.is_static and source.size != result.size:
        raise Invalid(
            f"number of output elements ({result.size}) doesn't match expected number of "
            f"elements ({source.size})"
        )


def _check_broadcast_in_dim(op: Operation) -> None:
    source, result = tensor(op.operands[0].type), tensor(op.result.type)
    dimensions = ints(op.properties["broadcast_dimensions"])
    if len(dimensions) != source.rank:
        raise Invalid(
            f"broadcast_dimensions size ({len(dimensions)}) does not match operand rank "
            f"({source.rank})"
        )
    if len(set(dimensions)) != len(dimensions):
        raise Invalid("broadcast_dimensions should not have duplicates")
    for index, d in enumerate(dimensions):
        if not 0 <= d < result.rank:
            raise Invalid(
                f"broadcast_dimensions contains invalid value {d} for result with rank "
                f"{result.rank}"
            )
        size = source.shape[index]
        # A dimension of one element is repeated, any other keeps its size.
        if size != 1 and not is_same_size(size, result.shape[d]):
            raise Invalid(
                f"size of operand dimension {index} ({size}) is not equal to 1 or size of result "
                f"dimension {d} ({result.shape[d]})"
            )


def _check_reverse(op: Operation) -> None:
    rank, dimensions = tensor(op.operands[0].type).rank, ints(op.properties["dimensions"])
    if len(set(dimensions)) != len(dimensions):
        raise Invalid(f"dimensions should be unique. Got: {', '.join(map(str, dimensions))}")
    for d in dimensions:
        if d < 0:
            raise Invalid(f"all dimensions should be non-negative. Got dimension: {d}.")
        if d >= rank:
            raise Invalid(f"all dimensions should be between [0, {rank}). Got dimension: {d}.")


def _infer_transpose(op: Operation) -> list[Type]:
    source, permutation = operand_tensor(op), ints(op.properties["permutation"])
    if len(permutation) != source.rank:
        raise Invalid(
            f"TransposeOp operand rank {source.rank} does not match permutation size "
            f"{len(permutation)}"
        )
    if sorted(permutation) != list(range(source.rank)):
        raise Invalid(
            f"attribute permutation must be a permutation of [{sizes_text(range(source.rank))}] "
            f"but got {sizes_text(permutation)}"
        )
    return [TensorType(tuple(source.shape[d] for d in permutation), source.element)]


def _infer_broadcast(op: Operation) -> list[Type]:
    source, sizes = operand_tensor(op), ints(op.properties["broadcast_sizes"])
    if negative := [size for size in sizes if size < 0]:
        raise Invalid(f"Broadcast with negative dimension size {negative[0]}")
    return [TensorType((*sizes, *source.shape), source.element)]


define_ops(
    replace(_PURE, name="stablehlo.bitcast_convert", operands=1),
    replace(
        _PURE,
        name="stablehlo.reshape",
        operands=1,
        traits=(compatible_element_types,),
        check=_check_reshape,
    ),
    replace(_PURE, name="stablehlo.dynamic_reshape", operands=2),
    replace(
        _PURE,
        name="stablehlo.transpose",
        pieces=(" ", Operands(1), ", dims = ", Ints("permutation"), *_END),
        operand_kinds=(ANY_TENSOR,),
        result_kind=ANY_TENSOR,
        traits=(compatible_element_types,),
        infer=_infer_transpose,
    ),
    replace(
        _PURE,
        name="stablehlo.reverse",
        pieces=(
            *(" ", Operands(1), ", dims = ", Ints("dimensions")),
            *(ATTRIBUTES, " : ", SAME_TYPE),
        ),
        operand_kinds=(TENSOR,),
        result_kind=TENSOR,
        traits=(same_element_types,),
        check=_check_reverse,
        infer=unchanged,
    ),
    replace(
        _PURE,
        name="stablehlo.broadcast",
        pieces=(" ", Operands(1), ", sizes = ", Ints("broadcast_sizes"), *_END),
        traits=(same_element_types,),
        infer=_infer_broadcast,
    ),
    replace(
        _PURE,
        name="stablehlo.broadcast_in_dim",
        pieces=(" ", Operands(1), ", dims = ", Ints("broadcast_dimensions"), *_END),
        traits=(compatible_element_types,),
        check=_check_broadcast_in_dim,
    ),
    replace(
        _PURE,
        name="stablehlo.dynamic_broadcast_in_dim",
        pieces=(" ", Operands(2), ", dims = ", Ints("broadcast_dimensions"), *_END),
        optional=("known_expanding_dimensions", "known_nonexpanding_dimensions"),
    ),
    replace(
        _PURE,
        name="stablehlo.get_dimension_size",
        pieces=(" ", Operands(1), ", dim = ", Integer("dimension"), *_END),
    ),
    replace(
        _PURE,
        name="stablehlo.set_dimension_size",
        pieces=(" ", Operands(2), ", dim = ", Integer("dimension"), *_END),
    ),
)
