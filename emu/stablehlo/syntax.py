"""Pieces of pretty forms (``emu.mlir.forms``) that only StableHLO has."""

from __future__ import annotations

from collections.abc import Iterable

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute, DenseArrayAttr
from emu.mlir.forms import (
    I64,
    Draft,
    Named,
    TypePiece,
)
from emu.mlir.ir import Operation
from emu.mlir.types import ComplexType, TensorType, Type
from emu.stablehlo.attribute_parser import read_dims, read_enum
from emu.stablehlo.attributes import EnumAttribute, dims_text


def array_of_ints(values: Iterable[int]) -> DenseArrayAttr:
    """Make ``array<i64: …>``."""
    return DenseArrayAttr(I64, tuple(values))


def ints(attribute: Attribute | None) -> tuple[int, ...]:
    """Return the numbers of an ``array<i64: …>``; none where it is absent."""
    return attribute.values if isinstance(attribute, DenseArrayAttr) else ()


class Ints(Named):
    """An ``array<i64>``, written ``[1, 2]``."""

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        draft.properties[self.name] = array_of_ints(read_dims(p))

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        w.write(dims_text(ints(op.properties[self.name])))


class Enumeration(Named):
    """An enumeration, written as its word."""

    def __init__(self, name: str, kind: type[EnumAttribute]) -> None:
        super().__init__(name)
        self.kind = kind

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        draft.properties[self.name] = read_enum(p, self.kind)

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        value = op.properties[self.name]
        w.write(value.value if isinstance(value, EnumAttribute) else str(value))


class _ComplexType(TypePiece):
    """The complex result; the operands have its parts' type."""

    def read_short(self, p: OpParser, draft: Draft, first: Type) -> None:
        parts = _parts(first)
        if parts is None:
            p.error("expected tensor with complex element type")
        draft.operand_types = [parts] * len(draft.operands)
        draft.result_types = [first]

    def short(self, op: Operation) -> list[Type] | None:
        if len(op.results) != 1:
            return None
        parts = _parts(op.result.type)
        same = all(operand.type == parts for operand in op.operands)
        return [op.result.type] if same else None


def _parts(type_: Type) -> Type | None:
    """Return ``tensor<4xf32>`` for ``tensor<4xcomplex<f32>>``."""
    if isinstance(type_, TensorType) and isinstance(type_.element, ComplexType):
        return TensorType(type_.shape, type_.element.element, type_.encoding)
    return None


class _SelectTypes(TypePiece):
    """The predicate's type, and that of both cases and the result."""

    def read_short(self, p: OpParser, draft: Draft, first: Type) -> None:
        case = p.type() if p.accept(",") else None
        # One type could be the predicate's or the cases', so both are always written.
        if case is None or p.peek(","):
            p.error("expected functional type or list of two types")
        draft.operand_types = [first, case, case]
        draft.result_types = [case]

    def short(self, op: Operation) -> list[Type] | None:
        if len(op.operands) != 3 or len(op.results) != 1:
            return None
        predicate, true, false = op.operands
        result = op.result.type
        return [predicate.type, result] if true.type == result == false.type else None


COMPLEX_TYPE = _ComplexType()
SELECT_TYPES = _SelectTypes()
