"""Constraints of inherent attributes."""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.attributes import Attribute, BoolAttr, DenseArrayAttr, IntegerAttr, StringAttr
from emu.mlir.types import IntegerType


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
"""MLIR's description of what an attribute must be, and the test."""

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
"""Constraints of inherent attributes, by name: they hold for all operations that have them."""

ANY_DIMENSION: Constraint = (
    "64-bit signless integer attribute",
    lambda a: _is_integer(a, 64, -(2**63)),
)
"""Constraint of the ``dimension`` of ``sort``, which counts from the end if it is negative."""
