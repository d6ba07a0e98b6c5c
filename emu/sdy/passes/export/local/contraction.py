"""Conversion of dot products and convolutions.

A device with a part of the contracted dimension computes a partial sum. That is
correct only if a reduction along the same axes follows at once, and if padding
contributes nothing to the sum; earlier passes ensure both, and both are checked.
"""

from __future__ import annotations

from collections.abc import Iterable

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.ir import Operation, Value
from emu.sdy.dialect.attributes import AxisRef, AxisRefList, ListOfAxisRefLists, Mesh
from emu.sdy.dialect.axes import sort_and_merge, total_size
from emu.sdy.passes.builder import Builder, integer_attribute
from emu.sdy.passes.export.local.localization import (
    Axes,
    CannotLocalize,
    Localization,
    axes_of,
    is_replicated,
)
from emu.sdy.passes.export.local.sums import is_zero
from emu.sdy.rules.reading import attribute, integer
from emu.stablehlo.attributes import ConvDimensionNumbers, DotDimensionNumbers


def check_all_reduce(
    op: Operation, axes: Iterable[AxisRef], mesh: Mesh, what: str, dims: str
) -> None:
    """Raise CannotLocalize unless the only user of a result reduces it along ``axes``.

    The user is an all-reduce or the reduce-scatter that canonicalization makes of it
    and a slice after it (where Shardy ends with a failed check), with the axes in any
    order.

    Args:
        op: The operation with partial results.
        axes: Axes along which they are partial.
        mesh: The mesh of the axes.
        what: Name of the operation in the message.
        dims: Description of the sharded dimensions in the message.
    """
    user = _only_user(op)
    # A slice of the partial results stands before the reduction if the result was resharded.
    while user is not None and user.name == "sdy.all_slice":
        user = _only_user(user)
    summed: Iterable[AxisRef] = ()
    if user is not None and user.name == "sdy.all_reduce":
        summed = attribute(user, "reduction_axes", AxisRefList).axes
    elif user is not None and user.name == "sdy.reduce_scatter":
        lists = attribute(user, "reduce_scatter_axes", ListOfAxisRefLists).lists
        summed = [axis for each in lists for axis in each]
    else:
        raise CannotLocalize(
            f"Expected {what} to have one user and the user is an sdy.all_reduce.", illegal=False
        )
    if sort_and_merge(summed, mesh) != sort_and_merge(axes, mesh):
        raise CannotLocalize(
            f"The axes of the sdy.all_reduce should match the {dims}.", illegal=False
        )


def _only_user(op: Operation) -> Operation | None:
    result = op.results[0]
    return result.users[0] if result.has_one_use else None


def localize_dot(state: Localization, op: Operation) -> None:
    """Convert a dot, which contracts the last dimension of the left side."""
    last = state.global_type(op.operands[0]).rank - 1
    _check_contraction(state, op, (last,), "dot", "sharded contracting dimension of the dot")
    state.localize(op)


def localize_dot_general(state: Localization, op: Operation) -> None:
    """Convert a dot_general, which contracts any dimensions."""
    numbers = attribute(op, "dot_dimension_numbers", DotDimensionNumbers)
    _check_contraction(
        state,
        op,
        numbers.lhs_contracting_dimensions,
        "dot_general",
        "sharded contracting dimensions of the dot_general",
    )
    state.localize(op)


def _check_contraction(
    state: Localization, op: Operation, dims: Iterable[int], name: str, described: str
) -> None:
    left = op.operands[0]
    sharding = state.sharding(left)
    if is_replicated(sharding):
        return
    mesh = state.mesh(sharding, of=".")
    axes = [axis for dim in dims for axis in axes_of(sharding, dim)]
    if not axes:
        return
    # Each device contracts its shard only, so padding and the missing sum would both give
    # wrong numbers silently.
    if not all(_adds_nothing(value) for value in op.operands):
        raise CannotLocalize(
            f"Padding value must be zero for sharded contracting {name}.", illegal=False
        )
    check_all_reduce(op, axes, mesh, f"sharded contracting {name}", described)


def _adds_nothing(value: Value) -> bool:
    """Return whether a value has no padding, or padding of constant zeros."""
    pad = value.defining_op
    if pad is None or pad.name != "stablehlo.pad":
        return True
    source = pad.operands[1].defining_op
    constant = source.properties.get("value") if source is not None else None
    if source is None or source.name not in {"stablehlo.constant", "sdy.constant"}:
        return False
    return isinstance(constant, DenseElementsAttr) and is_zero(constant)


def localize_convolution(state: Localization, op: Operation) -> None:
    """Convert a convolution: only sharded group counts change, besides the types."""
    shardings = [state.sharding(value) for value in (*op.operands, *op.results)]
    if all(map(is_replicated, shardings)):
        state.localize(op)
        return
    mesh = state.mesh(*shardings)
    left, kernel, _ = shardings
    numbers = attribute(op, "dimension_numbers", ConvDimensionNumbers)
    summed = (numbers.kernel_input_feature_dimension, *numbers.kernel_spatial_dimensions)
    axes = dict.fromkeys(axis for dim in summed for axis in axes_of(kernel, dim))
    if axes:
        check_all_reduce(
            op,
            axes,
            mesh,
            "sharded contracting convolution",
            "sharded reduction dimensions of the convolution",
        )
    features = axes_of(kernel, numbers.kernel_output_feature_dimension)
    batch = axes_of(left, numbers.input_batch_dimension)
    properties: dict[str, Attribute] = {
        **op.properties,
        "feature_group_count": _local_groups(op, "feature_group_count", features, mesh),
        "batch_group_count": _local_groups(op, "batch_group_count", batch, mesh),
    }
    new = Builder.before(op).op(
        "convolution", state.operands(op), [state.local_type(op.result)], properties
    )
    state.replace(op, new.results)


def _local_groups(op: Operation, name: str, axes: Axes, mesh: Mesh) -> Attribute:
    count = integer(op, name)
    if count > 1 and axes:
        divisor = min(count, total_size(axes, mesh))
        if count % divisor:
            raise CannotLocalize(
                "global group count is not divisible by total axes size", illegal=False
            )
        count //= divisor
    return integer_attribute(count)
