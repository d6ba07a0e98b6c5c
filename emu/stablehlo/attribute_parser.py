"""Readers of StableHLO's and CHLO's attributes; importing the module registers them.

A reader is called behind the mnemonic. For ``#stablehlo<precision HIGH>`` that
is in front of ``HIGH``, for ``#stablehlo.dot<…>`` in front of ``<``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any, TypeVar

from emu.mlir.assembly import OpParser
from emu.mlir.attributes import ArrayAttr, Attribute, FloatAttr
from emu.mlir.registry import attribute_parsers
from emu.mlir.types import FloatType
from emu.stablehlo.attributes import (
    AxisRef,
    ChannelHandle,
    ComparisonDirection,
    ComparisonType,
    ConvDimensionNumbers,
    DotAlgorithm,
    DotDimensionNumbers,
    EnumAttribute,
    FftType,
    GatherDimensionNumbers,
    Mesh,
    MeshAxis,
    OutputOperandAlias,
    Precision,
    RaggedDotDimensionNumbers,
    RecordAttribute,
    ReplicaGroupMeshAxes,
    ResultAccuracy,
    ResultAccuracyMode,
    RngAlgorithm,
    RngDistribution,
    ScatterDimensionNumbers,
    StructAttribute,
    SubAxisInfo,
    Transpose,
    TypeExtensions,
)

ENUMERATIONS: tuple[type[EnumAttribute], ...] = (
    ComparisonDirection,
    ComparisonType,
    FftType,
    Precision,
    RngAlgorithm,
    RngDistribution,
    Transpose,
)
STRUCTURES: tuple[type[StructAttribute], ...] = (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
)
CHLO_ENUMERATIONS = (ComparisonDirection, ComparisonType, Precision)

Reader = Callable[[OpParser], Any]
_R = TypeVar("_R", bound=RecordAttribute)


def read_enum(p: OpParser, kind: type[EnumAttribute], dialect: str = "stablehlo") -> EnumAttribute:
    """Read one of an enumeration's words."""
    place = p.here()
    word = p.keyword()
    if word not in kind.cases:
        allowed = ", ".join(kind.cases)
        p.error(f"expected {kind.mnemonic.replace('_', ' ')} to be one of: {allowed}", place)
    return kind(word, dialect)


def read_dims(p: OpParser) -> tuple[int, ...]:
    """Read ``[0, 1]``."""
    return tuple(p.comma_separated("[", "]", p.integer))


def _read_sizes(p: OpParser) -> tuple[int | None, ...]:
    return tuple(p.comma_separated("<", ">", lambda: None if p.accept("?") else p.integer()))


def _read_fields(p: OpParser, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read ``a = 1, b = [2]>`` in any order, each at most once."""
    found: dict[str, Any] = {}
    while not p.accept(">"):
        place = p.here()
        name = p.optional_keyword()
        if name is None or name not in readers:
            p.error("expected one of: " + ", ".join(f"`{known}`" for known in readers), place)
        if name in found:
            p.error(f"duplicated `{name}` entry", place)
        p.expect("=")
        found[name] = readers[name](p)
        if not p.accept(","):
            p.expect(">")
            break
    return found


def _readers(kind: type[RecordAttribute]) -> dict[str, Reader]:
    """Return the readers of a record's fields, by their declared types."""
    return {field.name: _READERS[str(field.type)] for field in fields(kind)}


def _read_struct(p: OpParser, kind: type[StructAttribute]) -> StructAttribute:
    p.expect("<")
    return kind(**_read_fields(p, _readers(kind)))


def _read_record(p: OpParser, kind: type[_R]) -> _R:
    """Read ``<a = 1, b = "x">``, all fields in any order."""
    return kind(**_read_required(p, _readers(kind)))


def _read_in_order(p: OpParser, kind: type[_R]) -> _R:
    """Read ``<a = 1, b = "x">``, all fields in their order."""
    p.expect("<")
    values: dict[str, Any] = {}
    for name, read in _readers(kind).items():
        if values:
            p.expect(",")
        p.expect_keyword(name)
        p.expect("=")
        values[name] = read(p)
    p.expect(">")
    return kind(**values)


def _read_bool(p: OpParser) -> bool:
    if p.accept_keyword("true"):
        return True
    p.expect_keyword("false")
    return False


def _array(p: OpParser) -> ArrayAttr:
    place = p.here()
    found = p.attribute()
    if not isinstance(found, ArrayAttr):
        p.error("expected an array attribute", place)
    return found


_READERS: dict[str, Reader] = {
    "int": lambda p: p.integer(),
    "bool": _read_bool,
    "str": lambda p: p.string(),
    "Type": lambda p: p.type(),
    "Attribute": lambda p: p.attribute(),
    "ArrayAttr": _array,
    "tuple[int, ...]": read_dims,
}


# Convolutions


def read_conv_body(p: OpParser) -> ConvDimensionNumbers:
    """Read ``[b, 0, f]x[0, i, o]->[b, 0, f]``."""
    source, source_spatial = _read_layout(p, "bf")
    p.expect_keyword("x")
    kernel, kernel_spatial = _read_layout(p, "io")
    p.expect("->")
    target, target_spatial = _read_layout(p, "bf")
    return ConvDimensionNumbers(
        source["b"],
        source["f"],
        source_spatial,
        kernel["i"],
        kernel["o"],
        kernel_spatial,
        target["b"],
        target["f"],
        target_spatial,
    )


def _read_layout(p: OpParser, letters: str) -> tuple[dict[str, int], tuple[int, ...]]:
    """Read ``[b, 0, 1, f]``: where each letter is, and each number."""
    named: dict[str, int] = {}
    spatial: dict[int, int] = {}
    p.expect("[")
    index = 0
    while True:
        place = p.here()
        number = p.optional_integer()
        if number is not None:
            if number < 0:
                p.error(f"Unexpected dimension {number}", place)
            if number in spatial:
                p.error(f"Duplicate entries for spatial dimension {number}", place)
            spatial[number] = index
        else:
            word = p.keyword()
            left = [letter for letter in letters if letter not in named]
            if len(word) != 1 or not left:
                p.error(f"Unexpected keyword {word}", place)
            if word not in left:
                p.error(f"Unexpected dimension {word}, expecting {', '.join(left)}", place)
            named[word] = index
        index += 1
        if not p.accept(","):
            break
    missing = [letter for letter in letters if letter not in named]
    if missing:
        p.error(f"Expected dimensions {', '.join(missing)} not specified")
    p.expect("]")
    count = max(spatial, default=-1) + 1
    if count > len(spatial):
        holes = (str(i) for i in range(count) if i not in spatial)
        p.error(f"Expected spatial dimensions {', '.join(islice(holes, 10))} not specified")
    return named, tuple(spatial[i] for i in range(count))


def _read_conv(p: OpParser) -> ConvDimensionNumbers:
    p.expect("<")
    if p.accept_keyword("raw"):
        readers = _readers(ConvDimensionNumbers)
        empty = {name: () if read is read_dims else 0 for name, read in readers.items()}
        return ConvDimensionNumbers(**{**empty, **_read_fields(p, readers)})
    numbers = read_conv_body(p)
    p.expect(">")
    return numbers


# The others


def read_dot_algorithm(p: OpParser) -> DotAlgorithm:
    """Read ``<lhs_precision_type = tf32, …>``, the fields in their order."""
    return _read_in_order(p, DotAlgorithm)


def _read_required(
    p: OpParser, readers: Mapping[str, Reader], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Read ``<a = 1, b = "x">``, in any order, with all that is not optional."""
    p.expect("<")
    place = p.here()
    found = _read_fields(p, readers)
    for name in readers:
        if name not in found and name not in optional:
            p.error(f"struct is missing required parameter: {name}", place)
    return found


def _read_bounds(p: OpParser) -> TypeExtensions:
    return TypeExtensions(_read_sizes(p))


def _read_type_extensions(p: OpParser) -> TypeExtensions:
    p.expect("<")
    p.expect_keyword("bounds")
    p.expect("=")
    bounds = tuple(p.comma_separated("[", "]", lambda: None if p.accept("?") else p.integer()))
    p.expect(">")
    return TypeExtensions(bounds)


def _read_accuracy(p: OpParser) -> ResultAccuracy:
    p.expect("<")
    bits = {"atol": 0, "rtol": 0}
    for name in bits:
        if p.accept_keyword(name):
            p.expect("=")
            number = p.attribute(FloatType("f64"))
            if not isinstance(number, FloatAttr):
                p.error("expected floating point literal")
            bits[name] = number.bits
            p.expect(",")
    ulps = 0
    if p.accept_keyword("ulps"):
        p.expect("=")
        ulps = p.integer()
        p.expect(",")
    p.expect_keyword("mode")
    p.expect("=")
    place = p.here()
    mode = p.attribute()
    if not isinstance(mode, ResultAccuracyMode):
        p.error("expected a result accuracy mode", place)
    p.expect(">")
    return ResultAccuracy(mode, bits["atol"], bits["rtol"], ulps)


def _read_accuracy_mode(p: OpParser) -> EnumAttribute:
    p.expect("<")
    mode = read_enum(p, ResultAccuracyMode)
    p.expect(">")
    return mode


# Meshes


def _read_mesh(p: OpParser) -> Mesh:
    def read_axis() -> MeshAxis:
        if p.peek("<"):
            return _read_record(p, MeshAxis)
        place = p.here()
        axis = p.attribute()
        if not isinstance(axis, MeshAxis):
            p.error("expected a mesh axis", place)
        return axis

    p.expect("<")
    p.expect_keyword("axes")
    p.expect("=")
    axes = tuple(p.comma_separated("[", "]", read_axis))
    ids = None
    if p.accept(","):
        p.expect_keyword("device_ids")
        p.expect("=")
        ids = p.attribute()
    p.expect(">")
    return Mesh(axes, ids)


def _read_sub_axis(p: OpParser) -> SubAxisInfo:
    p.expect("(")
    pre_size = p.integer()
    p.expect(")")
    return SubAxisInfo(pre_size, p.integer())


def _read_axis_ref(p: OpParser) -> AxisRef:
    readers: dict[str, Reader] = {"name": _READERS["str"], "sub_axis_info": _read_sub_axis}
    found = _read_required(p, readers, optional=("sub_axis_info",))
    return AxisRef(found["name"], found.get("sub_axis_info"))


def _register() -> None:
    def add(name: str, read: Reader) -> None:
        def parse(p: OpParser, _: str) -> Attribute:
            attribute: Attribute = read(p)
            return attribute

        attribute_parsers[name] = parse

    def add_enum(kind: type[EnumAttribute], dialect: str) -> None:
        add(f"{dialect}.{kind.mnemonic}", lambda p: read_enum(p, kind, dialect))

    def add_record(kind: type[_R], read: Callable[[OpParser, type[_R]], _R]) -> None:
        add(f"{kind.dialect}.{kind.mnemonic}", lambda p: read(p, kind))

    for kind in ENUMERATIONS:
        add_enum(kind, "stablehlo")
    for kind in CHLO_ENUMERATIONS:
        add_enum(kind, "chlo")
    for struct in STRUCTURES:
        add_record(struct, _read_struct)
    for record in (ChannelHandle, MeshAxis, ReplicaGroupMeshAxes):
        add_record(record, _read_record)
    for ordered in (DotAlgorithm, OutputOperandAlias):
        add_record(ordered, _read_in_order)
    add("stablehlo.axis_ref", _read_axis_ref)
    add("stablehlo.bounds", _read_bounds)
    add("stablehlo.conv", _read_conv)
    add("stablehlo.mesh", _read_mesh)
    add("stablehlo.result_accuracy", _read_accuracy)
    add("stablehlo.result_accuracy_mode", _read_accuracy_mode)
    add("stablehlo.sub_axis_info", _read_sub_axis)
    add("stablehlo.type_extensions", _read_type_extensions)


_register()
