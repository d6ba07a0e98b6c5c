"""Sharding rules in einsum notation: ``"b i k, k j -> b i j"``.

A letter (or word) is a factor. Tensors are separated by commas, dimensions by
blanks; an empty item between commas is a scalar. ``(i j)`` is a dimension of two
factors, the major one first, and ``...`` stands for leading dimensions that all
tensors with ``...`` share. Sizes come from the operation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import DimMapping, OpShardingRule, TensorMapping
from emu.sdy.rules.reading import shape

_TOKEN = re.compile(r"\s*(?:\(([^()]*)\)|(\.\.\.)|([A-Za-z_]\w*))\s*")

_Names = tuple[str, ...]
_Tensor = list[_Names]
_Shape = tuple[int, ...]


def einsum_rule(
    op: Operation,
    notation: str,
    *,
    reduction: str | Iterable[str] = (),
    need_replication: str | Iterable[str] = (),
    permutation: str | Iterable[str] = (),
    blocked: str | Iterable[str] = (),
    sizes: Mapping[str, int] | None = None,
    custom: bool = False,
) -> OpShardingRule:
    """Return the rule of an operation, from a text like ``"i k, k j -> i j"``.

    Factors are numbered in the order of their first occurrence. A factor of size 1 is
    left out of dimensions that have others.

    Args:
        op: The operation.
        notation: Factors of each dimension of each operand and result.
        reduction: Factors along which results are partial sums. Like the next three, a
            text with names separated by blanks, or several names. Default: none.
        need_replication: Factors that must be replicated in the end.
        permutation: Factors along which shards must exchange parts.
        blocked: Factors along which no sharding propagates.
        sizes: Sizes of factors that do not follow from the shapes: all but one in a
            dimension of several.
        custom: See ``RuleBuilder.build``.

    Raises:
        ValueError: The notation is invalid or does not fit the operation's shapes.
    """
    factors = _Factors(op, notation, sizes or {})
    return OpShardingRule(
        factors.sizes,
        factors.mappings[: len(op.operands)],
        factors.mappings[len(op.operands) :],
        reduction=factors.chosen("reduction", reduction),
        need_replication=factors.chosen("need_replication", need_replication),
        permutation=factors.chosen("permutation", permutation),
        blocked_propagation=factors.chosen("blocked", blocked),
        is_custom=custom,
    )


class _Factors:
    """Factors of a notation for an operation.

    Attributes:
        sizes: Sizes of the factors, in the order of their numbers.
        mappings: Factors of the operands, then of the results.
    """

    def __init__(self, op: Operation, notation: str, sizes: Mapping[str, int]) -> None:
        self._notation = notation
        operand_shapes = [shape(value) for value in op.operands]
        result_shapes = [shape(value) for value in op.results]
        tensors = _parse(notation, operand_shapes, result_shapes)
        self._sizes = _sizes(tensors, operand_shapes + result_shapes, dict(sizes))
        # Factors of size 1 are dropped before numbering, so a dropped one gets no number:
        # ``chosen`` accepts its name nevertheless.
        kept = [[_without_ones(dim, self._sizes) for dim in tensor] for tensor in tensors]
        self._numbers = {name: number for number, name in enumerate(_in_order(kept))}
        self.sizes = tuple(self._sizes[name] for name in self._numbers)
        self.mappings = tuple(
            TensorMapping(tuple(self._dim_mapping(dim) for dim in tensor)) for tensor in kept
        )

    def _dim_mapping(self, names: _Names) -> DimMapping:
        return DimMapping(tuple(self._numbers[name] for name in names))

    def chosen(self, argument: str, names: str | Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the factors that an argument of ``einsum_rule`` names."""
        listed = names.split() if isinstance(names, str) else list(names)
        for name in listed:
            if name not in self._sizes:
                raise ValueError(f"{argument} names {name!r}, which is not in {self._notation!r}")
        return tuple(sorted({self._numbers[name] for name in listed if name in self._numbers}))


def _parse(
    notation: str, operand_shapes: Sequence[_Shape], result_shapes: Sequence[_Shape]
) -> list[_Tensor]:
    """Return the factors of each operand, then of each result."""
    left, arrow, right = notation.partition("->")
    if not arrow:
        raise ValueError(f"notation must have '->' before the results, but is {notation!r}")
    tensors = _side("operand", left, operand_shapes) + _side("result", right, result_shapes)
    # All tensors with "..." share its factors, so it must stand for equally many dimensions.
    leading = {sum(dim[0].startswith("...") for dim in tensor) for tensor in tensors} - {0}
    if len(leading) > 1:
        raise ValueError(f"'...' stands for {sorted(leading)} dimensions in {notation!r}")
    return tensors


def _side(what: str, text: str, shapes: Sequence[Sequence[int]]) -> list[_Tensor]:
    """Return the tensors on one side of the arrow."""
    parts = text.split(",") if shapes or text.strip() else []
    if len(parts) != len(shapes):
        raise ValueError(f"notation has {len(parts)} {what}s, but the operation {len(shapes)}")
    return [
        _tensor(f"{what} {i}", part, len(sizes))
        for i, (part, sizes) in enumerate(zip(parts, shapes, strict=True))
    ]


def _tensor(what: str, text: str, rank: int) -> _Tensor:
    """Return the factors of each dimension of one tensor."""
    dims: _Tensor = []
    ellipsis = None
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{what} of the notation is not understood: {text.strip()!r}")
        position = match.end()
        group, dots, name = match.groups()
        if dots:
            ellipsis = len(dims)
        else:
            dims.append((name,) if name else tuple(group.split()))
    if ellipsis is not None:
        if ellipsis != 0 or rank < len(dims):
            raise ValueError(f"'...' must lead, for the dimensions left of rank {rank}: {text!r}")
        dims = [(f"...{i}",) for i in range(rank - len(dims))] + dims
    if len(dims) != rank:
        raise ValueError(f"{what} has rank {rank}, but {len(dims)} dimensions in {text.strip()!r}")
    return dims


def _sizes(
    tensors: list[_Tensor], shapes: list[tuple[int, ...]], sizes: dict[str, int]
) -> dict[str, int]:
    """Return the size of each factor."""
    dims = [
        (dim, size)
        for tensor, sizes_ in zip(tensors, shapes, strict=True)
        for dim, size in zip(tensor, sizes_, strict=True)
    ]
    # Dimensions of one factor first: they give the sizes that compound ones need.
    for dim, size in sorted(dims, key=lambda pair: len(pair[0])):
        unknown = [name for name in dim if name not in sizes]
        known = math.prod(sizes[name] for name in dim if name in sizes)
        if len(unknown) > 1:
            raise ValueError(f"sizes must give all but one of {', '.join(dim)}")
        if unknown and known and size % known == 0:
            sizes[unknown[0]] = size // known
        elif unknown or known != size:
            what = " times ".join(f"{n}={sizes[n]}" for n in dim if n in sizes) or "nothing"
            raise ValueError(f"a dimension of size {size} cannot be {' '.join(dim)}: {what}")
    return sizes


def _without_ones(dim: _Names, sizes: Mapping[str, int]) -> _Names:
    """Return a dimension without its factors of size 1, if it has others."""
    return tuple(name for name in dim if sizes[name] != 1) or dim[-1:]


def _in_order(tensors: list[_Tensor]) -> list[str]:
    """Return all factors in the order of their first occurrence."""
    return list(dict.fromkeys(name for tensor in tensors for dim in tensor for name in dim))
