"""Import passes, which prepare a module for propagation.

Internal: names may change in any release.
"""

from emu.sdy.passes.import_.calls import (
    FlattenCallGraph,
    ImportFuncCalls,
    PreOrderFuncs,
    PropagateShardingFromFuncToCall,
)
from emu.sdy.passes.import_.constants import ConstantOrScalarSplitter
from emu.sdy.passes.import_.constraints import ApplyShardingConstraints
from emu.sdy.passes.import_.data_flow_edges import AddDataFlowEdges, AddFuncDataFlowEdges
from emu.sdy.passes.import_.gather_scatter import ExplicitGatherScatterBatching
from emu.sdy.passes.import_.manual_axes import ManualAxesCleanup
from emu.sdy.passes.import_.meshes import InlineMeshes, LiftInlinedMeshes, RemoveSizeOneAxes
from emu.sdy.passes.import_.pipeline import ImportPipeline
from emu.sdy.passes.import_.sharding_groups import ShardingGroupImport

__all__ = [
    "AddDataFlowEdges",
    "AddFuncDataFlowEdges",
    "ApplyShardingConstraints",
    "ConstantOrScalarSplitter",
    "ExplicitGatherScatterBatching",
    "FlattenCallGraph",
    "ImportFuncCalls",
    "ImportPipeline",
    "InlineMeshes",
    "LiftInlinedMeshes",
    "ManualAxesCleanup",
    "PreOrderFuncs",
    "PropagateShardingFromFuncToCall",
    "RemoveSizeOneAxes",
    "ShardingGroupImport",
]
