"""How the dialect's attributes are written.

An attribute has three forms. By itself it is ``#sdy.sharding<…>`` where its
text is one pair of angle brackets, else ``#sdy<axis_ref"x">``. Inside another
attribute of the dialect, or in an operation that knows which kind comes, name
and dialect are left out: ``<…>``, ``"x"``. That is the stripped form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from emu.mlir.literals import quoted, symbol_text
from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    AxisToPropagationDetails,
    DimensionSharding,
    DimMapping,
    EdgeValueRef,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    MeshAxis,
    OpShardingRule,
    PropagationEdges,
    PropagationOneStep,
    SdyAttribute,
    SubAxisInfo,
    TensorMapping,
    TensorSharding,
    TensorShardingPerValue,
)

__all__ = ["attribute_text", "factor_symbol", "stripped", "stripped_list"]

_PRETTY = re.compile(r"[A-Za-z][A-Za-z0-9_.]*(?:<.*>)?\Z", re.ASCII | re.DOTALL)
_SYMBOLS = "ijklmnopqrstuvwxyz"


def factor_symbol(factor: int) -> str:
    """The name of a factor: ``i`` to ``z``, then ``z_1``, ``z_2`` …"""
    last = len(_SYMBOLS) - 1
    return _SYMBOLS[factor] if factor <= last else f"z_{factor - last}"


def stripped_list(attributes: Iterable[SdyAttribute]) -> str:
    """Stripped attributes with commas between."""
    return ", ".join(map(stripped, attributes))


def _mesh_axis(axis: MeshAxis) -> str:
    return f"{quoted(axis.name)}={axis.size}"


def _mesh(mesh: Mesh) -> str:
    axes = ", ".join(map(_mesh_axis, mesh.axes))
    if not mesh.device_ids:
        return f"<[{axes}]>"
    return f"<[{axes}], device_ids=[{', '.join(map(str, mesh.device_ids))}]>"


def _sub_axis(info: SubAxisInfo) -> str:
    return f"({info.pre_size}){info.size}"


def _axis_ref(axis: AxisRef) -> str:
    name = quoted(axis.name)
    return name if axis.sub_axis is None else f"{name}:{_sub_axis(axis.sub_axis)}"


def _axes(axes: Iterable[AxisRef]) -> str:
    return f"{{{', '.join(map(_axis_ref, axes))}}}"


def _dimension(dim: DimensionSharding) -> str:
    items = [_axis_ref(axis) for axis in dim.axes]
    if not dim.is_closed:
        items.append("?")
    text = f"{{{', '.join(items)}}}"
    return text if dim.priority is None else f"{text}p{dim.priority}"


def _sharding(sharding: TensorSharding) -> str:
    mesh = sharding.mesh
    place = f"mesh{_mesh(mesh)}" if isinstance(mesh, Mesh) else symbol_text(mesh)
    text = f"<{place}, [{', '.join(map(_dimension, sharding.dims))}]"
    if sharding.replicated_axes:
        text += f", replicated={_axes(sharding.replicated_axes)}"
    if sharding.unreduced_axes:
        text += f", unreduced={_axes(sharding.unreduced_axes)}"
    return text + ">"


def _per_value(shardings: TensorShardingPerValue) -> str:
    return f"<[{', '.join(map(_sharding, shardings.shardings))}]>"


def _dim_mapping(dim: DimMapping) -> str:
    return "".join(map(factor_symbol, dim.factors))


def _tensor_mapping(tensor: TensorMapping) -> str:
    # What has no text at all is written with its name.
    dims = (_dim_mapping(dim) or "#sdy.dim_mapping" for dim in tensor.dims)
    return f"[{', '.join(dims)}]"


def _factors(name: str, factors: Sequence[int]) -> str:
    return f" {name}={{{', '.join(map(factor_symbol, factors))}}}" if factors else ""


def _rule(rule: OpShardingRule) -> str:
    operands = ", ".join(map(_tensor_mapping, rule.operands))
    results = ", ".join(map(_tensor_mapping, rule.results))
    text = f"<({operands})->({results})"
    if rule.factor_sizes:
        sizes = (f"{factor_symbol(i)}={size}" for i, size in enumerate(rule.factor_sizes))
        text += f" {{{', '.join(sizes)}}}"
    text += _factors("reduction", rule.reduction)
    text += _factors("need_replication", rule.need_replication)
    text += _factors("permutation", rule.permutation)
    text += _factors("blocked_propagation", rule.blocked_propagation)
    return text + (", custom>" if rule.is_custom else ">")


def _manual_axes(axes: ManualAxes) -> str:
    return f"{{{', '.join(map(quoted, axes.axes))}}}"


def _axis_lists(lists: ListOfAxisRefLists) -> str:
    return f"[{', '.join(map(_axes, lists.lists))}]"


def _param(param: AllToAllParam) -> str:
    return f"{_axes(param.axes)}: {param.src_dim}->{param.tgt_dim}"


def _edge_value(value: EdgeValueRef) -> str:
    return f"{value.type.value}-{value.index}"


def _details(details: AxisToPropagationDetails) -> str:
    targets = ", ".join(map(_edge_value, details.targets))
    return f"{{{_axis_ref(details.axis)} = {_edge_value(details.source)} -> [{targets}]}}"


def _step(step: PropagationOneStep) -> str:
    return f"{{step-{step.step_index} = [{', '.join(map(_details, step.axis_entries))}]}}"


# Name and stripped text of each kind of attribute.
_WRITERS: dict[type[SdyAttribute], tuple[str, Callable[..., str]]] = {
    AllToAllParam: ("all_to_all_param", _param),
    AllToAllParamList: ("all_to_all_param_list", lambda a: f"[{stripped_list(a.params)}]"),
    AxisRef: ("axis_ref", _axis_ref),
    AxisRefList: ("axis_ref_list", lambda a: _axes(a.axes)),
    AxisToPropagationDetails: ("axis_to_propagation_details", _details),
    DimMapping: ("dim_mapping", _dim_mapping),
    DimensionSharding: ("dimension_sharding", _dimension),
    EdgeValueRef: ("edge_value_ref", _edge_value),
    ListOfAxisRefLists: ("list_of_axis_ref_lists", _axis_lists),
    ManualAxes: ("manual_axes", _manual_axes),
    Mesh: ("mesh", _mesh),
    MeshAxis: ("mesh_axis", _mesh_axis),
    OpShardingRule: ("op_sharding_rule", _rule),
    PropagationEdges: ("propagation_edges", lambda a: f"<[{stripped_list(a.steps)}]>"),
    PropagationOneStep: ("propagation_one_step", _step),
    SubAxisInfo: ("sub_axis_info", _sub_axis),
    TensorMapping: ("tensor_mapping", _tensor_mapping),
    TensorSharding: ("sharding", _sharding),
    TensorShardingPerValue: ("sharding_per_value", _per_value),
}


def stripped(attribute: SdyAttribute) -> str:
    """The text without ``#sdy`` and the attribute's name."""
    return _WRITERS[type(attribute)][1](attribute)


def attribute_text(attribute: SdyAttribute) -> str:
    """The text of the attribute by itself."""
    name, write = _WRITERS[type(attribute)]
    body = name + write(attribute)
    return f"#sdy.{body}" if _PRETTY.match(body) else f"#sdy<{body}>"
