"""Checks of an operation's structure: number of operands, attributes, types.

MLIR generates these checks from an operation's definition, in a fixed order:
counts and parents first, then attributes, types and regions, then relations
between types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from emu.mlir.attributes import Attribute, DenseElementsAttr, DictAttr, IntegerAttr, RawAttr
from emu.mlir.ir import Operation
from emu.mlir.types import DialectType, IntegerType, TensorType, Type, UnrankedTensorType
from emu.sdy.dialect.attributes import PropagationDirection, ReductionOp
from emu.sdy.dialect.verify.problems import Check, Problem
from emu.sdy.dialect.verify.shardings import is_shaped, shape_of


@dataclass(frozen=True, slots=True)
class Kind:
    """A set of types, with its description in messages."""

    words: str
    shaped: bool = True
    ranked_tensor: bool = False
    static: bool = False

    def has(self, type_: Type) -> bool:
        """Return whether a type belongs to the kind."""
        if self.ranked_tensor or self.static:
            static = isinstance(type_, TensorType) and (not self.static or type_.is_static)
            return static
        return is_shaped(type_)


SHAPED = Kind("shaped of any non-token type values")
RANKED_TENSOR = Kind("ranked tensor of any non-token type values", ranked_tensor=True)
STATIC_TENSOR = Kind("statically shaped tensor of any non-token type values", static=True)


@dataclass(frozen=True, slots=True)
class Form:
    """The structure of an operation.

    Attributes:
        operands: Number of operands (0 or 1); None: any number.
        results: Number of results (0 or 1); None: any number.
        required: Required properties, with their classes.
        optional: Optional properties, with their classes.
        operand: Kind of its operands; None: any type.
        result: Kind of its results; None: any type.
        body: Whether it has one region of one block that ends in
            ``sdy.return``.
        parent: The operation that it must be in; None: any.
        same_type: Whether operands and results have one type.
    """

    operands: int | None = 1
    results: int | None = 1
    required: tuple[tuple[str, type[Attribute]], ...] = ()
    optional: tuple[tuple[str, type[Attribute]], ...] = ()
    operand: Kind | None = None
    result: Kind | None = None
    body: bool = False
    parent: str | None = None
    same_type: bool = False


def form_problem(form: Form) -> Check:
    """Return the check that an operation has the form."""

    def check(op: Operation) -> Problem | None:
        return (
            _property_classes_problem(op, form)
            or _counts_problem(op, form)
            or _block_problem(op, form)
            or _parent_problem(op, form)
            or _attributes_problem(op, form)
            or _types_problem(op, form)
            or _body_problem(op, form)
            or (_same_type_problem(op) if form.same_type else None)
        )

    return check


_LAST_OF_ENUMERATION = {
    "allowed_direction": PropagationDirection.BOTH,
    "reduction_op": ReductionOp.MIN,
}


def _fits(name: str, attribute: Attribute, expected: type[Attribute]) -> bool:
    if expected is DenseElementsAttr and isinstance(attribute, RawAttr):
        return True  # elements that are kept as text
    if name in _LAST_OF_ENUMERATION and isinstance(attribute, IntegerAttr):
        last = _LAST_OF_ENUMERATION[name]
        return attribute.type == IntegerType(32) and 0 <= attribute.value <= last
    return isinstance(attribute, expected)


def _property_classes_problem(op: Operation, form: Form) -> Problem | None:
    """Check the classes of properties; in MLIR, a property has a fixed class."""
    for name, expected in sorted((*form.required, *form.optional), key=lambda entry: entry[0]):
        attribute = op.properties.get(name)
        if attribute is None or _fits(name, attribute, expected):
            continue
        return Problem(
            f"invalid properties {DictAttr.of(op.properties)} for op {op.name}: "
            f"Invalid attribute `{name}` in property conversion: {attribute}",
            bare=True,
        )
    return None


def _counts_problem(op: Operation, form: Form) -> Problem | None:
    regions = 1 if form.body else 0
    if len(op.regions) != regions:
        return Problem("requires one region" if form.body else "requires zero regions")
    if form.results is not None and len(op.results) != form.results:
        return Problem("requires one result" if form.results else "requires zero results")
    if form.operands is not None and len(op.operands) != form.operands:
        return Problem("requires a single operand" if form.operands else "requires zero operands")
    return None


def _block_problem(op: Operation, form: Form) -> Problem | None:
    if not form.body or not op.regions[0].blocks:
        return None
    if len(op.regions[0].blocks) > 1:
        return Problem("expects region #0 to have 0 or 1 blocks")
    return Problem("expects a non-empty block") if op.body().last is None else None


def _parent_problem(op: Operation, form: Form) -> Problem | None:
    parent = op.parent_op
    if form.parent is None or (parent is not None and parent.name == form.parent):
        return None
    return Problem(f"expects parent op '{form.parent}'")


def _attributes_problem(op: Operation, form: Form) -> Problem | None:
    for name, _ in sorted(form.required, key=lambda entry: entry[0]):
        if name not in op.properties:
            return Problem(f"requires attribute '{name}'")
    group = op.properties.get("group_id")
    if isinstance(group, IntegerAttr) and group.type != IntegerType(64):
        return Problem(
            "attribute 'group_id' failed to satisfy constraint: 64-bit signless integer attribute"
        )
    return None


def _types_problem(op: Operation, form: Form) -> Problem | None:
    for what, kind, values in (
        ("operand", form.operand, op.operands),
        ("result", form.result, op.results),
    ):
        for index, value in enumerate(values):
            if kind is not None and not kind.has(value.type):
                return Problem(f"{what} #{index} must be {kind.words}, but got '{value.type}'")
    return None


def _body_problem(op: Operation, form: Form) -> Problem | None:
    if form.body and not op.regions[0].blocks:
        return Problem("region #0 ('body') failed to verify constraint: region with 1 blocks")
    return None


# Types that hang together


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, TensorType | UnrankedTensorType) else type_


def _compatible(a: Type, b: Type) -> bool:
    """Return whether element types are equal, and shapes where both are known."""
    if isinstance(a, DialectType) or isinstance(b, DialectType):
        return a == b
    if _element(a) != _element(b) or is_shaped(a) != is_shaped(b):
        return False
    shape, other = shape_of(a), shape_of(b)
    if shape is None or other is None:
        return True
    return len(shape) == len(other) and all(
        m == n or m is None or n is None for m, n in zip(shape, other, strict=True)
    )


def _same_type_problem(op: Operation) -> Problem | None:
    first = op.results[0].type
    for value in op.operands:
        if not _compatible(value.type, first):
            return Problem("requires the same type for all operands and results")
        encodings = [t.encoding for t in (value.type, first) if isinstance(t, TensorType)]
        if len(set(encodings)) > 1:
            return Problem("requires the same encoding for all operands and results")
    return None


def _inference_problem(inferred: Sequence[Type], actual: Sequence[Type]) -> Problem | None:
    def texts(types: Sequence[Type]) -> str:
        return ", ".join(f"'{type_}'" for type_ in types)

    return Problem(
        f"inferred type(s) {texts(inferred)} are incompatible with return type(s) of operation "
        f"{texts(actual)}",
        conclusion="failed to infer returned types",
    )


def inferred_types_problem(op: Operation) -> Problem | None:
    """Check that the results have the type of the operand."""
    actual = [result.type for result in op.results]
    inferred = [op.operands[0].type]
    return None if inferred == actual else _inference_problem(inferred, actual)


def named_computation_types_problem(op: Operation) -> Problem | None:
    """Check that the results have the types of the values that the body returns."""
    actual = [result.type for result in op.results]
    inferred = [value.type for value in op.body().terminator.operands]
    return None if inferred == actual else _inference_problem(inferred, actual)


_QUANTIZED = re.compile(r"uniform<([^:>]*)[:>]")


def constant_type_problem(op: Operation) -> Problem | None:
    """Check that the result has the type of the value; if quantized, that of its storage."""
    value, actual = op.properties["value"], op.result.type
    if not isinstance(value, DenseElementsAttr):
        return None  # kept as text, from which the type cannot be read
    stored = actual
    element = _element(actual)
    if isinstance(element, DialectType) and isinstance(actual, TensorType):
        match = _QUANTIZED.match(element.body)
        storage = _storage(match[1]) if match is not None else element
        stored = TensorType(actual.shape, storage, actual.encoding)
    return None if value.type == stored else _inference_problem([value.type], [actual])


def _storage(text: str) -> Type:
    """Return the integer type that stores quantized values: ``i8``, ``u8``."""
    width = int(re.sub(r"\D", "", text))
    return IntegerType(width)


# Bodies


def body_terminator_problem(op: Operation) -> Problem | None:
    """Check that the body ends in ``sdy.return``."""
    last = op.body().terminator
    if last.name == "sdy.return":
        return None
    return Problem(
        f"expects regions to end with 'sdy.return', found '{last.name}'",
        note="in custom textual format, the absence of terminator implies 'sdy.return'",
    )
