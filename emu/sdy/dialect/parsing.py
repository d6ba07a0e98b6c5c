"""Parser of the dialect's attributes.

Each function reads the stripped text of one kind of attribute (see
``emu.sdy.dialect.attributes``): the text after its mnemonic, or its whole text
inside another attribute.

MLIR reports an error in a text once per enclosing attribute: first the error
itself, then that a parameter of the attribute could not be parsed. This parser
does the same: an error collects the other messages as it propagates outwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from emu.mlir.attributes import StringAttr, SymbolRefAttr
from emu.mlir.diagnostics import Diagnostic, MlirError, Severity, located
from emu.mlir.literals import integer_of
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    DimensionSharding,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    MeshAxis,
    ReductionOp,
    SdyAttribute,
    SubAxisInfo,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.edge_attributes import (
    AxisToPropagationDetails,
    EdgeNodeType,
    EdgeValueRef,
    PropagationEdges,
    PropagationOneStep,
)
from emu.sdy.dialect.wellformed import mesh_axis_problem, mesh_problem, propagation_edges_problem

if TYPE_CHECKING:
    from emu.mlir.assembly import OpParser

_T = TypeVar("_T")
_A = TypeVar("_A", bound=SdyAttribute)
INT64_MAX = 2**63 - 1


def _add_context(p: OpParser, error: MlirError, message: str) -> None:
    """Add the message that MLIR emits for an enclosing attribute."""
    error.diagnostics.append(Diagnostic(Severity.ERROR, located(p.here()), p.in_operation(message)))


def _parameter(attribute: str, name: str, type_: str) -> str:
    return f"failed to parse Sdy_{attribute} parameter '{name}' which is to be a `{type_}`"


def list_of(attribute: str, name: str, element: str) -> str:
    """Return the message about a parameter that is a list."""
    return _parameter(attribute, name, f"::llvm::ArrayRef<{element}>")


def _field(p: OpParser, read: Callable[[OpParser], _T], message: str) -> _T:
    """Read a parameter; ``message`` is added to the error if that fails."""
    try:
        return read(p)
    except MlirError as error:
        _add_context(p, error, message)
        raise


def read_list(p: OpParser, read: Callable[[OpParser], _T], message: str) -> tuple[_T, ...]:
    """Read one or more items separated by commas."""

    def items(p: OpParser) -> tuple[_T, ...]:
        found = [read(p)]
        while p.accept(","):
            found.append(read(p))
        return tuple(found)

    return _field(p, items, message)


def _bracketed(
    p: OpParser, open_: str, close: str, read: Callable[[OpParser], _T], message: str
) -> tuple[_T, ...]:
    """Read any number of items between brackets."""
    p.expect(open_)
    if p.accept(close):
        return ()
    items = read_list(p, read, message)
    p.expect(close)
    return items


def stripped_or_full(kind: type[_A], read: Callable[[OpParser], _A]) -> Callable[[OpParser], _A]:
    """Return a reader that also accepts the form with ``#sdy``."""

    def read_either(p: OpParser) -> _A:
        if not p.peek_attribute():
            return read(p)
        place = p.here()
        found = p.attribute()
        if not isinstance(found, kind):
            p.error("invalid kind of attribute specified", place)
        return found

    return read_either


ATTRIBUTE_READERS: dict[str, Callable[[OpParser], SdyAttribute]] = {}
"""Readers of stripped texts, by mnemonic; those of rules are in ``parsing_rules``."""


def _reader(
    kind: type[_A],
) -> Callable[[Callable[[OpParser], _A]], Callable[[OpParser], _A]]:
    """Register a reader of stripped texts; give its name to one that accepts both forms."""

    def register(read: Callable[[OpParser], _A]) -> Callable[[OpParser], _A]:
        ATTRIBUTE_READERS[kind.mnemonic] = read
        return stripped_or_full(kind, read)

    return register


def _integer(p: OpParser) -> int:
    return p.integer()


def _string(p: OpParser) -> str:
    return p.string()


# Meshes

_MESH_AXIS_NAME = _parameter("MeshAxis", "name", "::llvm::StringRef")
_MESH_AXIS_SIZE = _parameter("MeshAxis", "size", "int64_t")
_MESH_AXES = list_of("Mesh", "axes", "MeshAxisAttr")
_MESH_DEVICES = list_of("Mesh", "device_ids", "int64_t")


@_reader(MeshAxis)
def _mesh_axis(p: OpParser) -> MeshAxis:
    place = p.here()
    name = _field(p, _string, _MESH_AXIS_NAME)
    p.expect("=")
    axis = MeshAxis(name, _field(p, _integer, _MESH_AXIS_SIZE))
    problem = mesh_axis_problem(axis)
    if problem is not None:
        p.error(problem, place)
    return axis


@_reader(Mesh)
def parse_mesh(p: OpParser) -> Mesh:
    """Read ``<["x"=2, "y"=4], device_ids=[…]>``."""
    place = p.here()
    p.expect("<")
    axes = _bracketed(p, "[", "]", _mesh_axis, _MESH_AXES)
    devices: tuple[int, ...] = ()
    if p.accept(","):
        p.expect_keyword("device_ids")
        p.expect("=")
        p.expect("[")
        devices = read_list(p, _integer, _MESH_DEVICES)
        p.expect("]")
    p.expect(">")
    mesh = Mesh(axes, devices)
    problem = mesh_problem(mesh)
    if problem is not None:
        p.error(problem, place)
    return mesh


# Axes

_PRE_SIZE = _parameter("SubAxisInfo", "pre_size", "int64_t")
_SIZE = _parameter("SubAxisInfo", "size", "int64_t")
_AXIS_NAME = _parameter("AxisRef", "name", "::llvm::StringRef")
_SUB_AXIS = _parameter("AxisRef", "sub_axis_info", "SubAxisInfoAttr")
_MANUAL_AXES = list_of("ManualAxes", "value", "StringAttr")
_AXIS_REF_LIST = list_of("AxisRefList", "value", "AxisRefAttr")
_AXIS_LISTS = list_of("ListOfAxisRefLists", "value", "AxisRefListAttr")


@_reader(SubAxisInfo)
def _sub_axis(p: OpParser) -> SubAxisInfo:
    p.expect("(")
    pre_size = _field(p, _integer, _PRE_SIZE)
    p.expect(")")
    return SubAxisInfo(pre_size, _field(p, _integer, _SIZE))


def _read_axis_ref(p: OpParser) -> AxisRef:
    """Read ``"x"`` or ``"x":(1)2``."""
    name = _field(p, _string, _AXIS_NAME)
    if p.accept(":"):
        return AxisRef(name, _field(p, _sub_axis, _SUB_AXIS))
    return AxisRef(name)


parse_axis_ref = _reader(AxisRef)(_read_axis_ref)


@_reader(AxisRefList)
def parse_axis_ref_list(p: OpParser) -> AxisRefList:
    """Read ``{"x", "y"}``."""
    return AxisRefList(_bracketed(p, "{", "}", parse_axis_ref, _AXIS_REF_LIST))


@_reader(ListOfAxisRefLists)
def parse_axis_lists(p: OpParser) -> ListOfAxisRefLists:
    """Read ``[{"x"}, {}]``."""
    lists = _bracketed(p, "[", "]", parse_axis_ref_list, _AXIS_LISTS)
    return ListOfAxisRefLists(tuple(axes.axes for axes in lists))


def _manual_axis(p: OpParser) -> str:
    place = p.here()
    found = p.attribute()
    if not isinstance(found, StringAttr):
        p.error("invalid kind of attribute specified", place)
    return found.value


@_reader(ManualAxes)
def parse_manual_axes(p: OpParser) -> ManualAxes:
    """Read ``{"x", "y"}``."""
    return ManualAxes(_bracketed(p, "{", "}", _manual_axis, _MANUAL_AXES))


# Shardings

_DIMS = list_of("TensorSharding", "dim_shardings", "DimensionShardingAttr")
_SHARDINGS = list_of("TensorShardingPerValue", "shardings", "TensorShardingAttr")
_NO_AXIS_LIST = "failed to parse axis list which is expected to be an `ArrayRef<AxisRefAttr>`"
_REPLICATED = "failed to parse Sdy_TensorSharding parameter 'replicated_axes'"
_UNREDUCED = "failed to parse Sdy_TensorSharding parameter 'unreduced_axes'"
_NO_NAMED_LIST = "failed to parse Sdy_TensorSharding, expected valid named axis list after comma"


@_reader(DimensionSharding)
def _dimension(p: OpParser) -> DimensionSharding:
    p.expect("{")
    axes: list[AxisRef] = []
    closed = True
    while not p.accept("}"):
        if axes:
            p.expect(",")
        if p.accept("?"):
            closed = False
            p.expect("}")
            break
        axes.append(_read_axis_ref(p))
    priority = p.optional_keyword()
    return DimensionSharding(
        tuple(axes), closed, None if priority is None else _priority(p, priority)
    )


def _priority(p: OpParser, text: str) -> int:
    digits = text[1:]
    if text[0] != "p" or not (digits.isascii() and digits.isdigit()):
        p.error(f"expecting priority in format 'p<number>', got: {text}")
    if digits[0] == "0" and len(digits) > 1:
        p.error(f"priorities with leading zeros are not allowed, got: {text}")
    value = integer_of(digits)
    if value > INT64_MAX:
        p.error(f"expecting integer priority, got: {text}")
    return value


def _mesh_or_name(p: OpParser) -> str | Mesh:
    if p.accept_keyword("mesh"):
        return _field(p, parse_mesh, "failed to parse MeshAttr")
    return _field(p, _mesh_name, "expecting MeshAttr or FlatSymbolRefAttr, got: <<NULL ATTRIBUTE>>")


def _mesh_name(p: OpParser) -> str:
    place = p.here()
    found = p.attribute()
    if not isinstance(found, SymbolRefAttr) or found.nested:
        p.error("invalid kind of attribute specified", place)
    return found.root


def _named_axes(p: OpParser) -> tuple[AxisRef, ...]:
    """Read ``{"x", "y"}``."""
    p.expect("{")
    axes = read_list(p, parse_axis_ref, _NO_AXIS_LIST)
    p.expect("}")
    return axes


def _replicated(p: OpParser) -> tuple[AxisRef, ...]:
    p.expect("=")
    return _named_axes(p)


def _unreduced(p: OpParser) -> tuple[ReductionOp, tuple[AxisRef, ...]]:
    """Read ``=max{"x", "y"}``; the sign, which Shardy does not require, may be missing."""
    op = (optional_reduction_op(p) if p.accept("=") else None) or ReductionOp.SUM
    return op, _named_axes(p)


def optional_reduction_op(p: OpParser) -> ReductionOp | None:
    """Read the name of an operator, if there is one."""
    return next((op for op in ReductionOp if p.accept_keyword(op.keyword)), None)


@_reader(TensorSharding)
def parse_sharding(p: OpParser) -> TensorSharding:
    """Read ``<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced=max{"z"}>``."""
    p.expect("<")
    mesh = _mesh_or_name(p)
    p.expect(",")
    dims = _bracketed(p, "[", "]", _dimension, _DIMS)
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()
    reduction_op = ReductionOp.SUM
    while p.accept(","):
        if not replicated and p.accept_keyword("replicated"):
            replicated = _field(p, _replicated, _REPLICATED)
        elif not unreduced and p.accept_keyword("unreduced"):
            reduction_op, unreduced = _field(p, _unreduced, _UNREDUCED)
        else:
            p.error(_NO_NAMED_LIST)
    p.expect(">")
    return TensorSharding(mesh, dims, replicated, unreduced, reduction_op)


@_reader(TensorShardingPerValue)
def _per_value(p: OpParser) -> TensorShardingPerValue:
    p.expect("<")
    shardings = _bracketed(p, "[", "]", parse_sharding, _SHARDINGS)
    p.expect(">")
    return TensorShardingPerValue(shardings)


def parse_stripped_shardings(p: OpParser) -> TensorShardingPerValue:
    """Read ``[<@mesh, [{"x"}]>, …]``, the form within operations."""
    return TensorShardingPerValue(tuple(p.comma_separated("[", "]", lambda: parse_sharding(p))))


# All-to-all

_PARAM_AXES = list_of("AllToAllParamAttr", "axes", "AxisRefAttr")
_SRC_DIM = _parameter("AllToAllParamAttr", "src_dim", "int64_t")
_TGT_DIM = _parameter("AllToAllParamAttr", "tgt_dim", "int64_t")
_PARAMS = list_of("AllToAllParamList", "value", "AllToAllParamAttr")


@_reader(AllToAllParam)
def _param(p: OpParser) -> AllToAllParam:
    p.expect("{")
    axes = read_list(p, parse_axis_ref, _PARAM_AXES)
    p.expect("}")
    p.expect(":")
    source = _field(p, _integer, _SRC_DIM)
    p.expect("->")
    return AllToAllParam(axes, source, _field(p, _integer, _TGT_DIM))


@_reader(AllToAllParamList)
def parse_all_to_all_params(p: OpParser) -> AllToAllParamList:
    """Read ``[{"b"}: 0->2, {"c"}: 1->3]``."""
    return AllToAllParamList(_bracketed(p, "[", "]", _param, _PARAMS))


# Edges of propagation

_EDGE_TYPE = _parameter("EdgeValueRef", "type", "::mlir::sdy::EdgeNodeType")
_EDGE_INDEX = _parameter("EdgeValueRef", "index", "int64_t")
_DETAILS_AXIS = _parameter("AxisToPropagationDetails", "axis_name", "::mlir::sdy::AxisRefAttr")
_DETAILS_SOURCE = _parameter("AxisToPropagationDetails", "source", "::mlir::sdy::EdgeValueRefAttr")
_DETAILS_TARGETS = list_of("AxisToPropagationDetails", "targets", "EdgeValueRefAttr")
_STEP_INDEX = _parameter("PropagationOneStep", "step_index", "int64_t")
_STEP_ENTRIES = list_of("PropagationOneStep", "axis_entries", "AxisToPropagationDetailsAttr")
_EDGES = list_of("PropagationEdges", "value", "PropagationOneStepAttr")


def _edge_type(p: OpParser) -> EdgeNodeType:
    place = p.here()
    word = p.optional_keyword()
    if word is None:
        word = p.optional_string()
    if word is None:
        p.error("expected valid keyword or string", place)
    for type_ in EdgeNodeType:
        if type_.value == word:
            return type_
    p.error("expected ::mlir::sdy::EdgeNodeType to be one of: operand, result", place)


@_reader(EdgeValueRef)
def _edge_value(p: OpParser) -> EdgeValueRef:
    type_ = _field(p, _edge_type, _EDGE_TYPE)
    p.expect("-")
    return EdgeValueRef(type_, _field(p, _integer, _EDGE_INDEX))


@_reader(AxisToPropagationDetails)
def _details(p: OpParser) -> AxisToPropagationDetails:
    p.expect("{")
    axis = _field(p, parse_axis_ref, _DETAILS_AXIS)
    p.expect("=")
    source = _field(p, _edge_value, _DETAILS_SOURCE)
    p.expect("->")
    p.expect("[")
    targets = read_list(p, _edge_value, _DETAILS_TARGETS)
    p.expect("]")
    p.expect("}")
    return AxisToPropagationDetails(axis, source, targets)


@_reader(PropagationOneStep)
def _step(p: OpParser) -> PropagationOneStep:
    p.expect("{")
    p.expect_keyword("step")
    p.expect("-")
    index = _field(p, _integer, _STEP_INDEX)
    p.expect("=")
    p.expect("[")
    entries = read_list(p, _details, _STEP_ENTRIES)
    p.expect("]")
    p.expect("}")
    return PropagationOneStep(index, entries)


@_reader(PropagationEdges)
def _edges(p: OpParser) -> PropagationEdges:
    place = p.here()
    p.expect("<")
    p.expect("[")
    steps = read_list(p, _step, _EDGES)
    p.expect("]")
    p.expect(">")
    edges = PropagationEdges(steps)
    problem = propagation_edges_problem(edges)
    if problem is not None:
        p.error(problem, place)
    return edges
