"""The import pipeline, which runs before propagation."""

from __future__ import annotations

from collections.abc import Sequence

from emu.sdy.passes.base import Pass, Pipeline
from emu.sdy.passes.generic import SymbolDce
from emu.sdy.passes.import_.calls import PropagateShardingFromFuncToCall
from emu.sdy.passes.import_.constants import ConstantOrScalarSplitter
from emu.sdy.passes.import_.constraints import ApplyShardingConstraints
from emu.sdy.passes.import_.data_flow_edges import AddDataFlowEdges
from emu.sdy.passes.import_.gather_scatter import ExplicitGatherScatterBatching
from emu.sdy.passes.import_.manual_axes import ManualAxesCleanup
from emu.sdy.passes.import_.meshes import LiftInlinedMeshes, RemoveSizeOneAxes
from emu.sdy.passes.import_.sharding_groups import ShardingGroupImport
from emu.sdy.passes.save_module import SaveModule


class ImportPipeline(Pipeline, name="sdy-import-pipeline"):
    """Prepare a module for propagation.

    Attributes:
        dedup_functions_fully: Whether to apply constraints and import sharding
            groups as well; otherwise the propagation pipeline does it later, when
            calls have become named computations.
    """

    dedup_functions_fully: bool = False

    def passes(self) -> Sequence[Pass]:
        """Return the passes, in order."""
        return import_passes(dedup_functions_fully=self.dedup_functions_fully)


def import_passes(
    *,
    dedup_functions_fully: bool = False,
    enable_explicit_gather_scatter_batching: bool = False,
    debug_sharding_origins: bool = False,
    debug_propagation_edge_sharding: bool = False,
    dump_directory: str = "",
    dump_index: int = 0,
) -> list[Pass]:
    """Return the passes of the import pipeline, with the options of propagation."""
    passes: list[Pass] = [
        SymbolDce(),
        LiftInlinedMeshes(),
        RemoveSizeOneAxes(),
        PropagateShardingFromFuncToCall(),
        ConstantOrScalarSplitter(),
    ]
    if enable_explicit_gather_scatter_batching:
        passes.append(ExplicitGatherScatterBatching())
    passes += [
        SymbolDce(),
        ManualAxesCleanup(),
        SaveModule(dump_directory, "before_propagation", dump_index),
        AddDataFlowEdges(),
    ]
    if dedup_functions_fully:
        passes.append(
            ApplyShardingConstraints(debug_sharding_origins, debug_propagation_edge_sharding)
        )
        passes.append(ShardingGroupImport())
    return passes
