"""``sdy-convert-global-to-local``: converts types of global tensors to those of shards."""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.mlir.registry import is_defined
from emu.mlir.text.printer import to_text
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.export.device_counts import check_device_counts
from emu.sdy.passes.export.local import (
    collectives,
    contraction,
    gather_scatter,
    movement,
    partial_sums,
    structure,
)
from emu.sdy.passes.export.local.localization import CannotLocalize, Localization, Options

_CONVERSIONS: dict[str, Callable[[Localization, Operation], object]] = {
    "func.call": structure.localize_call,
    "func.func": structure.localize_function,
    "func.return": structure.localize_return,
    "sdy.all_gather": collectives.localize_all_gather,
    "sdy.all_reduce": collectives.localize_all_reduce,
    "sdy.all_slice": collectives.localize_all_slice,
    "sdy.all_to_all": collectives.localize_all_to_all,
    "sdy.collective_permute": collectives.localize_collective_permute,
    "sdy.constant": structure.localize_constant,
    "sdy.manual_computation": structure.localize_manual_computation,
    "sdy.named_computation": structure.localize_named_computation,
    "sdy.reduce_scatter": collectives.localize_reduce_scatter,
    "sdy.replicated_to_unreduced": partial_sums.localize_replicated_to_unreduced,
    "sdy.return": Localization.localize,
    "sdy.sharded_to_unreduced": partial_sums.localize_sharded_to_unreduced,
    "stablehlo.concatenate": movement.localize_concatenate,
    "stablehlo.constant": structure.localize_stablehlo_constant,
    "stablehlo.convolution": contraction.localize_convolution,
    "stablehlo.dot": contraction.localize_dot,
    "stablehlo.dot_general": contraction.localize_dot_general,
    "stablehlo.dynamic_slice": movement.localize_dynamic_slice,
    "stablehlo.dynamic_update_slice": movement.localize_dynamic_update_slice,
    "stablehlo.gather": gather_scatter.localize_gather,
    "stablehlo.iota": movement.localize_iota,
    "stablehlo.pad": movement.localize_pad,
    "stablehlo.reduce": structure.localize_reduce,
    "stablehlo.reduce_window": movement.localize_windowed,
    "stablehlo.rng_bit_generator": structure.localize_random_bits,
    "stablehlo.scatter": gather_scatter.localize_scatter,
    "stablehlo.select_and_scatter": movement.localize_windowed,
    "stablehlo.slice": movement.localize_slice,
}

_UNTOUCHED = frozenset({"builtin.module", "sdy.mesh"})


class ConvertGlobalToLocal(ModulePass, name="sdy-convert-global-to-local"):
    """Convert a sharded program to the one that each device runs.

    Expects that all reshards are collectives, that sharded dimensions are divisible,
    and that no other operation needs elements of another device.

    Attributes:
        per_dim_all_gather: Whether to gather one dimension after the other.
        combine_multi_dimension_reduce_scatter: Whether to reduce and scatter along
            several dimensions at once, instead of an all-reduce and a slice.
        enable_rgv3: Whether to write replica groups as axes of the mesh.
        fix_sub_axis_offsets: Whether to compute the offsets of shards along sub-axes
            correctly. Shardy does so since July 2026 and has no such option; False
            gives its earlier results, and a warning where they are wrong.
        fix_wrong_results: Whether to correct wrong results of Shardy: partial
            maxima, products … are combined as in the reduction, not added (Shardy
            handles minima and maxima since August 2026); shards of random bits
            differ; a shard takes only its part of an updated slice. False gives
            Shardy's results, with a warning.
        replica_count: Number of replicas; if greater than 1, devices are replicas.
        partition_count: Number of partitions; only one of the two may be greater
            than 1.
    """

    per_dim_all_gather: bool = False
    combine_multi_dimension_reduce_scatter: bool = False
    enable_rgv3: bool = False
    fix_sub_axis_offsets: bool = True
    fix_wrong_results: bool = True
    replica_count: int = 1
    partition_count: int = 1

    def run(self, op: Operation, session: Session) -> None:
        """Convert the operations in order, outer ones before inner ones."""
        check_device_counts(self.name, self.replica_count, self.partition_count, op, session)
        options = Options(
            self.per_dim_all_gather,
            self.combine_multi_dimension_reduce_scatter,
            self.enable_rgv3,
            self.fix_sub_axis_offsets,
            self.fix_wrong_results,
            self.replica_count,
            self.partition_count,
        )
        state = Localization(op, options, session.diagnostics)
        # The list is taken before the conversion, which inserts local operations.
        for each in list(op.walk()):
            if each.name not in _UNTOUCHED and not state.is_done(each):
                _convert(state, each, session)
        state.finish()


def _convert(state: Localization, op: Operation, session: Session) -> None:
    # Any other StableHLO operation, and any of an unknown dialect, works on shards as it is.
    convert = _CONVERSIONS.get(op.name)
    if convert is None and (op.dialect == "stablehlo" or not is_defined(op.name)):
        convert = Localization.localize
    try:
        if convert is None:
            raise CannotLocalize("")
        convert(state, op)
    except CannotLocalize as error:
        if str(error):
            head = f"'{op.name}' op " if error.named else ""
            session.diagnostics.error(op.location, f"{head}{error}")
        if error.illegal:
            session.diagnostics.error(
                op.location,
                f"failed to legalize operation '{op.name}' that was explicitly marked illegal: "
                f"{to_text(op, generic=True, local=True)}",
            )
        raise PassFailed(f"'{op.name}' has no local version") from error
