"""Pretty forms as data: one list of pieces describes how to read and to write.

A form is what stands behind an operation's name. The pieces are strings (written as they are; read
token by token, whatever the white space) and objects that move operands, attributes and types
between the text and a ``Draft``, the operation as far as it has been read::

    Form("stablehlo.transpose",
         " ", Operands(1), ", dims = ", Ints("permutation"), ATTRIBUTES, " : ", SIGNATURE)

reads and writes ``stablehlo.transpose %0, dims = [1, 0] : (…) -> …``.

Inherent attributes that no piece writes are in the dictionary, unless they equal the form's
default for them: MLIR leaves those out of pretty forms (but not of the generic one).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from emu.mlir.assembly import Operand, OpParser, OpPrinter
from emu.mlir.attributes import Attribute, IntegerAttr, StringAttr
from emu.mlir.diagnostics import Place
from emu.mlir.ir import Operation, Region
from emu.mlir.registry import definition
from emu.mlir.types import FunctionType, IntegerType, TupleType, Type

I64 = IntegerType(64)
I32 = IntegerType(32)


@dataclass(slots=True)
class Draft:
    """The parts of an operation that have been read so far.

    ``place`` is where an error about the number of operands is reported. Default: the operation.
    """

    name: str
    operands: list[Operand] = field(default_factory=list)
    operand_types: list[Type] = field(default_factory=list)
    result_types: list[Type] = field(default_factory=list)
    properties: dict[str, Attribute] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    place: Place | None = None

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
        """Make the operation."""
        return Operation(
            self.name,
            p.resolve_all(self.operands, self.operand_types, self.place),
            self.result_types,
            properties=self.properties,
            attributes=self.attributes,
            regions=self.regions,
            location=p.op_place,
        )


class Piece:
    """A piece of a pretty form.

    Attributes:
        writes: Inherent attributes that it writes itself.
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
    """The pretty form of one operation.

    Args:
        name: The operation's full name.
        pieces: What stands behind the name.
        defaults: Values of inherent attributes that are not written.

    Attributes:
        writes: Inherent attributes that the pieces write.
        needs: Those of them without which the form cannot be written.
    """

    def __init__(
        self, name: str, *pieces: str | Piece, defaults: Mapping[str, Attribute] | None = None
    ) -> None:
        self.name = name
        self.pieces = tuple(Text(p) if isinstance(p, str) else p for p in pieces)
        written = tuple(name for piece in self.pieces for name in piece.writes)
        dictionary = Attributes(written, defaults or {})
        self.pieces = tuple(dictionary if p is ATTRIBUTES else p for p in self.pieces)
        self.writes = written
        self.needs = tuple(name for piece in self.pieces for name in piece.needs)

    def parse(self, p: OpParser) -> Operation:
        """Read the operation behind its name."""
        draft = Draft(self.name)
        for piece in self.pieces:
            piece.read(p, draft)
        return draft.finish(p)

    def print(self, w: OpPrinter, op: Operation) -> None:
        """Write the operation, in generic form where an attribute is missing."""
        for name in self.needs:
            if name not in op.properties:
                w.generic_operation(op)
                return
        w.write(self.name)
        for piece in self.pieces:
            piece.write(w, op)


class Text(Piece):
    """Keywords and punctuation."""

    _token = re.compile(r"[A-Za-z_]+|->|[^\sA-Za-z_]")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._token.findall(text)

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        for token in self.tokens:
            if token[0].isalpha():
                p.expect_keyword(token)
            else:
                p.expect(token)

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        w.write(self.text)


# Operands


class Operands(Piece):
    """All operands, with commas between.

    Args:
        count: Their number, if it is always the same.
        comma: Whether each operand has a comma behind it, the last one included.
    """

    def __init__(self, count: int | None = None, *, comma: bool = False) -> None:
        self.count = count
        self.comma = comma

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
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

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        w.operands(op._operands)
        if self.comma:
            w.write(",")


# Attributes


class Attributes(Piece):
    """The dictionary of the attributes that no other piece writes."""

    def __init__(self, written: tuple[str, ...], defaults: Mapping[str, Attribute]) -> None:
        self.written = written
        self.known = frozenset(written)
        self.defaults = dict(defaults)

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        draft.take(p.optional_attr_dict())

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        # Most operations have nothing to write here, which a comparison of sets tells soonest.
        if op.attributes or not op.properties.keys() <= self.known:
            silent = tuple(n for n, v in self.defaults.items() if op.properties.get(n) == v)
            w.attr_dict(op, elide=self.written + silent)


ATTRIBUTES = Attributes((), {})
"""Placeholder of the dictionary; the ``Form`` replaces it by one that knows the other pieces."""


class Named(Piece):
    """A piece for one inherent attribute."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.writes = self.needs = (name,)


class Integer(Named):
    """An integer attribute, without its type."""

    def __init__(self, name: str, type_: IntegerType = I64) -> None:
        super().__init__(name)
        self.type = type_

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        draft.properties[self.name] = p.attribute(self.type)

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        value = op.properties[self.name]
        w.write(str(value.value) if isinstance(value, IntegerAttr) else str(value))


class String(Named):
    """A string attribute, in quotes."""

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        draft.properties[self.name] = StringAttr(p.string())

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        w.attribute(op.properties[self.name])


# Types


class TypePiece(Piece):
    """Types in a short form, or as ``(…) -> …`` where the short form does not suffice."""

    def read(self, p: OpParser, draft: Draft) -> None:  # noqa: D102  # see Piece
        place = p.here()
        first = p.type()
        if isinstance(first, FunctionType):
            self.read_function(p, draft, first, place)
        else:
            self.read_short(p, draft, first)

    def read_function(
        self, p: OpParser, draft: Draft, signature: FunctionType, place: Place
    ) -> None:
        """Take ``(…) -> …``, which must have as many types as there are operands."""
        count, expected = len(draft.operands), len(signature.inputs)
        if count != expected:
            p.error(f"{count} operands present, but expected {expected}", place)
        if len(signature.results) != 1:
            p.error("expected single output", place)
        draft.take_signature(signature)

    def read_short(self, p: OpParser, draft: Draft, first: Type) -> None:
        """Read the short form, whose first type has been read."""
        raise NotImplementedError

    def write(self, w: OpPrinter, op: Operation) -> None:  # noqa: D102  # see Piece
        types = self.short(op)
        if types is None:
            w.functional_type(op)
            return
        for index, type_ in enumerate(types):
            if index:
                w.write(", ")
            w.type(type_)

    def short(self, op: Operation) -> list[Type] | None:
        """Return the types of the short form, or None."""
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
        if len(op.results) != 1:
            return None
        type_ = op.results[0].type
        for value in op._operands:
            if value.type is not type_ and value.type != type_:
                return None
        return [type_]


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
    """One type for each operand and the result with its number."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.operand_types = p.types()
        draft.result_types = list(draft.operand_types)

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.write(", ".join(str(operand.type) for operand in op.operands))


class _OperandsAndTypes(Piece):
    """`` %0, %1 : T, U``, if there are operands."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.operands = p.operands()
        if draft.operands:
            p.expect(":")
            draft.operand_types = p.types()

    def write(self, w: OpPrinter, op: Operation) -> None:
        if op.operands:
            w.write(" ")
            w.operands(op.operands)
            w.write(" : ")
            w.types([value.type for value in op.operands])


class _ResultType(Piece):
    """The types of the results; there are no operands."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.result_types = [p.type()]

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.type(op.result.type)


SIGNATURE = _Signature()
SAME_TYPE = _SameType()
TUPLE_TYPE = _TupleType()
PAIRWISE_TYPES = _PairwiseTypes()
OPERANDS_AND_TYPES = _OperandsAndTypes()
RESULT_TYPE = _ResultType()
