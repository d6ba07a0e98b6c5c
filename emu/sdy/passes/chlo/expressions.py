"""Expressions over tensors whose operators create operations of StableHLO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.floats import bits_of, byte_width
from emu.mlir.ir import Operation, Value
from emu.mlir.types import ComplexType, FloatType, IntegerType, TensorType, Type
from emu.sdy.passes.builder import Builder, tensor

_OWN_PRECISION = ("f32", "f64")


class Formulas:
    """A factory of expressions before an operation, at its location.

    Formats smaller than f32 are computed in f32 and rounded once at the end.
    """

    def __init__(self, op: Operation) -> None:
        self.build = Builder.before(op)

    def of(self, value: Value) -> Expression:
        """Return a value as an expression."""
        return Expression(self, value)

    def computed(self, value: Value) -> Expression:
        """Return a value, converted to the type of the computation."""
        found = self.of(value)
        element = found.element
        # Rounding each operation to a narrow format would lose digits that the result still has.
        if isinstance(element, FloatType) and element.name not in _OWN_PRECISION:
            return found.converted(FloatType("f32"))
        return found

    def call(self, name: str, *operands: Expression, element: Type | None = None) -> Expression:
        """Apply an elementwise operation.

        Args:
            name: StableHLO's name, without the dialect.
            operands: The operands, all of one shape.
            element: Element type of the result. Default: that of the last operand.
        """
        last = tensor(operands[-1].value)
        type_ = TensorType(last.shape, last.element if element is None else element)
        return self.of(self.build.op(name, [e.value for e in operands], [type_]).result)

    def select(self, where: Expression, left: Expression, right: Expression) -> Expression:
        """Return ``left`` where a condition holds, else ``right``."""
        return self.of(self.build.select(where.value, left.value, right.value))


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A tensor with arithmetic operators; numbers become constants of its type."""

    formulas: Formulas
    value: Value

    @property
    def element(self) -> Type:
        """Element type."""
        return tensor(self.value).element

    def constant(self, number: float) -> Expression:
        """Return a constant of the same type."""
        type_ = tensor(self.value)
        if isinstance(type_.element, IntegerType):
            attribute = DenseElementsAttr.of([int(number)], (), type_.element)
            data = attribute.data
        else:
            data = _bytes_of(number, type_.element)
        splat = DenseElementsAttr(data, type_, True)
        return Expression(self.formulas, self.formulas.build.constant(splat, type_))

    def converted(self, element: Type) -> Expression:
        """Return the same numbers in another element type."""
        if element == self.element:
            return self
        return Expression(self.formulas, self.formulas.build.convert(self.value, element))

    def call(self, name: str, *others: Expression | float) -> Expression:
        """Apply an operation to this expression and others."""
        return self.formulas.call(name, self, *map(self._like, others))

    def compared(self, direction: str, other: Expression | float) -> Expression:
        """Return the elementwise comparison with another expression."""
        right = self._like(other)
        return Expression(
            self.formulas, self.formulas.build.compare(self.value, right.value, direction)
        )

    def _like(self, other: Expression | float) -> Expression:
        return other if isinstance(other, Expression) else self.constant(other)

    def __add__(self, other: Expression | float) -> Expression:
        return self.call("add", other)

    def __sub__(self, other: Expression | float) -> Expression:
        return self.call("subtract", other)

    def __rsub__(self, other: float) -> Expression:
        return self.constant(other) - self

    def __mul__(self, other: Expression | float) -> Expression:
        return self.call("multiply", other)

    def __truediv__(self, other: Expression | float) -> Expression:
        return self.call("divide", other)

    def __neg__(self) -> Expression:
        return self.call("negate")


def _bytes_of(number: float, element: Type) -> bytes:
    if isinstance(element, ComplexType):
        return _bytes_of(number, element.element) + _bytes_of(0.0, element.element)
    if not isinstance(element, FloatType):
        raise TypeError(f"a constant needs numbers, but got elements of type {element}")
    bits = bits_of(Fraction(number) if math.isfinite(number) else number, element.name)
    return bits.to_bytes(byte_width(element.name), "little")
