"""Parser of dense literals: from the text between ``dense<`` and ``>`` to bytes."""

from __future__ import annotations

import math
import re

from emu.mlir.attributes import Attribute, DenseElementsAttr, RawAttr
from emu.mlir.dense import DenseError, element_bytes, shape_and_element
from emu.mlir.floats import bits_of, byte_width
from emu.mlir.literals import integer_of
from emu.mlir.types import ComplexType, FloatType, IntegerType, Type

_MORE_RANKS = (
    64  # a literal that is nested this much deeper is not looked at: depth costs its square
)

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)|true|false")
_TOKEN = re.compile(r"\s*(\[|\]|,|\(|\)|[^\s\[\],()]+)")
_WORD = re.compile(r"[^\s\[\](),]+")
_HEX = re.compile(r'"0x([0-9a-fA-F]*)"')


def dense_elements(body: str, type_: Type) -> Attribute:
    """Return the attribute that the text between ``dense<`` and ``>`` stands for.

    Raises:
        DenseError: The text does not fit the type.
    """
    shape, element = shape_and_element(type_)
    width = element_bytes(element)
    if width is None or (body[:1] == '"' and not _HEX.fullmatch(body)):
        return RawAttr(f"dense<{body}> : {type_}")
    if "//" in body:
        body = re.sub("//[^\n]*", "", body)
    count = math.prod(shape)
    if body[:1] == '"':
        data = bytes.fromhex(body[3:-1])
        if len(data) not in (width, width * count):
            raise DenseError(f"elements hex data size is invalid for provided type: '{type_}'")
        return _attribute(data, type_, width)
    if not body:
        if count:
            raise DenseError(f"expected zero elements, but type is '{type_}'")
        return DenseElementsAttr(b"", type_, False)
    words = _words(body, shape, isinstance(element, ComplexType))
    part = element.element if isinstance(element, ComplexType) else element
    try:
        data = b"".join([_encode(word, part) for word in words])
    except DenseError as error:
        raise DenseError(str(error), _offset_of_wrong_word(body, part), error.notes) from None
    if len(data) == width and body[0] != "[":
        return DenseElementsAttr(data, type_, True)
    return _attribute(data, type_, width)


def _attribute(data: bytes, type_: Type, width: int) -> DenseElementsAttr:
    """Make the attribute; like MLIR, make a splat where all elements are the same."""
    if data and data == data[:width] * (len(data) // width):
        return DenseElementsAttr(data[:width], type_, True)
    return DenseElementsAttr(data, type_, False)


def _skeleton(shape: tuple[int, ...], leaf: str) -> str:
    for size in reversed(shape):
        leaf = f"[{','.join([leaf] * size)}]"
    return leaf


def _words(body: str, shape: tuple[int, ...], pairs: bool) -> list[str]:
    """Return the numbers in order, after a check of the nesting."""
    brackets = re.sub(r"[^\[\](),]+", "", body)
    leaf = "(,)" if pairs else ""
    # A shape with more elements than there is text need not be written out.
    if brackets != leaf and (math.prod(shape) > len(body) or brackets != _skeleton(shape, leaf)):
        _fail_nesting(body, shape)
    return [word for word in re.sub(r"[\[\](),\s]+", " ", body).split(" ") if word]


def _fail_nesting(body: str, shape: tuple[int, ...]) -> None:
    """Raise the error about a nesting that does not fit the shape."""
    stack: list[list[tuple[int, ...]]] = [[]]
    # A pair counts as one element; blanks keep the offsets.
    flat = re.sub(r"\([^()]*\)", lambda m: "0".ljust(len(m[0])), body)
    for match in _TOKEN.finditer(flat):
        if match[1] == "[":
            stack.append([])
            if len(stack) > len(shape) + _MORE_RANKS:
                raise DenseError(
                    f"inferred shape of elements literal has more dimensions than type ({list(shape)})"
                )
            continue
        if len(stack[-1]) > 1 and stack[-1][-1] != stack[-1][0]:
            raise DenseError(
                "tensor literal is invalid; ranks are not consistent between elements",
                match.start(1),
            )
        if match[1] == "]":
            if len(stack) == 1:
                break
            inner = stack.pop()
            stack[-1].append((len(inner), *(inner[0] if inner else ())))
        elif match[1] != ",":
            stack[-1].append(())
    found = list(stack[-1][0]) if stack[-1] else []
    raise DenseError(
        f"inferred shape of elements literal ({found}) does not match type ({list(shape)})"
    )


def _offset_of_wrong_word(body: str, element: Type) -> int:
    """Return where the first number is that is not of the element type."""
    for match in _WORD.finditer(body):
        try:
            _encode(match[0], element)
        except DenseError:
            return match.start()
    raise AssertionError("every word is right")


def _encode(word: str, element: Type) -> bytes:
    if not _NUMBER.fullmatch(word):
        raise DenseError("expected element literal of primitive type")
    if isinstance(element, FloatType):
        width = byte_width(element.name)
        if word[:2] == "0x":
            bits = int(word, 16)
            if bits >> 8 * width:
                raise DenseError("hexadecimal float constant out of range for type")
            return bits.to_bytes(width, "little")
        if "." not in word:
            raise DenseError(
                "unexpected decimal integer literal for a floating point value",
                notes=("add a trailing dot to make the literal a float",),
            )
        return bits_of(float(word), element.name).to_bytes(width, "little")
    bits = element.width if isinstance(element, IntegerType) else 64
    width = (bits + 7) // 8
    if word in ("true", "false"):
        if bits != 1:
            raise DenseError("expected i1 type for 'true' or 'false' values")
        return b"\x01" if word == "true" else b"\x00"
    if "." in word:
        raise DenseError("expected integer elements, but parsed floating-point")
    magnitude = integer_of(word.lstrip("-"))
    value = -magnitude if word[0] == "-" else magnitude
    if not -(1 << bits) // 2 <= value < 1 << bits:
        raise DenseError("integer constant out of range")
    return (value & ((1 << bits) - 1)).to_bytes(width, "little")
