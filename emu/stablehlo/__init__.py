"""The StableHLO dialect, with the operations of CHLO and MHLO that JAX writes beside it.

Importing the package defines the operations and attributes. There is one file per family of
operations; it has an ``OpSpec`` of each: form, operands, types, checks and effects. ``dialect.SPECS``
lists them all.

Internal: names may change in any release.
"""

from emu.stablehlo import (
    attribute_parser,
    chlo,
    communication,
    contraction,
    control,
    convolution,
    creation,
    elementwise,
    gather_scatter,
    linear_algebra,
    normalization,
    reduction,
    shaping,
    slicing,
)

__all__ = [
    "attribute_parser",
    "chlo",
    "communication",
    "contraction",
    "control",
    "convolution",
    "creation",
    "elementwise",
    "gather_scatter",
    "linear_algebra",
    "normalization",
    "reduction",
    "shaping",
    "slicing",
]
