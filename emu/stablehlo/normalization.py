"""Batch normalization."""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.checks import Invalid, integer, tensor
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.spec import OpSpec


def _infer_batch_norm(op: Operation) -> list[Type]:
    source = tensor(op.operands[0].type)
    feature = integer(op, "feature_index")
    if not 0 <= feature < source.rank:
        raise Invalid(
            "expects featureIndex to be smaller than the rank of multi-dimensional operands; got "
            f"featureIndex {feature}, and rank {source.rank}."
        )
    channel: Type = TensorType((source.shape[feature],), source.element)
    return [source, channel, channel][: len(op.results)]


_BATCH_NORM = OpSpec(
    name="", required=("epsilon", "feature_index"), infer=_infer_batch_norm, pure=True
)
define_ops(
    replace(_BATCH_NORM, name="stablehlo.batch_norm_inference", operands=5),
    replace(
        _BATCH_NORM,
        name="stablehlo.batch_norm_training",
        operands=3,
        results=3,
        result_name=lambda _: ("output", "batch_mean", "batch_var"),
    ),
    replace(
        _BATCH_NORM,
        name="stablehlo.batch_norm_grad",
        operands=5,
        results=3,
        result_name=lambda _: ("grad_operand", "grad_scale", "grad_offset"),
    ),
)
