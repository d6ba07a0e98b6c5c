"""The propagation pipeline: import, propagation and export in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from emu.sdy.passes.base import Pass, Pipeline, register
from emu.sdy.passes.export.boundaries import PropagateToFuncResults
from emu.sdy.passes.export.calls import (
    ExportNamedComputations,
    InsertFuncCallReshards,
    UnflattenCallGraph,
)
from emu.sdy.passes.export.data_flow import SinkFuncDataFlowEdges
from emu.sdy.passes.export.pipeline import ExportPipeline
from emu.sdy.passes.generic import SymbolDce
from emu.sdy.passes.import_.calls import (
    FlattenCallGraph,
    ImportFuncCalls,
    PreOrderFuncs,
)
from emu.sdy.passes.import_.constraints import ApplyShardingConstraints
from emu.sdy.passes.import_.data_flow_edges import AddFuncDataFlowEdges
from emu.sdy.passes.import_.pipeline import import_passes
from emu.sdy.passes.import_.sharding_groups import ShardingGroupImport
from emu.sdy.passes.propagate import UserPriorityPropagate

__all__ = ["PropagationPipeline"]


@register
@dataclass(frozen=True)
class PropagationPipeline(Pipeline):
    """From a module as a front end makes it to one with all shardings.

    Attributes:
        keep_sharding_rules: Leave the sharding rules on the operations.
        dump_directory: Where modules go that are written on the way; nowhere
            if empty.
        conservative_propagation: Make no sub-axes and no uneven shards.
        debug_sharding_origins: Follow axes to where they come from, for the
            modules that are written.
        debug_propagation_edge_sharding: Follow the steps of propagation, for
            the modules that are written.
        avoid_export_for_partitioning: Leave the module fit for another
            propagation: keep groups and constraints, insert no reshards.
        enable_insert_explicit_collectives: Insert all reshards, and make them
            collectives.
        remove_all_gather_reduce_scatter_for_cmv1: Then leave out those that a
            compiler puts in with its collective matmul.
        dedup_functions_fully: Propagate between calls and functions, so that
            each function stays one; otherwise each call gets a copy, and
            copies that ended up equal become one again.
        update_non_divisible_input_output_shardings: Cut inputs and outputs
            evenly and along whole axes.
        enable_explicit_gather_scatter_batching: Find batching dimensions of
            gathers and scatters that are written as indices.
    """

    name: ClassVar[str] = "sdy-propagation-pipeline"

    keep_sharding_rules: bool = False
    dump_directory: str = ""
    conservative_propagation: bool = False
    debug_sharding_origins: bool = False
    debug_propagation_edge_sharding: bool = False
    avoid_export_for_partitioning: bool = False
    enable_insert_explicit_collectives: bool = False
    remove_all_gather_reduce_scatter_for_cmv1: bool = False
    dedup_functions_fully: bool = False
    update_non_divisible_input_output_shardings: bool = True
    enable_explicit_gather_scatter_batching: bool = False

    def passes(self) -> Sequence[Pass]:
        """Return the passes, in order."""
        return [
            *self._import(),
            PreOrderFuncs(),
            UserPriorityPropagate(
                keep_sharding_rules=True,
                module_dump_directory=self.dump_directory,
                conservative_propagation=self.conservative_propagation,
                debug_sharding_origins=self.debug_sharding_origins,
                debug_propagation_edge_sharding=self.debug_propagation_edge_sharding,
                dump_index=2,
            ),
            *self._close_functions(),
            UnflattenCallGraph(),
            SymbolDce(),
            InsertFuncCallReshards(),
            ExportPipeline(
                dump_directory=self.dump_directory,
                avoid_export_for_partitioning=self.avoid_export_for_partitioning,
                enable_insert_explicit_collectives=self.enable_insert_explicit_collectives,
                remove_all_gather_reduce_scatter_for_cmv1=(
                    self.remove_all_gather_reduce_scatter_for_cmv1
                ),
                keep_sharding_rules=self.keep_sharding_rules,
                dump_sharding_origins=self.debug_sharding_origins,
                dump_propagation_edges=self.debug_propagation_edge_sharding,
                avoid_reshards_on_calls=self.dedup_functions_fully,
                update_non_divisible_input_output_shardings=(
                    self.update_non_divisible_input_output_shardings
                ),
                dump_index=2,
            ),
        ]

    def _import(self) -> list[Pass]:
        passes = import_passes(
            dedup_functions_fully=self.dedup_functions_fully,
            enable_explicit_gather_scatter_batching=self.enable_explicit_gather_scatter_batching,
            debug_sharding_origins=self.debug_sharding_origins,
            debug_propagation_edge_sharding=self.debug_propagation_edge_sharding,
            dump_directory=self.dump_directory,
            dump_index=1,
        )
        if self.dedup_functions_fully:
            return [*passes, AddFuncDataFlowEdges()]
        return [
            *passes,
            FlattenCallGraph(),
            SymbolDce(),
            ImportFuncCalls(),
            SymbolDce(),
            ApplyShardingConstraints(
                self.debug_sharding_origins, self.debug_propagation_edge_sharding
            ),
            ShardingGroupImport(),
        ]

    def _close_functions(self) -> list[Pass]:
        if self.dedup_functions_fully:
            return [PropagateToFuncResults(), SinkFuncDataFlowEdges()]
        return [ExportNamedComputations(), PropagateToFuncResults()]
