"""Conversion of what makes partial sums of values that devices have already.

One device of those along the axes keeps what it has, and the others have zeros. Shardy does not localize
these operations.
"""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRefList, ListOfAxisRefLists, TensorSharding
from emu.sdy.passes.builder import Builder
from emu.sdy.passes.export.local.localization import Localization
from emu.sdy.rules.reading import attribute


def localize_replicated_to_unreduced(state: Localization, op: Operation) -> None:
    """Convert to a choice: the first device along the axes has the value, and the others zeros."""
    axes = attribute(op, "axes", AxisRefList).axes
    mesh = state.mesh(attribute(op, "out_sharding", TensorSharding))
    value, type_ = state.current(op.operands[0]), state.local_tensor(op.result)
    build = Builder.before(op)
    index = state.by_device(build, state.shard_indices(op, mesh, axes))
    is_first = build.broadcast(build.compare(index, build.scalar(0), "EQ"), type_.static_shape)
    state.replace(op, [build.select(is_first, value, build.zeros(type_))])


def localize_sharded_to_unreduced(state: Localization, op: Operation) -> None:
    """Convert to an update: each device has its shard where it belongs, and zeros elsewhere."""
    axes_per_dim = attribute(op, "axes", ListOfAxisRefLists).lists
    mesh = state.mesh(attribute(op, "out_sharding", TensorSharding))
    value, type_ = state.current(op.operands[0]), state.local_tensor(op.result)
    build = Builder.before(op)
    assert isinstance(value.type, TensorType)
    starts = []
    for axes, size in zip(axes_per_dim, value.type.static_shape, strict=True):
        if axes:
            offsets = [i * size for i in state.shard_indices(op, mesh, axes)]
            starts.append(state.by_device(build, offsets))
        else:
            starts.append(build.scalar(0))
    whole = build.zeros(type_)
    update = build.op("dynamic_update_slice", [whole, value, *starts], [type_])
    state.replace(op, [update.result])
