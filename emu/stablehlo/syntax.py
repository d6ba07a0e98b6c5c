"""Pretty forms as data: one list of pieces says how to read and to write.

A form is what stands behind an operation's name. The pieces are strings
(written as they are; read token by token, whatever the white space) and
objects that move operands, attributes and types between the text and a
`Draft`, the operation as far as it is read::

    Form("stablehlo.transpose",
         " ", Operands(1), ", dims = ", Ints("permutation"), ATTRIBUTES, " : ", SIGNATURE)

reads and writes ``stablehlo.transpose %0, dims = [1, 0] : (…) -> …``.

Inherent attributes that no piece writes are in the dictionary, unless they
equal the default that the form is given: MLIR leaves those out of pretty
forms (but not of the generic one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emu.mlir.attributes import Attribute, DenseArrayAttr, IntegerAttr, StringAttr
from emu.mlir.ir import Operation, Region
from emu.mlir.registry import OpDefinition, define, definition
from emu.mlir.types import ComplexType, FunctionType, IntegerType, TensorType, TupleType, Type
from emu.stablehlo.attribute_text import read_dims, read_enum
from emu.stablehlo.attributes import EnumAttribute, dims_text

if TYPE_CHECKING:
    from emu.mlir.assembly import Operand, OpParser, OpPrinter

__all__ = [
    "ATTRIBUTES",
    "COMPLEX_TYPE",
    "I32",
    "I64",
    "PAIRWISE_TYPES",
    "RESULT_TYPE",
    "SAME_TYPE",
    "SELECT_TYPES",
    "SIGNATURE",
    "TUPLE_TYPE",
    "Attributes",
    "Draft",
    "Enumeration",
    "Form",
    "Integer",
    "Ints",
    "Operands",
    "Piece",
    "String",
    "Text",
    "TypePiece",
    "array_of_ints",
    "define_form",
    "define_pure",
    "ints",
]

I64 = IntegerType(64)
I32 = IntegerType(32)


def array_of_ints(values: Iterable[int]) -> DenseArrayAttr:
    """``array<i64: …>``."""
    return DenseArrayAttr(I64, tuple(values))


def ints(attribute: Attribute | None) -> tuple[int, ...]:
    """The numbers of an ``array<i64: …>``; none where it is absent."""
    return attribute.values if isinstance(attribute, DenseArrayAttr) else ()


@dataclass(slots=True)
class Draft:
    """What is read of an operation so far."""

    name: str
    operands: list[Operand] = field(default_factory=list)
    operand_types: list[Type] = field(default_factory=list)
    result_types: list[Type] = field(default_factory=list)
    properties: dict[str, Attribute] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)

    def take(self, attributes: Mapping[str, Attribute]) -> None:
        """Sort a dictionary's entries into inherent and discardable ones."""
        inherent = definition(self.name).properties
        for name, value in attributes.items():
            (self.properties if name in inherent else self.attributes)[name] = value

    def take_signature(self, signature: FunctionType) -> None:
        """Take the types from ``(…) -> …``."""
        self.operand_types = list(signature.inputs)
        self.result_types = list(signature.results)

    def finish(self, p: OpParser) -> Operation:
        """The operation."""
        return Operation(
            self.name,
            p.resolve_all(self.operands, self.operand_types),
            self.result_types,
            properties=self.properties,
            attributes=self.attributes,
            regions=self.regions,
            location=p.op_location,
        )


class Piece:
    """A piece of a pretty form.

    Attributes:
        writes: The inherent attributes that it writes itself.
        needs: Those of them without which it cannot be written.
    """

    writes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def read(self, p: OpParser, draft: Draft) -> None:
        """Read it."""
        raise NotImplementedError

    def write(self, w: OpPrinter, op: Operation) -> None:
        """Write it."""
        raise NotImplementedError


class Form:
    """The pretty form of one operation."""

    def __init__(
        self, name: str, *pieces: str | Piece, defaults: Mapping[str, Attribute] | None = None
    ) -> None:
        self.name = name
        self.pieces = tuple(Text(p) if isinstance(p, str) else p for p in pieces)
        written = tuple(name for piece in self.pieces for name in piece.writes)
        dictionary = Attributes(written, defaults or {})
        self.pieces = tuple(dictionary if p is ATTRIBUTES else p for p in self.pieces)
        self.needs = tuple(name for piece in self.pieces for name in piece.needs)

    def parse(self, p: OpParser) -> Operation:
        """The ``parse`` of an `OpDefinition`."""
        draft = Draft(self.name)
        for piece in self.pieces:
            piece.read(p, draft)
        return draft.finish(p)

    def print(self, w: OpPrinter, op: Operation) -> None:
        """The ``print`` of an `OpDefinition`; what lacks attributes is generic."""
        for name in self.needs:
            if name not in op.properties:
                w.generic_operation(op)
                return
        w.write(self.name)
        for piece in self.pieces:
            piece.write(w, op)


def define_form(form: Form, more: tuple[str, ...] = (), **fields: Any) -> None:
    """Define an operation that has a pretty form.

    Args:
        form: The form.
        more: Inherent attributes besides those that the form's pieces write.
        fields: What else is known of the operation.
    """
    names = tuple(name for piece in form.pieces for name in piece.writes) + more
    define(OpDefinition(form.name, names, parse=form.parse, print=form.print, **fields))


def define_pure(name: str, *pieces: str | Piece, more: tuple[str, ...] = ()) -> None:
    """Define a StableHLO operation that has a pretty form and no effect."""
    define_form(Form(f"stablehlo.{name}", *pieces), more, pure=True)


class Text(Piece):
    """Keywords and punctuation."""

    _token = re.compile(r"[A-Za-z_]+|->|[^\sA-Za-z_]")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._token.findall(text)

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        for token in self.tokens:
            if token[0].isalpha():
                p.expect_keyword(token)
            else:
                p.expect(token)

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        w.write(self.text)


# Operands


class Operands(Piece):
    """All operands, with commas between.

    Args:
        count: How many there are, if always the same number.
        comma: Whether one more comma follows (each operand's own).
    """

    def __init__(self, count: int | None = None, *, comma: bool = False) -> None:
        self.count = count
        self.comma = comma

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        if self.count is not None:
            for index in range(self.count):
                if index:
                    p.expect(",")
                draft.operands.append(p.operand())
        elif self.comma:
            while (operand := p.optional_operand()) is not None:
                draft.operands.append(operand)
                p.expect(",")
        else:
            draft.operands += p.operands()

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        w.operands(op.operands)
        if self.comma:
            w.write(",")


# Attributes


class Attributes(Piece):
    """The dictionary of what nothing else writes."""

    def __init__(self, written: tuple[str, ...], defaults: Mapping[str, Attribute]) -> None:
        self.written = written
        self.defaults = dict(defaults)

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        draft.take(p.optional_attr_dict())

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        if op.attributes or op.properties:
            silent = tuple(n for n, v in self.defaults.items() if op.properties.get(n) == v)
            w.attr_dict(op, elide=self.written + silent)


ATTRIBUTES = Attributes((), {})
"""Stands for the dictionary; the `Form` puts one in its place that knows it."""


class _Named(Piece):
    """A piece for one inherent attribute."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.writes = self.needs = (name,)


class Integer(_Named):
    """An integer attribute, without its type."""

    def __init__(self, name: str, type_: IntegerType = I64) -> None:
        super().__init__(name)
        self.type = type_

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        draft.properties[self.name] = p.attribute(self.type)

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        value = op.properties[self.name]
        w.write(str(value.value) if isinstance(value, IntegerAttr) else str(value))


class Ints(_Named):
    """An ``array<i64>``, written ``[1, 2]``."""

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        draft.properties[self.name] = array_of_ints(read_dims(p))

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        w.write(dims_text(ints(op.properties[self.name])))


class Enumeration(_Named):
    """An enumeration, written as its word."""

    def __init__(self, name: str, kind: type[EnumAttribute]) -> None:
        super().__init__(name)
        self.kind = kind

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        draft.properties[self.name] = read_enum(p, self.kind)

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        value = op.properties[self.name]
        w.write(value.value if isinstance(value, EnumAttribute) else str(value))


class String(_Named):
    """A string attribute, in quotes."""

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        draft.properties[self.name] = StringAttr(p.string())

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        w.attribute(op.properties[self.name])


# Types


class TypePiece(Piece):
    """Types in some short way, or as ``(…) -> …`` where that cannot say them."""

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102
        place = p.here()
        first = p.type()
        if isinstance(first, FunctionType):
            self.read_function(p, draft, first, place)
        else:
            self.read_short(p, draft, first)

    def read_function(
        self, p: OpParser, draft: Draft, signature: FunctionType, place: object
    ) -> None:
        """Take ``(…) -> …`` with as many types as there are operands."""
        count, expected = len(draft.operands), len(signature.inputs)
        if count != expected:
            p.error(f"{count} operands present, but expected {expected}", place)  # type: ignore[arg-type]
        if len(signature.results) != 1:
            p.error("expected single output", place)  # type: ignore[arg-type]
        draft.take_signature(signature)

    def read_short(self, p: OpParser, draft: Draft, first: Type) -> None:
        """Read the short way, of which the first type is read."""
        raise NotImplementedError

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102
        types = self.short(op)
        if types is None:
            w.functional_type(op)
            return
        for index, type_ in enumerate(types):
            if index:
                w.write(", ")
            w.type(type_)

    def short(self, op: Operation) -> list[Type] | None:
        """The types that say all, or None."""
        raise NotImplementedError


class _Signature(Piece):
    """``(…) -> …``."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.take_signature(p.function_type())

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.functional_type(op)


class _SameType(TypePiece):
    """One type for all operands and the result."""

    def read_short(self, p: OpParser, draft: Draft, first: Type) -> None:
        draft.operand_types = [first] * len(draft.operands)
        draft.result_types = [first]

    def short(self, op: Operation) -> list[Type] | None:
        types = {value.type for value in (*op.operands, *op.results)}
        return [op.results[0].type] if len(types) == len(op.results) == 1 else None


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
    """``tensor<4xf32>`` for ``tensor<4xcomplex<f32>>``."""
    if isinstance(type_, TensorType) and isinstance(type_.element, ComplexType):
        return TensorType(type_.shape, type_.element.element, type_.encoding)
    return None


class _SelectTypes(TypePiece):
    """The predicate's type, and the one of both cases and the result."""

    def read_short(self, p: OpParser, draft: Draft, first: Type) -> None:
        case = p.type() if p.accept(",") else None
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


class _TupleType(Piece):
    """The tuple; the operands are its elements."""

    def read(self, p: OpParser, draft: Draft) -> None:
        place = p.here()
        type_ = p.type()
        if not isinstance(type_, TupleType):
            p.error("expected tuple type", place)
        draft.operand_types = list(type_.elements)
        draft.result_types = [type_]

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.type(op.result.type)


class _PairwiseTypes(Piece):
    """A type for each operand and the result at its place."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.operand_types = p.types()
        draft.result_types = list(draft.operand_types)

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.write(", ".join(str(operand.type) for operand in op.operands))


class _ResultType(Piece):
    """The types of the results; there are no operands."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.result_types = [p.type()]

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.type(op.result.type)


SIGNATURE = _Signature()
SAME_TYPE = _SameType()
COMPLEX_TYPE = _ComplexType()
SELECT_TYPES = _SelectTypes()
TUPLE_TYPE = _TupleType()
PAIRWISE_TYPES = _PairwiseTypes()
RESULT_TYPE = _ResultType()
