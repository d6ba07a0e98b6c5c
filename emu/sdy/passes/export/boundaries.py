"""Shardings of the inputs and outputs of functions.

Users expect inputs and outputs to be sharded evenly, without padding, and some
expect them to be sharded along whole axes. Functions other than the main one get
the result shardings of the values that they return.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from emu.mlir.attributes import Attribute
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import Type
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, Mesh, TensorSharding
from emu.sdy.dialect.axes import pre_size, sub_axis
from emu.sdy.dialect.dataflow import (
    edge_owner_shardings,
    edge_owners,
    is_data_flow_op,
    keeps_edges_divisible,
    set_edge_owner_shardings,
)
from emu.sdy.dialect.functions import (
    function_type,
    main_function,
    modify_arg_attributes,
    modify_result_attributes,
)
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.dialect.names import SHARDING
from emu.sdy.dialect.shardings import get_sharding, get_shardings, set_shardings
from emu.sdy.dialect.tensors import static_shape
from emu.sdy.passes.base import ModulePass, Session


def _change_function(
    func: Operation, change: Callable[[TensorSharding, Type], TensorSharding]
) -> None:
    """Change the shardings of all arguments and results that have one."""
    type_ = function_type(func)
    for modify, types in (
        (modify_arg_attributes, type_.inputs),
        (modify_result_attributes, type_.results),
    ):

        def replace(
            entries: dict[str, Attribute], index: int, types: tuple[Type, ...] = types
        ) -> None:
            sharding = entries.get(SHARDING)
            if isinstance(sharding, TensorSharding):
                entries[SHARDING] = change(sharding, types[index])

        modify(func, replace)


class UpdateNonDivisibleInputOutputShardings(
    ModulePass, name="sdy-update-non-divisible-input-output-shardings"
):
    """Make the shardings of inputs and outputs even, so that no padding is needed.

    If the axes of a dimension do not divide its size, their longest prefix that does
    remains; its last axis may be a sub-axis. This applies to functions, to results of
    calls, and to manual computations.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Change the shardings of functions, calls, and manual computations."""
        table = SymbolTable(op)

        # A module has few different shardings of inputs, each many times.
        known: dict[tuple[TensorSharding, Type], TensorSharding] = {}

        def even(sharding: TensorSharding, type_: Type) -> TensorSharding:
            key = (sharding, type_)
            if key not in known:
                shape = static_shape(type_)
                known[key] = (
                    sharding
                    if shape is None
                    else _evenly_sharded(sharding, shape, get_mesh(table, sharding.mesh))
                )
            return known[key]

        def all_even(
            shardings: Sequence[TensorSharding], values: Sequence[Value]
        ) -> list[TensorSharding]:
            return [even(s, v.type) for s, v in zip(shardings, values, strict=True)]

        for func in op.body():
            if func.name == "func.func":
                _change_function(func, even)
        for each in op.walk():
            if each.name == "func.call":
                if shardings := get_shardings(each):
                    set_shardings(each, all_even(shardings, each.results))
            elif is_data_flow_op(each) and keeps_edges_divisible(each):
                arguments, results = edge_owners(each)
                if shardings := edge_owner_shardings(each, arguments=True):
                    set_edge_owner_shardings(each, all_even(shardings, arguments), arguments=True)
                if shardings := edge_owner_shardings(each, arguments=False):
                    set_edge_owner_shardings(each, all_even(shardings, results), arguments=False)


def _evenly_sharded(sharding: TensorSharding, shape: Sequence[int], mesh: Mesh) -> TensorSharding:
    if mesh.is_maximal:  # everything is on one device, and no dimension is listed
        return sharding
    dims = tuple(
        dim if size % dim.sharded_size(mesh) == 0 else _evenly_sharded_dim(dim, size, mesh)
        for dim, size in zip(sharding.dims, shape, strict=True)
    )
    return sharding if dims == sharding.dims else sharding.with_dims(dims)


def _evenly_sharded_dim(dim: DimensionSharding, size: int, mesh: Mesh) -> DimensionSharding:
    axes: list[AxisRef] = []
    for axis in dim.axes:
        axis_size = axis.size(mesh)
        common = math.gcd(axis_size, size)
        if common == 1:
            break
        if common < axis_size:
            axes.append(sub_axis(axis.name, pre_size(axis), common))
            break
        axes.append(axis)
        size //= common
    # A dimension that had to be changed loses its priority.
    return DimensionSharding(tuple(axes), dim.is_closed)


class RemoveSubAxesInInputOutputShardings(
    ModulePass, name="sdy-remove-sub-axes-in-input-output-shardings"
):
    """Shard open dimensions of the main function's inputs and outputs along whole axes only.

    The first sub-axis of a dimension is dropped, with all axes after it.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Change the shardings of the main function."""
        main = main_function(op, SymbolTable(op), session.diagnostics)
        _change_function(main, lambda sharding, _type: _without_sub_axes(sharding))


def _without_sub_axes(sharding: TensorSharding) -> TensorSharding:
    dims = []
    for dim in sharding.dims:
        whole = next(
            (i for i, axis in enumerate(dim.axes) if axis.sub_axis is not None), len(dim.axes)
        )
        dims.append(dim if dim.is_closed else dim.take_front(whole))
    return sharding.with_dims(dims)


class PropagateToFuncResults(ModulePass, name="sdy-propagate-to-func-results"):
    """Set the result shardings of functions except the main one from the returned values."""

    def run(self, op: Operation, session: Session) -> None:
        """Set, or remove, the shardings of results."""
        main = main_function(op, SymbolTable(op), session.diagnostics)
        for func in op.body():
            if func.name == "func.func" and func is not main and func.regions[0].blocks:
                _results_from_body(func)


def _results_from_body(func: Operation) -> None:
    terminator = func.body().terminator
    if terminator.name != "func.return":
        return
    returned = [get_sharding(value) for value in terminator.operands]

    def change(entries: dict[str, Attribute], index: int) -> None:
        sharding = returned[index]
        if sharding is None:
            entries.pop(SHARDING, None)
        else:
            entries[SHARDING] = sharding

    modify_result_attributes(func, change)
