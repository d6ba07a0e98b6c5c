"""Operations that speak with other devices and with the host."""

from __future__ import annotations

from emu.mlir.attributes import StringAttr
from emu.mlir.registry import OpDefinition, define
from emu.stablehlo.syntax import ATTRIBUTES, RESULT_TYPE, SAME_TYPE, Operands, define_pure

__all__ = ["COLLECTIVES"]

COLLECTIVES = {
    "all_gather": (
        "all_gather_dim",
        "replica_groups",
        "channel_handle",
        "use_global_device_ids",
    ),
    "all_reduce": ("replica_groups", "channel_handle", "use_global_device_ids"),
    "all_to_all": (
        "split_dimension",
        "concat_dimension",
        "split_count",
        "replica_groups",
        "channel_handle",
    ),
    "collective_broadcast": ("replica_groups", "channel_handle"),
    "collective_permute": ("source_target_pairs", "channel_handle"),
    "reduce_scatter": (
        "scatter_dimension",
        "replica_groups",
        "channel_handle",
        "use_global_device_ids",
    ),
}
"""The collectives and their inherent attributes. None goes unasked: for MLIR
their effects are unknown."""


def _define_all() -> None:
    for name, properties in COLLECTIVES.items():
        define(OpDefinition(f"stablehlo.{name}", properties))
    define(OpDefinition("stablehlo.cross-replica-sum", ("replica_groups",), pure=True))
    for name in ("partition_id", "replica_id", "create_token"):
        define_pure(name, ATTRIBUTES, " : ", RESULT_TYPE)
    define_pure("after_all", " ", Operands(), ATTRIBUTES, " : ", SAME_TYPE)
    transfer = ("channel_handle", "is_host_transfer", "source_target_pairs")
    define(OpDefinition("stablehlo.send", transfer))
    define(OpDefinition("stablehlo.recv", transfer))
    for name, properties in (
        ("infeed", ("infeed_config", "layout")),
        ("outfeed", ("outfeed_config",)),
    ):
        config = ((properties[0], StringAttr("")),)
        define(OpDefinition(f"stablehlo.{name}", properties, defaults=config))


_define_all()
