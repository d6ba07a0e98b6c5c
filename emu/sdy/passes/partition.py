"""The partition pipeline: from a front end's module to the program of one device."""

from __future__ import annotations

from collections.abc import Sequence

from emu.sdy.passes.base import Pass, Pipeline
from emu.sdy.passes.chlo.legalization import ChloLegalizeToStablehlo
from emu.sdy.passes.export.barriers import ResolvePropagationBarriers
from emu.sdy.passes.export.collectives import ReshardToCollectives
from emu.sdy.passes.export.local.conversion import ConvertGlobalToLocal
from emu.sdy.passes.export.padding import PadForDivisibility
from emu.sdy.passes.export.permutation.resolution import ResolvePermutationFactors
from emu.sdy.passes.export.reshards.insertion import InsertExplicitReshards
from emu.sdy.passes.export.single_device import ResolveSingleDeviceSharding
from emu.sdy.passes.export.unevenness import ResolveUnevenShards
from emu.sdy.passes.export.unknown import ReplicateUnknownCalls
from emu.sdy.passes.generic import Canonicalize
from emu.sdy.passes.import_.unify_meshes import UnifyMeshes
from emu.sdy.passes.pipelines import PropagationPipeline


class PartitionPipeline(Pipeline, name="emu-partition-pipeline"):
    """Propagate, make communication explicit, and localize to the program of one device.

    The order matters. CHLO is lowered first, since shardings do not propagate through
    it; nor do they from mesh to mesh, so that meshes of other axes become one. Permutation factors are resolved by reshards, so that comes before reshards
    become collectives. Padding comes before the collectives are simplified, which could
    not be padded then. Shardy has these passes but those named ``emu-…``, and no
    pipeline of them.

    Attributes:
        conservative_propagation: Whether to avoid sub-axes and uneven shards.
        enable_halo_exchange: Whether to reverse shard by shard where possible.
        fix_sub_axis_offsets: Whether to compute the offsets of shards along sub-axes
            correctly; False gives the results of Shardy before July 2026.
    """

    conservative_propagation: bool = False
    enable_halo_exchange: bool = True
    fix_sub_axis_offsets: bool = True

    def passes(self) -> Sequence[Pass]:
        """Return the passes, in order."""
        return [
            ChloLegalizeToStablehlo(),
            UnifyMeshes(),
            PropagationPipeline(conservative_propagation=self.conservative_propagation),
            ResolvePropagationBarriers(),
            InsertExplicitReshards(enable_full_version=True),
            ReplicateUnknownCalls(),
            ResolvePermutationFactors(enable_halo_exchange=self.enable_halo_exchange),
            ResolveUnevenShards(),
            ReshardToCollectives(),
            PadForDivisibility(),
            ResolveSingleDeviceSharding(),
            Canonicalize(),
            ConvertGlobalToLocal(fix_sub_axis_offsets=self.fix_sub_axis_offsets),
        ]
