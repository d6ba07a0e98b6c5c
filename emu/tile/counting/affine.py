"""Tiles that are known without being made: a range of integers, and the mask of those below a bound.

Arithmetic wraps, so that element ``j`` of a range, in the order of memory, is ``start + j`` modulo 2^32 or 2^64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from emu.tile.ir import Builder, Value
from emu.tile.ops import Code
from emu.tile.types import I32, I64, U64, DType, element_of


class Range(NamedTuple):
    """A tile of ``lanes`` integers, each 1 more than the one before; ``start`` is a scalar i32 or i64."""

    start: Value
    lanes: int


class Prefix(NamedTuple):
    """A mask that is true where a range is less than a scalar, or not more (``is_closed``)."""

    range: Range
    bound: Value
    is_closed: bool


_MIRRORED = {Code.LT: Code.GT, Code.LE: Code.GE}


def find_range(builder: Builder, tile: Value) -> Range | None:
    """Return the range that a tile is, its start computed where a builder is; None if that is not known."""
    owner, lanes = tile.owner, math.prod(tile.shape)
    if owner is None or element_of(tile.type) not in (I32, I64):
        return None
    if owner.code is Code.ARANGE:
        return Range(builder.constant(owner.attributes["start"], element_of(tile.type)), lanes)
    if owner.code is Code.RESHAPE:
        return find_range(builder, owner.operands[0])
    if owner.code is Code.CAST:
        (source,) = owner.operands
        while source.owner is not None and source.owner.code is Code.RESHAPE:
            source = source.owner.operands[0]
        if source.owner is not None and source.owner.code is Code.ARANGE:
            start = source.owner.attributes["start"]
            return Range(builder.constant(start, element_of(tile.type)), lanes)
    if owner.code is Code.ADD:
        for one, other in (owner.operands, owner.operands[::-1]):
            scalar = scalar_of(builder, one)
            if scalar is not None:
                found = find_range(builder, other)
                if found is not None:
                    return Range(builder.binary(Code.ADD, found.start, scalar), lanes)
    return None


def find_prefix(builder: Builder, mask: Value) -> Prefix | None:
    """Return the prefix that a mask is; None if that is not known."""
    owner = mask.owner
    if owner is None or not mask.shape:
        return None
    if owner.code is Code.RESHAPE:
        return find_prefix(builder, owner.operands[0])
    for code, mirrored in _MIRRORED.items():
        if owner.code in (code, mirrored):
            tile, bound = owner.operands if owner.code is code else owner.operands[::-1]
            scalar = scalar_of(builder, bound)
            found = None if scalar is None else find_range(builder, tile)
            is_wide = element_of(tile.type) == I64
            if found is not None and scalar is not None and not (is_wide and code is Code.LE):
                return Prefix(found, scalar, code is Code.LE)
    return None


def scalar_of(builder: Builder, tile: Value) -> Value | None:
    """Return the scalar that a tile repeats; None if that is not known."""
    owner = tile.owner
    if owner is None:
        return None
    if owner.code is Code.CONSTANT:
        return builder.constant(owner.attributes["value"], element_of(tile.type))
    if owner.code not in (Code.SPLAT, Code.BROADCAST, Code.RESHAPE):
        return None
    (source,) = owner.operands
    return scalar_of(builder, source) if source.shape else source


class Lanes(NamedTuple):
    """Lanes of a prefix that are true: the first ``before``, and ``behind`` from lane ``wrap`` on; u64."""

    before: Value
    wrap: Value
    behind: Value


def find_lanes(builder: Builder, prefix: Prefix) -> Lanes:
    """Return which lanes of a prefix are true. From lane ``wrap`` on its range has wrapped: it goes on from the least integer."""
    start, lanes = prefix.range
    element = element_of(start.type)
    assert isinstance(element, DType)
    least = -(1 << element.bits - 1)

    def unsigned(value: Value) -> Value:
        return builder.bitcast(builder.cast(value, I64), U64)

    def number(value: int) -> Value:
        return builder.bitcast(builder.constant(value, I64), U64)

    first, none = unsigned(start), builder.constant(0, U64)
    room = builder.binary(Code.SUB, number(-1 - least), first)
    wrap = builder.binary(Code.MIN, room, number(lanes - 1))
    wrap = builder.binary(Code.ADD, wrap, number(1))
    end = builder.cast(prefix.bound, I64)
    if prefix.is_closed:
        end = builder.binary(Code.ADD, end, builder.constant(1, I64))
    some = builder.compare(Code.GT, end, builder.cast(start, I64))
    end = builder.bitcast(end, U64)
    before = builder.binary(Code.MIN, builder.binary(Code.SUB, end, first), wrap)
    rest = builder.binary(Code.SUB, number(lanes), wrap)
    behind = builder.binary(Code.MIN, builder.binary(Code.SUB, end, number(least)), rest)
    return Lanes(builder.select(some, before, none), wrap, behind)
