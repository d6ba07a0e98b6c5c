"""The propagation pipeline: import, propagation and export in one."""

from __future__ import annotations

from collections.abc import Sequence

from emu.sdy.passes.base import Pass, Pipeline
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


class PropagationPipeline(Pipeline, name="sdy-propagation-pipeline"):
    """Complete the shardings of a front end's module.

    Attributes:
        keep_sharding_rules: Whether to leave the sharding rules on the operations.
        dump_directory: Directory for modules saved between passes; none if empty.
        conservative_propagation: Whether to avoid sub-axes and uneven shards.
        debug_sharding_origins: Whether to record the origins of axes in the saved
            modules.
        debug_propagation_edge_sharding: Whether to record the steps of propagation
            in the saved modules.
        avoid_export_for_partitioning: Whether to leave the module fit for another
            propagation: keep groups and constraints, insert no reshards.
        enable_insert_explicit_collectives: Whether to insert all reshards, and
            convert them to collectives.
        remove_all_gather_reduce_scatter_for_cmv1: Whether to leave out collectives
            that a compiler inserts with its collective matmul.
        dedup_functions_fully: Whether to propagate between calls and functions, so
            that each function stays one; otherwise each call gets a copy, and
            copies with equal shardings are merged again.
        update_non_divisible_input_output_shardings: Whether to make shardings of
            inputs and outputs even and along whole axes.
        enable_per_instruction_partitioning: Whether to partition single operations in
            place of inserting collectives.
        per_instruction_partitioning_filter: Which operations; see
            ``sdy-per-instruction-partitioning``.
        replica_count: Number of replicas; if greater than 1, devices are replicas.
        partition_count: Number of partitions; if greater than 1, devices are partitions.
        inline_meshes: Whether shardings contain their meshes in the end, instead of
            naming them.
        enable_explicit_gather_scatter_batching: Whether to detect batching
            dimensions of gathers and scatters that are written as indices.
    """

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
    enable_per_instruction_partitioning: bool = False
    per_instruction_partitioning_filter: str = ""
    replica_count: int = 1
    partition_count: int = 1
    inline_meshes: bool = False
    enable_explicit_gather_scatter_batching: bool = False

    def passes(self) -> Sequence[Pass]:
        """Return the passes, in order."""
        return [
            *self._import(),
            PreOrderFuncs(),
            UserPriorityPropagate(
                # The export pipeline inserts reshards by these rules, and drops them.
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
                enable_per_instruction_partitioning=self.enable_per_instruction_partitioning,
                per_instruction_partitioning_filter=self.per_instruction_partitioning_filter,
                replica_count=self.replica_count,
                partition_count=self.partition_count,
                inline_meshes=self.inline_meshes,
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
        # Without edges between calls and functions, every call is inlined as a named
        # computation; constraints and groups are imported after that, on the copies.
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
