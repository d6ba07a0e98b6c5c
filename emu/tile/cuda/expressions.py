"""Operations on single elements as Python expressions."""

from __future__ import annotations

import math

import numpy as np

from emu.tile.ir import Operation
from emu.tile.ops import COMPARISONS, Code
from emu.tile.types import F32, I64, DType, Kind, Pointer, ScalarType, dtype_of, element_of

_RELATIONS = {
    Code.EQ: "==",
    Code.NE: "!=",
    Code.LT: "<",
    Code.LE: "<=",
    Code.GT: ">",
    Code.GE: ">=",
}
# What these give of numbers of a format, the format can represent.
_EXACT = frozenset(
    (Code.NEG, Code.ABS, Code.FLOOR, Code.CEIL, Code.TRUNC, Code.RINT, Code.MIN, Code.MAX)
)


def register(element: ScalarType) -> DType:
    """Return the dtype of the register of an element: fp32 for narrower floats, i64 for pointers."""
    if isinstance(element, Pointer):
        return I64
    return F32 if element.is_narrow else element


def numpy_name(element: ScalarType) -> str:
    """Return NumPy's name of the scalar type of an element's register: ``int32``, ``bool``."""
    return register(element).numpy.name


def numba_name(element: ScalarType) -> str:
    """Return Numba's name of the type of an element's register: ``int32``, ``boolean``."""
    dtype = register(element)
    return "boolean" if dtype.kind is Kind.BOOL else dtype.numpy.name


def is_narrow(element: ScalarType) -> bool:
    """Return whether it is a float that is kept in fp32."""
    return isinstance(element, DType) and element.is_narrow


def memory_name(element: ScalarType) -> str:
    """Return the name of an element in memory: a dtype's, or ``ptr``."""
    return "ptr" if isinstance(element, Pointer) else element.name


def literal(value: float, element: ScalarType) -> str:
    """Return a constant as it is written in a kernel."""
    if isinstance(element, Pointer):
        return f"int64({int(value)})"
    if element.kind is Kind.BOOL:
        return str(bool(value))
    if element.is_float:
        with np.errstate(all="ignore"):
            number = float(element.numpy.type(value))
        text = repr(number)
        if not math.isfinite(number):
            text = "NAN" if math.isnan(number) else ("INF" if number > 0 else "-INF")
        return f"{numpy_name(element)}({text})"
    low = int(value) & ((1 << element.bits) - 1)
    if element.is_signed and low >> (element.bits - 1):
        low -= 1 << element.bits
    return f"{numpy_name(element)}({low})"


def zero(element: ScalarType) -> str:
    """Return the zero of an element."""
    return literal(0, element)


def rounded(text: str, element: ScalarType) -> str:
    """Return an expression in fp32 rounded to a narrower float."""
    return f"round_{element}({text})" if is_narrow(element) else text


def _cast(source: ScalarType, target: ScalarType, text: str, rounding: str) -> str:
    before, after = register(source), register(target)
    if is_narrow(target):
        return _narrowed(before, target, text, rounding)
    if before == after:
        return text
    if rounding == "rtz" and before.name == "f64" and after.name == "f32":
        return f"castrz_f64_f32({text})"
    return f"cast_{before}_{after}({text})"


def _narrowed(before: DType, target: ScalarType, text: str, rounding: str) -> str:
    toward_zero = rounding == "rtz" and before.is_float
    if before.name == "f64":
        text = f"{'castrz' if toward_zero else 'castodd'}_f64_f32({text})"
    elif before.is_integer and before.bits >= 32:
        # So that they are rounded once; fp64 holds 32 bits as they are.
        odd = "castodd" if before.bits == 64 else "cast"
        text = f"castodd_f64_f32({odd}_{before}_f64({text}))"
    elif before.name != "f32":
        text = f"cast_{before}_f32({text})"
    return f"truncate_{target}({text})" if toward_zero else f"round_{target}({text})"


def _bitcast(source: ScalarType, target: ScalarType, text: str) -> str:
    if isinstance(source, Pointer) or isinstance(target, Pointer):
        return _cast(source, target, text, "rtne")
    bits = source.as_unsigned() if source.kind is not Kind.BOOL else source
    if source.is_float:
        text, source = f"bits_{source}({text})", bits
    if target.is_float:
        if source != bits:
            text = f"cast_{source}_{bits}({text})"
        return f"from_{target}({text})"
    return text if source == target else f"cast_{source}_{target}({text})"


def _sigmoid(kind: DType, x: str) -> str:
    one = f"{numpy_name(kind)}(1.0)"
    return f"div_{kind}({one}, add_{kind}({one}, exp_{kind}(neg_{kind}({x}))))"


def expression(operation: Operation, args: list[str]) -> str:
    """Return the value of an element-wise operation for one element.

    Args:
        operation: One of ``ops.ELEMENTWISE``.
        args: Texts of its operands' elements: names or literals, evaluated already.
    """
    code = operation.code
    element = element_of(operation.results[0].type)
    if code is Code.SELECT:
        return f"({args[1]} if {args[0]} else {args[2]})"
    source = element_of(operation.operands[0].type)
    if code in COMPARISONS:
        return f"({args[0]} {_RELATIONS[code]} {args[1]})"
    if code is Code.PTR_ADD:
        assert isinstance(element, Pointer)
        offset = dtype_of(operation.operands[1].type)
        wide = args[1] if offset.bits == 64 else f"cast_{offset}_i64({args[1]})"
        return f"address({args[0]}, {wide}, {element.element.bytes})"
    if code is Code.CAST:
        return _cast(source, element, args[0], operation.attributes.get("rounding", "rtne"))
    if code is Code.BITCAST:
        return _bitcast(source, element, args[0])
    kind = register(element)
    if code is Code.SIGMOID:
        return rounded(_sigmoid(kind, args[0]), element)
    name = code.name.lower()
    if code in (Code.MIN, Code.MAX) and kind.is_float and operation.attributes.get("propagate_nan"):
        name += "nan"
    text = f"{name}_{kind}({', '.join(args)})"
    return text if code in _EXACT else rounded(text, element)
