"""Operations that cut, pad and join arrays."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.forms import ATTRIBUTES, SIGNATURE, Draft, Integer, Operands, Piece
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.stablehlo.checks import Invalid, integer, is_same_size, operand_tensor, sizes_text
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.kinds import TENSOR, ZERO_RANK_TENSOR
from emu.stablehlo.spec import AtLeast, OpSpec
from emu.stablehlo.syntax import Ints, array_of_ints, ints
from emu.stablehlo.traits import same_element_types, same_sizes

_END = (ATTRIBUTES, " : ", SIGNATURE)
_PURE = OpSpec(name="", pieces=(" ", Operands(), *_END), pure=True)

# slice, dynamic_slice, dynamic_update_slice


class _Ranges(Piece):
    """``[0:2, 1:4:2]``: start, limit, and the stride if it is not 1."""

    writes = needs = ("start_indices", "limit_indices", "strides")

    def read(self, p: OpParser, draft: Draft) -> None:
        ranges = p.comma_separated("[", "]", lambda: _read_range(p))
        for index, name in enumerate(self.writes):
            draft.properties[name] = array_of_ints(r[index] for r in ranges)

    def write(self, w: OpPrinter, op: Operation) -> None:
        starts, limits, strides = (ints(op.properties[name]) for name in self.writes)
        if not len(starts) == len(limits) == len(strides):
            named = zip(self.writes, (starts, limits, strides), strict=True)
            w.write("[" + ", ".join(f"{n}: {', '.join(map(str, v))}" for n, v in named) + "]")
            return
        texts = [
            f"{start}:{limit}" if stride == 1 else f"{start}:{limit}:{stride}"
            for start, limit, stride in zip(starts, limits, strides, strict=True)
        ]
        w.write(f"[{', '.join(texts)}]")


def _read_range(p: OpParser) -> tuple[int, int, int]:
    start = p.integer()
    p.expect(":")
    limit = p.integer()
    return start, limit, p.integer() if p.accept(":") else 1


def _infer_slice(op: Operation) -> list[Type]:
    source = operand_tensor(op)
    starts, limits, strides = (
        ints(op.properties[name]) for name in ("start_indices", "limit_indices", "strides")
    )
    if len(starts) != source.rank:
        raise Invalid(
            f"the number of elements in start_indices ({len(starts)}) does not match the rank of "
            f"the operand ({source.rank})"
        )
    shape = []
    for d, size in enumerate(source.shape):
        start, limit, stride = starts[d], limits[d], strides[d]
        if start < 0:
            raise Invalid(f"negative start index {start} in dimension {d}")
        if size is not None and limit > size:
            raise Invalid(
                f"limit index {limit} is larger than dimension size {size} in dimension {d}"
            )
        if start > limit:
            raise Invalid(
                f"start index {start} is larger than limit index {limit} in dimension {d}"
            )
        if stride <= 0:
            raise Invalid(f"stride must be positive but got {stride} in dimension {d}")
        shape.append(-((start - limit) // stride))  # rounded up
    return [TensorType(tuple(shape), source.element)]


def _infer_dynamic_slice(op: Operation) -> list[Type]:
    source, sizes = operand_tensor(op), ints(op.properties["slice_sizes"])
    starts = len(op.operands) - 1
    if len(sizes) != starts:
        raise Invalid(
            f"has mismatched number of slice sizes ({len(sizes)}) and number of start indices "
            f"({starts})"
        )
    if starts != source.rank:
        raise Invalid(
            f"has mismatched number of start indices ({starts}) and the rank of operand "
            f"({source.rank})"
        )
    for d, (wanted, size) in enumerate(zip(sizes, source.shape, strict=True)):
        if wanted < 0:
            raise Invalid(f"has negative size index to dynamic slice: {wanted}")
        if size is not None and wanted > size:
            raise Invalid(
                f"has slice size {wanted} greater than dimension size {size} in dimension {d} of "
                "operand"
            )
    return [TensorType(tuple(sizes), source.element)]


def _infer_dynamic_update_slice(op: Operation) -> list[Type]:
    source, update = operand_tensor(op), operand_tensor(op, 1)
    if update.rank != source.rank:
        raise Invalid(f"update rank does not match operand rank: {update.rank} vs {source.rank}.")
    starts = len(op.operands) - 2
    if starts != source.rank:
        raise Invalid(
            f"expects number of start_indices to match operand rank: {starts} vs {source.rank}."
        )
    for left, right in pairwise(v.type for v in op.operands[2:]):
        if left != right:
            raise Invalid("start indices must have same element type")
    for d, (size, whole) in enumerate(zip(update.shape, source.shape, strict=True)):
        if size is not None and whole is not None and size > whole:
            raise Invalid(
                f"expects size at dimension {d} of update to be in range [0, {whole}]. Got: {size}."
            )
    return [source]


define_ops(
    replace(
        _PURE,
        name="stablehlo.slice",
        pieces=(" ", Operands(1), " ", _Ranges(), *_END),
        operand_kinds=(TENSOR,),
        result_kind=TENSOR,
        traits=(same_sizes("start_indices", "limit_indices", "strides"), same_element_types),
        infer=_infer_slice,
    ),
    replace(
        _PURE,
        name="stablehlo.dynamic_slice",
        pieces=(" ", Operands(comma=True), " sizes = ", Ints("slice_sizes"), *_END),
        operands=AtLeast(1),
        infer=_infer_dynamic_slice,
    ),
    replace(
        _PURE,
        name="stablehlo.dynamic_update_slice",
        operands=AtLeast(2),
        infer=_infer_dynamic_update_slice,
    ),
    replace(_PURE, name="stablehlo.real_dynamic_slice", operands=4),
)


# pad


def _infer_pad(op: Operation) -> list[Type]:
    source = operand_tensor(op)
    low, high, interior = (
        ints(op.properties[name])
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if len(low) != source.rank:
        raise Invalid(
            f"edge_padding_low length ({len(low)}) must match operand rank ({source.rank})"
        )
    shape: list[int | None] = []
    for d, size in enumerate(source.shape):
        if interior[d] < 0:
            raise Invalid(f"Interior padding cannot be negative: {interior[d]}")
        if size is None:
            shape.append(None)
            continue
        padded = low[d] + high[d] + size + max(size - 1, 0) * interior[d]
        if padded < 0:
            raise Invalid(f"Padding result in negative size for dimension {d}")
        shape.append(padded)
    return [TensorType(tuple(shape), source.element)]


define_ops(
    replace(
        _PURE,
        name="stablehlo.pad",
        pieces=(
            *(" ", Operands(2), ", low = ", Ints("edge_padding_low")),
            *(", high = ", Ints("edge_padding_high"), ", interior = ", Ints("interior_padding")),
            *_END,
        ),
        operand_kinds=(TENSOR, ZERO_RANK_TENSOR),
        result_kind=TENSOR,
        traits=(
            same_sizes("edge_padding_low", "edge_padding_high", "interior_padding"),
            same_element_types,
        ),
        infer=_infer_pad,
    ),
    replace(_PURE, name="stablehlo.dynamic_pad", operands=5),
)


# concatenate


def _infer_concatenate(op: Operation) -> list[Type]:
    first, dimension = operand_tensor(op), integer(op, "dimension")
    if not first.rank:
        raise Invalid("rank-0 values cannot be concatenated")
    if dimension >= first.rank:
        raise Invalid(f"dimension {dimension} is out-of-bounds for input rank {first.rank}")
    shape = list(first.shape)
    total: int | None = 0
    for index in range(len(op.operands)):
        other = operand_tensor(op, index)
        if other.rank != first.rank:
            raise Invalid(f"operands (0) and ({index}) do not match rank")
        for d, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
            if d != dimension and not is_same_size(a, b):
                raise Invalid(
                    f"shapes of operand (0) and ({index}) are not compatible at non-concat index "
                    f"{d}: ({sizes_text(first.shape)}) != ({sizes_text(other.shape)})"
                )
            if shape[d] is None:
                shape[d] = b
        size = other.shape[dimension]
        total = None if total is None or size is None else total + size
    shape[dimension] = total
    return [TensorType(tuple(shape), first.element)]


define_ops(
    replace(
        _PURE,
        name="stablehlo.concatenate",
        pieces=(" ", Operands(comma=True), " dim = ", Integer("dimension"), *_END),
        operands=AtLeast(1),
        traits=(same_element_types,),
        infer=_infer_concatenate,
    ),
)
