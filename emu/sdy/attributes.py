"""Attributes of the sdy dialect, and the shardings of values, for programs that read or make them.

Attributes are frozen data; ``str()`` is their text. ``get_sharding`` and ``set_sharding`` know where
the sharding of a value is stored: on an operation, an argument or an edge.
"""

from __future__ import annotations

from emu.sdy.dialect.attributes import (
    AllToAllParam,
    AllToAllParamList,
    AxisRef,
    AxisRefList,
    DimensionSharding,
    DimMapping,
    FactorType,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    MeshAxis,
    OpShardingRule,
    PropagationDirection,
    ReductionOp,
    SdyAttribute,
    SubAxisInfo,
    TensorMapping,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.shardings import get_sharding, set_sharding

__all__ = [
    "AllToAllParam",
    "AllToAllParamList",
    "AxisRef",
    "AxisRefList",
    "DimMapping",
    "DimensionSharding",
    "FactorType",
    "ListOfAxisRefLists",
    "ManualAxes",
    "Mesh",
    "MeshAxis",
    "OpShardingRule",
    "PropagationDirection",
    "ReductionOp",
    "SdyAttribute",
    "SubAxisInfo",
    "TensorMapping",
    "TensorSharding",
    "TensorShardingPerValue",
    "get_sharding",
    "set_sharding",
]
