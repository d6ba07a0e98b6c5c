"""How many operands, results, regions and which attributes an operation has.

What MLIR checks of every operation before it looks at types. The tables are
by name, without ``stablehlo.`` but with other dialects; -1 is any number, -2
one or more, -3 two or more.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.attributes import Attribute, BoolAttr, DenseArrayAttr, IntegerAttr, StringAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType
from emu.stablehlo import chlo
from emu.stablehlo.elementwise import ACCURATE, BINARY, UNARY

__all__ = ["CONSTRAINTS", "REQUIRED", "SHAPES", "Constraint", "verify_structure"]

_ANY = -1
_SOME = -2
_TWO = -3

SHAPES: dict[str, tuple[int, int, tuple[str, ...] | None]] = {
    **dict.fromkeys((*UNARY, *ACCURATE), (1, 1, ())),
    **dict.fromkeys(BINARY, (2, 1, ())),
    **{
        name: (count, results, ())
        for count, results, names in (
            (0, 1, "constant iota create_token partition_id replica_id"),
            (1, 1, "is_finite reduce_precision dynamic_iota reshape transpose reverse"),
            (1, 1, "bitcast_convert broadcast broadcast_in_dim get_dimension_size slice"),
            (1, 1, "unary_einsum fft cholesky get_tuple_element async_done"),
            (1, 1, "collective_broadcast collective_permute cross-replica-sum"),
            (2, 1, "complex compare dynamic_reshape dynamic_broadcast_in_dim"),
            (2, 1, "set_dimension_size pad gather torch_index_select dot dot_general"),
            (2, 1, "convolution einsum triangular_solve"),
            (3, 1, "select clamp dynamic_gather rng dynamic_conv"),
            (4, 1, "real_dynamic_slice"),
            (5, 1, "dynamic_pad batch_norm_inference"),
            (1, 2, "rng_bit_generator"),
            (3, 3, "batch_norm_training"),
            (5, 3, "batch_norm_grad"),
            (_SOME, 1, "concatenate dynamic_slice send outfeed"),
            (_TWO, 1, "dynamic_update_slice"),
            (_ANY, 1, "tuple after_all"),
            (_ANY, 0, "return"),
            (1, _ANY, "infeed recv"),
            (_ANY, _ANY, "optimization_barrier custom_call all_gather all_to_all"),
        )
        for name in names.split()
    },
    "while": (_ANY, _ANY, ("cond", "body")),
    "if": (1, _ANY, ("true_branch", "false_branch")),
    "case": (1, _ANY, None),
    "map": (_ANY, 1, ("computation",)),
    "sort": (_ANY, _ANY, ("comparator",)),
    "reduce": (_ANY, _ANY, ("body",)),
    "reduce_window": (_ANY, _ANY, ("body",)),
    "select_and_scatter": (3, 1, ("select", "scatter")),
    "scatter": (_SOME, _ANY, ("update_computation",)),
    "all_reduce": (_ANY, _ANY, ("computation",)),
    "reduce_scatter": (1, 1, ("computation",)),
    "async_start": (_ANY, 1, ("body",)),
    "composite": (_ANY, _ANY, None),
    **{f"chlo.{name}": (1, 1, ()) for name in (*chlo.UNARY, "constant_like")},
    **{f"chlo.{name}": (2, 1, ()) for name in (*chlo.BROADCASTING, "broadcast_compare")},
    **{f"chlo.{name}": (2, 1, ()) for name in ("next_after", "polygamma", "zeta")},
    "chlo.broadcast_select": (3, 1, ()),
    "chlo.constant": (0, 1, ()),
    "chlo.ragged_dot": (3, 1, ()),
    "chlo.scan": (_ANY, _ANY, ("body",)),
    "chlo.top_k": (1, 2, ()),
    "mhlo.erf": (1, 1, ()),
    "mhlo.topk": (1, 2, ()),
}
"""Operands, results, and the regions' names (None: any number of regions)."""

REQUIRED = {
    "all_gather": ("all_gather_dim", "replica_groups"),
    "all_reduce": ("replica_groups",),
    "all_to_all": ("concat_dimension", "replica_groups", "split_count", "split_dimension"),
    "batch_norm_grad": ("epsilon", "feature_index"),
    "batch_norm_inference": ("epsilon", "feature_index"),
    "batch_norm_training": ("epsilon", "feature_index"),
    "broadcast": ("broadcast_sizes",),
    "broadcast_in_dim": ("broadcast_dimensions",),
    "collective_broadcast": ("replica_groups",),
    "collective_permute": ("source_target_pairs",),
    "compare": ("comparison_direction",),
    "composite": ("decomposition", "name"),
    "concatenate": ("dimension",),
    "constant": ("value",),
    "convolution": ("batch_group_count", "dimension_numbers", "feature_group_count"),
    "cross-replica-sum": ("replica_groups",),
    "custom_call": ("call_target_name",),
    "dot_general": ("dot_dimension_numbers",),
    "dynamic_broadcast_in_dim": ("broadcast_dimensions",),
    "dynamic_conv": ("batch_group_count", "dimension_numbers", "feature_group_count"),
    "dynamic_gather": ("dimension_numbers",),
    "dynamic_iota": ("iota_dimension",),
    "dynamic_slice": ("slice_sizes",),
    "einsum": ("einsum_config",),
    "fft": ("fft_length", "fft_type"),
    "gather": ("dimension_numbers", "slice_sizes"),
    "get_dimension_size": ("dimension",),
    "get_tuple_element": ("index",),
    "iota": ("iota_dimension",),
    "map": ("dimensions",),
    "pad": ("edge_padding_high", "edge_padding_low", "interior_padding"),
    "recv": ("channel_handle",),
    "reduce": ("dimensions",),
    "reduce_precision": ("exponent_bits", "mantissa_bits"),
    "reduce_scatter": ("replica_groups", "scatter_dimension"),
    "reduce_window": ("window_dimensions",),
    "reverse": ("dimensions",),
    "rng": ("rng_distribution",),
    "rng_bit_generator": ("rng_algorithm",),
    "scatter": ("scatter_dimension_numbers",),
    "send": ("channel_handle",),
    "set_dimension_size": ("dimension",),
    "slice": ("limit_indices", "start_indices", "strides"),
    "torch_index_select": ("batch_dims", "dim"),
    "transpose": ("permutation",),
    "triangular_solve": ("left_side", "lower", "transpose_a", "unit_diagonal"),
    "unary_einsum": ("einsum_config",),
    "chlo.broadcast_compare": ("comparison_direction",),
    "chlo.constant": ("value",),
    "chlo.constant_like": ("value",),
    "chlo.ragged_dot": ("ragged_dot_dimension_numbers",),
    "chlo.scan": ("dimension",),
    "chlo.top_k": ("k",),
    "mhlo.topk": ("k",),
}
"""The attributes that have to be there, in MLIR's order."""


def _is_integer(attribute: Attribute, width: int, least: int) -> bool:
    return (
        isinstance(attribute, IntegerAttr)
        and attribute.type == IntegerType(width)
        and attribute.value >= least
    )


def _is_ints(attribute: Attribute) -> bool:
    return isinstance(attribute, DenseArrayAttr) and attribute.element == IntegerType(64)


_NOT_NEGATIVE = "{}-bit signless integer attribute whose value is non-negative"
_POSITIVE = "{}-bit signless integer attribute whose value is positive"
Constraint = tuple[str, Callable[[Attribute], bool]]

CONSTRAINTS: dict[str, Constraint] = {
    **dict.fromkeys(
        (
            "all_gather_dim",
            "concat_dimension",
            "dimension",
            "feature_index",
            "iota_dimension",
            "scatter_dimension",
            "split_dimension",
        ),
        (_NOT_NEGATIVE.format(64), lambda a: _is_integer(a, 64, 0)),
    ),
    **dict.fromkeys(
        ("batch_group_count", "feature_group_count", "split_count"),
        (_POSITIVE.format(64), lambda a: _is_integer(a, 64, 1)),
    ),
    **dict.fromkeys(
        ("index", "mantissa_bits"), (_NOT_NEGATIVE.format(32), lambda a: _is_integer(a, 32, 0))
    ),
    "exponent_bits": (_POSITIVE.format(32), lambda a: _is_integer(a, 32, 1)),
    **dict.fromkeys(
        (
            "base_dilations",
            "broadcast_dimensions",
            "broadcast_sizes",
            "dimensions",
            "edge_padding_high",
            "edge_padding_low",
            "fft_length",
            "interior_padding",
            "lhs_dilation",
            "limit_indices",
            "permutation",
            "rhs_dilation",
            "slice_sizes",
            "start_indices",
            "strides",
            "window_dilations",
            "window_dimensions",
            "window_strides",
        ),
        ("i64 dense array attribute", _is_ints),
    ),
    **dict.fromkeys(
        (
            "has_side_effect",
            "indices_are_sorted",
            "is_stable",
            "left_side",
            "lower",
            "unique_indices",
            "unit_diagonal",
        ),
        ("bool attribute", lambda a: isinstance(a, BoolAttr)),
    ),
    **dict.fromkeys(
        ("call_target_name", "einsum_config", "name"),
        ("string attribute", lambda a: isinstance(a, StringAttr)),
    ),
}
"""What an inherent attribute of that name has to be, whosever it is."""

_ANY_DIMENSION: Constraint = (
    "64-bit signless integer attribute",
    lambda a: _is_integer(a, 64, -(2**63)),
)


def verify_structure(op: Operation, diagnostics: Diagnostics) -> bool:
    """Check the counts and that required attributes are there."""
    message = _wrong_counts(op) or _missing(op) or _wrong_attribute(op) or _wrong_regions(op)
    if message is None:
        return True
    diagnostics.error(op.location, f"'{op.name}' op {message}")
    return False


def _wrong_counts(op: Operation) -> str | None:
    operands, results, regions = SHAPES[op.name.removeprefix("stablehlo.")]
    if regions is not None and len(op.regions) != len(regions):
        if len(regions) < 2:
            return "requires one region" if regions else "requires zero regions"
        return f"expected {len(regions)} regions"
    if results >= 0 and len(op.results) != results:
        if results < 2:
            return "requires one result" if results else "requires zero results"
        return f"expected {results} results"
    return _wrong_operands(operands, len(op.operands))


def _wrong_operands(expected: int, count: int) -> str | None:
    if expected in (_SOME, _TWO):
        least = 1 if expected == _SOME else 2
        return None if count >= least else f"expected {least} or more operands, but found {count}"
    if expected in (_ANY, count):
        return None
    if expected < 2:
        return "requires a single operand" if expected else "requires zero operands"
    return f"expected {expected} operands, but found {count}"


def _missing(op: Operation) -> str | None:
    for name in REQUIRED.get(op.name.removeprefix("stablehlo."), ()):
        if name not in op.properties:
            return f"requires attribute '{name}'"
    return None


def _wrong_attribute(op: Operation) -> str | None:
    for name, value in op.properties.items():
        constraint = CONSTRAINTS.get(name)
        if constraint is None:
            continue
        if op.name == "stablehlo.sort" and name == "dimension":
            constraint = _ANY_DIMENSION
        if not constraint[1](value):
            return f"attribute '{name}' failed to satisfy constraint: {constraint[0]}"
    return None


def _wrong_regions(op: Operation) -> str | None:
    names = SHAPES[op.name.removeprefix("stablehlo.")][2]
    if not names:
        return None
    for index, (region, name) in enumerate(zip(op.regions, names, strict=True)):
        if len(region.blocks) != 1:
            place = f"region #{index} ('{name}')"
            return f"{place} failed to verify constraint: region with 1 blocks"
    return None
