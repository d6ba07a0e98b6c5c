"""The export pipeline, which runs after propagation."""

from __future__ import annotations

from collections.abc import Sequence

from emu.sdy.passes.base import Pass, Pipeline
from emu.sdy.passes.export.boundaries import (
    RemoveSubAxesInInputOutputShardings,
    UpdateNonDivisibleInputOutputShardings,
)
from emu.sdy.passes.export.cleanup import (
    CloseShardings,
    DropShardingRules,
    RemovePropagationDebugInfo,
    RemoveShardingGroups,
)
from emu.sdy.passes.export.collectives import ReshardToCollectives
from emu.sdy.passes.export.constants import ConstantOrScalarMerger
from emu.sdy.passes.export.constraints import ShardingConstraintToReshard
from emu.sdy.passes.export.data_flow import SinkDataFlowEdges
from emu.sdy.passes.export.matmul import RemoveAllGatherReduceScatterForCMV1
from emu.sdy.passes.export.per_instruction import PerInstructionPartitioning
from emu.sdy.passes.export.reshards.insertion import InsertExplicitReshards
from emu.sdy.passes.export.unreduced_axes import VerifyUnreducedAxes
from emu.sdy.passes.generic import Canonicalize
from emu.sdy.passes.inline_meshes import InlineMeshes
from emu.sdy.passes.save_module import SaveModule


class ExportPipeline(Pipeline, name="sdy-export-pipeline"):
    """Prepare a module with propagated shardings for a compiler.

    Attributes:
        dump_directory: Directory for modules saved between passes; none if empty.
        avoid_export_for_partitioning: Whether to leave the module fit for another
            propagation: keep groups and constraints, insert no reshards.
        enable_insert_explicit_collectives: Whether to insert all reshards, and
            convert them to collectives.
        remove_all_gather_reduce_scatter_for_cmv1: Whether to leave out collectives
            that a compiler inserts with its collective matmul.
        keep_sharding_rules: Whether to leave the sharding rules on the operations.
        dump_sharding_origins: Whether to keep origins of shardings in the saved
            modules.
        dump_propagation_edges: Whether to keep the steps of propagation in the
            saved modules.
        avoid_reshards_on_calls: Ignored, as in Shardy, which accepts the option too.
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
        dump_index: Number that the names of saved modules begin with.
    """

    dump_directory: str = ""
    avoid_export_for_partitioning: bool = False
    enable_insert_explicit_collectives: bool = False
    remove_all_gather_reduce_scatter_for_cmv1: bool = False
    keep_sharding_rules: bool = False
    dump_sharding_origins: bool = False
    dump_propagation_edges: bool = False
    avoid_reshards_on_calls: bool = False
    update_non_divisible_input_output_shardings: bool = True
    enable_per_instruction_partitioning: bool = False
    per_instruction_partitioning_filter: str = ""
    replica_count: int = 1
    partition_count: int = 1
    inline_meshes: bool = True
    dump_index: int = 0

    def passes(self) -> Sequence[Pass]:
        """Return the passes, in order."""
        passes: list[Pass] = [
            ConstantOrScalarMerger(),
            SinkDataFlowEdges(self.dump_sharding_origins, self.dump_propagation_edges),
        ]
        if not self.avoid_export_for_partitioning:
            passes += [RemoveShardingGroups(), ShardingConstraintToReshard()]
        if self.update_non_divisible_input_output_shardings:
            passes += [
                UpdateNonDivisibleInputOutputShardings(),
                RemoveSubAxesInInputOutputShardings(),
            ]
        # Saved modules still have the debug attributes, which are removed at the end.
        passes += [CloseShardings(), self._save("after_propagation", 0)]
        if not self.avoid_export_for_partitioning:
            passes += self._partitioner()
        if self.dump_propagation_edges or self.dump_sharding_origins:
            passes.append(RemovePropagationDebugInfo())
        if not self.keep_sharding_rules:
            passes.append(DropShardingRules())
        if self.inline_meshes and not self.avoid_export_for_partitioning:
            passes.append(InlineMeshes())
        return passes

    def _partitioner(self) -> list[Pass]:
        # Not top-down, as MLIR's canonicalizer in a pipeline that a program builds.
        collectives = Canonicalize(top_down=False, enable_patterns=("sdy-collective",))
        if self.enable_per_instruction_partitioning:
            return self._per_instruction(collectives)
        if not self.enable_insert_explicit_collectives:
            return [
                VerifyUnreducedAxes(),
                InsertExplicitReshards(),
                collectives,
                self._save("after_minimal_partitioner_with_global_shapes", 1),
            ]
        passes: list[Pass] = [
            VerifyUnreducedAxes(),
            InsertExplicitReshards(enable_full_version=True),
            self._save("after_explicit_reshards", 1),
            Canonicalize(top_down=False, enable_patterns=("sdy-reshard",)),
            ReshardToCollectives(),
            collectives,
        ]
        if self.remove_all_gather_reduce_scatter_for_cmv1:
            passes.append(RemoveAllGatherReduceScatterForCMV1())
        passes.append(self._save("after_partitioner_with_global_shapes", 2))
        return passes

    def _per_instruction(self, collectives: Pass) -> list[Pass]:
        full = self.enable_insert_explicit_collectives
        title = "partitioner" if full else "minimal_partitioner"
        passes: list[Pass] = [
            VerifyUnreducedAxes(),
            InsertExplicitReshards(enable_full_version=True),
            self._save("before_per_instruction_partitioning", 1),
            PerInstructionPartitioning(
                filter=self.per_instruction_partitioning_filter,
                replica_count=self.replica_count,
                partition_count=self.partition_count,
            ),
            self._save("after_per_instruction_partitioning", 2),
            collectives,
        ]
        if full and self.remove_all_gather_reduce_scatter_for_cmv1:
            passes.append(RemoveAllGatherReduceScatterForCMV1())
        return [*passes, self._save(f"after_{title}_with_global_shapes", 3)]

    def _save(self, title: str, number: int) -> SaveModule:
        return SaveModule(self.dump_directory, title, self.dump_index + number)
