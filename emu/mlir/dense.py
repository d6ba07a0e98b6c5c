"""Dense elements: between the text, bytes and numbers.

Elements are little endian and each takes whole bytes (`DenseElementsAttr`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from emu.mlir.attributes import Attribute, DenseElementsAttr, RawAttr
from emu.mlir.floats import FORMATS, bits_of, float_text
from emu.mlir.types import ComplexType, FloatType, IndexType, IntegerType, TensorType, Type

__all__ = ["DenseError", "dense_elements", "dense_text", "element_bytes", "element_values"]

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)|true|false")
_TOKEN = re.compile(r"\s*(\[|\]|,|\(|\)|[^\s\[\],()]+)")
_WORD = re.compile(r"[^\s\[\](),]+")
_HEX = re.compile(r'"0x([0-9a-fA-F]*)"')
_VECTOR = re.compile(r"vector<((?:[0-9]+x)*)([a-z][A-Za-z0-9]*)>")
_HEX_LIMIT = 100


class DenseError(ValueError):
    """The literal does not fit the type.

    Attributes:
        offset: Where in the text between the brackets; None for all of it.
        notes: What to add.
    """

    def __init__(
        self, message: str, offset: int | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.notes = notes


def _shape_and_element(type_: Type) -> tuple[tuple[int, ...], Type]:
    if isinstance(type_, TensorType):
        if not type_.is_static:
            raise DenseError("elements literal type must have static shape")
        return type_.static_shape, type_.element
    from emu.mlir.text.type_parser import scalar_type

    match = _VECTOR.fullmatch(str(type_))
    element = scalar_type(match[2]) if match else None
    if match is None or element is None:
        raise DenseError("elements literal must be a ranked tensor or vector type")
    return tuple(int(d) for d in match[1].split("x")[:-1]), element


def element_bytes(element: Type) -> int | None:
    """The bytes of an element in dense data; None for types without numbers."""
    if isinstance(element, ComplexType):
        part = element_bytes(element.element)
        return None if part is None else 2 * part
    if isinstance(element, FloatType):
        return (FORMATS[element.name].width + 7) // 8
    if isinstance(element, IntegerType):
        return (element.width + 7) // 8
    return 8 if isinstance(element, IndexType) else None


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def dense_elements(body: str, type_: Type) -> Attribute:
    """The attribute that the text between ``dense<`` and ``>`` means."""
    shape, element = _shape_and_element(type_)
    width = element_bytes(element)
    if width is None or (body[:1] == '"' and not _HEX.fullmatch(body)):
        return RawAttr(f"dense<{body}> : {type_}")
    if "//" in body:
        body = re.sub("//[^\n]*", "", body)
    count = _count(shape)
    if body[:1] == '"':
        data = bytes.fromhex(body[3:-1])
        if len(data) not in (width, width * count):
            raise DenseError(f"elements hex data size is invalid for provided type: '{type_}'")
        return _uniform(data, type_, width, count)
    if not body:
        if count:
            raise DenseError(f"expected zero elements, but type is '{type_}'")
        return DenseElementsAttr(b"", type_, False)
    words = _words(body, shape, isinstance(element, ComplexType))
    part = element.element if isinstance(element, ComplexType) else element
    try:
        data = b"".join([_encode(word, part) for word in words])
    except DenseError as error:
        raise DenseError(str(error), _place_of_wrong_word(body, part), error.notes) from None
    if len(data) == width and body[0] != "[":
        return DenseElementsAttr(data, type_, True)
    return _uniform(data, type_, width, count)


def _uniform(data: bytes, type_: Type, width: int, count: int) -> DenseElementsAttr:
    """The attribute; MLIR notices when all elements are the same."""
    if data and data == data[:width] * (len(data) // width):
        return DenseElementsAttr(data[:width], type_, True)
    return DenseElementsAttr(data, type_, False)


def _skeleton(shape: tuple[int, ...], leaf: str) -> str:
    for size in reversed(shape):
        leaf = f"[{','.join([leaf] * size)}]"
    return leaf


def _words(body: str, shape: tuple[int, ...], pairs: bool) -> list[str]:
    """The numbers in order, after a look at the nesting."""
    brackets = re.sub(r"[^\[\](),]+", "", body)
    leaf = "(,)" if pairs else ""
    # A shape with more elements than there is text need not be written out.
    if brackets != leaf and (_count(shape) > len(body) or brackets != _skeleton(shape, leaf)):
        _explain(body, shape)
    return [word for word in re.sub(r"[\[\](),\s]+", " ", body).split(" ") if word]


def _explain(body: str, shape: tuple[int, ...]) -> None:
    """Raise the error about a nesting that does not fit the shape."""
    stack: list[list[tuple[int, ...]]] = [[]]
    # A pair counts as one element; blanks keep the places.
    flat = re.sub(r"\([^()]*\)", lambda m: "0".ljust(len(m[0])), body)
    for match in _TOKEN.finditer(flat):
        if match[1] == "[":
            stack.append([])
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


def _place_of_wrong_word(body: str, element: Type) -> int:
    """Where the first number is that is none of the element type."""
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
        width = (FORMATS[element.name].width + 7) // 8
        if word[:2] == "0x":
            return int(word, 16).to_bytes(width, "little")
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
    value = int(word, 0) if "0x" in word else int(word)
    if not -(1 << bits) // 2 <= value < 1 << bits:
        raise DenseError("integer constant out of range")
    return (value & ((1 << bits) - 1)).to_bytes(width, "little")


def element_values(attribute: DenseElementsAttr) -> Iterator[int]:
    """The elements' bits as unsigned integers, two a complex; one if a splat."""
    _, element = _shape_and_element(attribute.type)
    part = element.element if isinstance(element, ComplexType) else element
    width = element_bytes(part) or 1
    data = attribute.data
    for start in range(0, len(data), width):
        yield int.from_bytes(data[start : start + width], "little")


def _element_texts(attribute: DenseElementsAttr, element: Type) -> list[str]:
    if isinstance(element, ComplexType):
        parts = [_one(bits, element.element) for bits in element_values(attribute)]
        return [f"({a},{b})" for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return [_one(bits, element) for bits in element_values(attribute)]


def _one(bits: int, element: Type) -> str:
    if isinstance(element, FloatType):
        return float_text(bits, element.name)
    width = element.width if isinstance(element, IntegerType) else 64
    if isinstance(element, IntegerType):
        if width == 1:
            return "true" if bits else "false"
        if element.signedness == "u":
            return str(bits)
    return str(bits - (1 << width) if bits >> (width - 1) else bits)


def dense_text(attribute: DenseElementsAttr) -> str:
    """``dense<[1, 2]>``, without the type."""
    shape, element = _shape_and_element(attribute.type)
    count = _count(shape)
    if not attribute.splat and count > _HEX_LIMIT:
        return f'dense<"0x{attribute.data.hex().upper()}">'
    if not attribute.data or (not attribute.splat and not count):
        return "dense<>"
    texts = _element_texts(attribute, element)
    if attribute.splat or not shape:
        return f"dense<{texts[0]}>"
    for size in reversed(shape):
        texts = ["[" + ", ".join(texts[i : i + size]) + "]" for i in range(0, len(texts), size)]
    return f"dense<{texts[0]}>"
