"""Names of the dialect's discardable attributes, and a few more constants."""

from __future__ import annotations

SHARDING = "sdy.sharding"
SHARDING_RULE = "sdy.sharding_rule"
SHARDING_ORIGINS = "sdy.sharding_origins"
PROPAGATION_EDGES = "sdy.propagation_edges"
BLOCK_ARG_SHARDING_ORIGINS = "sdy.block_arg_sharding_origins"
BLOCK_ARG_PROPAGATION_EDGES = "sdy.block_arg_propagation_edges"
RESULT_SHARDING_ORIGINS = "sdy.result_sharding_origins"
RESULT_PROPAGATION_EDGES = "sdy.result_propagation_edges"
SHARDING_ORIGIN_NAME = "sdy.sharding_origin_name"
ORIGINAL_FUNC_NAME = "sdy.original_func_name"
FUNC_MANUAL_AXES = "sdy.func_manual_axes"
MAIN = "main"
EXECUTION_THREAD = "execution_thread"

COLLECTIVES = {
    "sdy.all_gather": "gathering_axes",
    "sdy.all_reduce": "reduction_axes",
    "sdy.all_slice": "slicing_axes",
    "sdy.all_to_all": "params",
    "sdy.collective_permute": None,
    "sdy.reduce_scatter": "reduce_scatter_axes",
    "sdy.replicated_to_unreduced": "axes",
    "sdy.sharded_to_unreduced": "axes",
}
"""Collectives, with the inherent attribute that says along which axes each one works.

All of them hold the sharding of their result as ``out_sharding``.
"""

REDUCING = frozenset({"sdy.all_reduce", "sdy.reduce_scatter"})
"""Collectives that combine partial results, with the operator in ``reduction_op``."""
