"""Rules for each operation of the tile IR: operands, attributes, results, regions.

``RULES`` has one function for each code; it raises ``Broken`` where its operation breaks a rule that can
be seen from the operation alone. ``emu.tile.verify`` calls them and checks the rest.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from emu.tile import ops
from emu.tile.ir import Operation
from emu.tile.ops import Code
from emu.tile.rules import along, effects, values
from emu.tile.rules.attributes import check_attributes
from emu.tile.rules.demands import Broken, need, types_are, whole, yields
from emu.tile.types import Tile, Type

__all__ = [
    "RULES",
    "WITH_REGIONS",
    "Broken",
    "check_attributes",
    "check_type",
    "need",
    "types_are",
    "yields",
]

Rule: TypeAlias = Callable[[Operation], None]

RULES: dict[Code, Rule] = {
    **dict.fromkeys(ops.UNARY, values.unary),
    **dict.fromkeys(ops.BINARY, values.binary),
    **dict.fromkeys(ops.COMPARISONS, values.compare),
    Code.CONSTANT: values.constant,
    Code.PROGRAM_ID: values.program,
    Code.NUM_PROGRAMS: values.program,
    Code.ARANGE: values.arange,
    Code.SPLAT: values.splat,
    Code.BROADCAST: values.broadcast,
    Code.RESHAPE: values.reshape,
    Code.PERMUTE: values.permute,
    Code.JOIN: values.join,
    Code.SPLIT: values.split,
    Code.CAT: values.cat,
    Code.GATHER: values.gather,
    Code.FLIP: values.flip,
    Code.CAST: values.cast,
    Code.BITCAST: values.bitcast,
    Code.SELECT: values.select,
    Code.FMA: values.fma,
    Code.PTR_ADD: effects.pointer_add,
    Code.LOAD: effects.load,
    Code.STORE: effects.store,
    Code.ATOMIC_RMW: effects.atomic_rmw,
    Code.ATOMIC_CAS: effects.atomic_cas,
    Code.FOR: effects.for_,
    Code.WHILE: effects.while_,
    Code.IF: effects.if_,
    Code.YIELD: effects.terminator,
    Code.CALL: effects.call,
    Code.RETURN: effects.terminator,
    Code.REDUCE: along.reduce,
    Code.SCAN: along.scan,
    Code.HISTOGRAM: along.histogram,
    Code.SORT: along.sort,
    Code.DOT: along.dot,
    Code.BARRIER: effects.barrier,
    Code.JOIN_TOKENS: effects.join_tokens,
    Code.AFTER: effects.after,
    Code.ASSERT: effects.assert_,
    Code.PRINT: effects.print_,
    Code.OBSERVE: effects.observe,
    Code.MACHINE_WORD: effects.machine_word,
    Code.MACHINE_CALL: effects.machine_call,
}
"""The rule of each code."""

WITH_REGIONS = {Code.FOR: 1, Code.WHILE: 2, Code.IF: 2, Code.REDUCE: 1, Code.SCAN: 1}
"""Codes that have regions, and how many."""


def check_type(type_: Type) -> None:
    """Check that tiles have axes with elements."""
    if not isinstance(type_, Tile):
        return
    if not type_.shape or not all(whole(n) and n >= 1 for n in type_.shape):
        raise Broken(f"extents of a tile must be 1 or more, but got {type_.shape}")
    if math.prod(type_.shape) >= 2**31:
        raise Broken(f"a tile must have fewer than 2**31 elements, but got {type_}")
