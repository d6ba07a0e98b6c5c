"""Products of tensors: dots and sums in Einstein's notation."""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import ArrayAttr
from emu.mlir.forms import ATTRIBUTES, SIGNATURE, Draft, Operands, Piece, String
from emu.mlir.ir import Operation
from emu.stablehlo.attribute_parser import read_dims, read_dot_algorithm, read_enum
from emu.stablehlo.attributes import (
    DotAlgorithm,
    DotDimensionNumbers,
    EnumAttribute,
    Precision,
    dims_text,
)
from emu.stablehlo.checks import (
    Invalid,
    Shape,
    check_result_shape,
    is_same_size,
    operand_tensor,
)
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.spec import OpSpec

_END = (ATTRIBUTES, " : ", SIGNATURE)


# Forms


class _DotNumbers(Piece):
    """``batching_dims = [0] x [0], contracting_dims = [2] x [1]``."""

    writes = needs = ("dot_dimension_numbers",)

    def read(self, p: OpParser, draft: Draft) -> None:
        batching: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        if p.accept_keyword("batching_dims"):
            batching = _read_pair(p)
            p.expect(",")
        p.expect_keyword("contracting_dims")
        draft.properties[self.writes[0]] = DotDimensionNumbers(*batching, *_read_pair(p))

    def write(self, w: OpPrinter, op: Operation) -> None:
        numbers = op.properties[self.writes[0]]
        if not isinstance(numbers, DotDimensionNumbers):
            w.attribute(numbers)
            return
        left, right = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
        if left or right:
            w.write(f"batching_dims = {dims_text(left)} x {dims_text(right)}, ")
        left, right = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
        w.write(f"contracting_dims = {dims_text(left)} x {dims_text(right)}")


def _read_pair(p: OpParser) -> tuple[tuple[int, ...], tuple[int, ...]]:
    p.expect("=")
    left = read_dims(p)
    p.expect_keyword("x")
    return left, read_dims(p)


class _Precision(Piece):
    """``, precision = [HIGH, DEFAULT]``, and ``, algorithm = <…>``, if given."""

    def __init__(self, *, algorithm: bool) -> None:
        self.algorithm = algorithm
        self.writes = ("precision_config", "algorithm") if algorithm else ("precision_config",)

    def read(self, p: OpParser, draft: Draft) -> None:
        if not p.accept(","):
            return
        if not (self.algorithm and p.peek_keyword("algorithm")):
            p.expect_keyword("precision")
            p.expect("=")
            words = p.comma_separated("[", "]", lambda: read_enum(p, Precision))
            draft.properties["precision_config"] = ArrayAttr(tuple(words))
            if not (self.algorithm and p.accept(",")):
                return
        p.expect_keyword("algorithm")
        p.expect("=")
        draft.properties["algorithm"] = read_dot_algorithm(p)

    def write(self, w: OpPrinter, op: Operation) -> None:
        precision = op.properties.get("precision_config")
        if isinstance(precision, ArrayAttr):
            words = [
                e.value if isinstance(e, EnumAttribute) else str(e) for e in precision.elements
            ]
            w.write(f", precision = [{', '.join(words)}]")
        algorithm = op.properties.get("algorithm")
        if isinstance(algorithm, DotAlgorithm):
            w.write(f", algorithm = <{algorithm.body()}>")


# Shapes


def dot_general_shape(op: Operation) -> Shape:
    """Return the shape of a ``dot_general``."""
    left, right = operand_tensor(op), operand_tensor(op, 1)
    numbers = op.properties["dot_dimension_numbers"]
    if not isinstance(numbers, DotDimensionNumbers):
        raise Invalid("attribute 'dot_dimension_numbers' failed to satisfy constraint")
    batch, contract = numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions
    other, other_contract = numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions
    if len(batch) != len(other):
        raise Invalid("lhs and rhs should have the same number of batching dimensions")
    if len(contract) != len(other_contract):
        raise Invalid("lhs and rhs should have the same number of contracting dimensions")
    _check_distinct("lhs", batch, contract)
    _check_distinct("rhs", other, other_contract)
    _check_range("lhs_batching_dimensions", batch, left.rank)
    _check_range("lhs_contracting_dimensions", contract, left.rank)
    _check_range("rhs_batching_dimensions", other, right.rank)
    _check_range("rhs_contracting_dimensions", other_contract, right.rank)
    if not all(
        is_same_size(left.shape[a], right.shape[b]) for a, b in zip(batch, other, strict=True)
    ):
        raise Invalid("batching dimension sizes must match for lhs/rhs")
    pairs = zip(contract, other_contract, strict=True)
    if not all(is_same_size(left.shape[a], right.shape[b]) for a, b in pairs):
        raise Invalid("contracting dimension sizes must match for lhs/rhs")
    return (
        *(left.shape[d] for d in batch),
        *(s for d, s in enumerate(left.shape) if d not in batch + contract),
        *(s for d, s in enumerate(right.shape) if d not in other + other_contract),
    )


def _check_distinct(side: str, batch: Sequence[int], contract: Sequence[int]) -> None:
    seen: set[int] = set()
    for d in (*batch, *contract):
        if d in seen:
            raise Invalid(
                f"has duplicated dimension from {side}_batching_dimensions and "
                f"{side}_contracting_dimensions: {d}"
            )
        seen.add(d)


def _check_range(name: str, dimensions: Sequence[int], rank: int) -> None:
    for d in dimensions:
        if not 0 <= d < rank:
            raise Invalid(f"{name} value: {d} is out of range: [0, {rank})")


def _dot_shape(op: Operation) -> Shape:
    """Return the shape of a ``dot``."""
    left, right = operand_tensor(op).shape, operand_tensor(op, 1).shape
    if len(left) not in (1, 2) or len(right) not in (1, 2) or not is_same_size(left[-1], right[0]):
        raise Invalid("expected both lhs/rhs ranks to be either 1 or 2")
    return (*left[:-1], *right[1:])


define_ops(
    OpSpec(
        name="stablehlo.dot",
        pieces=(" ", Operands(2), _Precision(algorithm=False), *_END),
        check=check_result_shape(_dot_shape),
        pure=True,
    ),
    OpSpec(
        name="stablehlo.dot_general",
        pieces=(" ", Operands(2), ", ", _DotNumbers(), _Precision(algorithm=True), *_END),
        check=check_result_shape(dot_general_shape),
        pure=True,
    ),
    OpSpec(
        name="stablehlo.einsum",
        pieces=(" ", Operands(2), ", config = ", String("einsum_config"), *_END),
        pure=True,
    ),
    OpSpec(
        name="stablehlo.unary_einsum",
        pieces=(" ", Operands(1), ", config = ", String("einsum_config"), *_END),
        pure=True,
    ),
)
