"""Rules written as in einsum: ``"b i k, k j -> b i j"``.

A letter (or word) is a factor. Tensors are separated by commas, dimensions by
blanks; nothing between commas is a scalar. ``(i j)`` is a dimension of two
factors, the major one first, and ``...`` stands for leading dimensions that all
tensors with ``...`` have. Sizes come from the operation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import DimMapping, OpShardingRule, TensorMapping
from emu.sdy.rules.reading import shape

__all__ = ["einsum_rule"]

_TOKEN = re.compile(r"\s*(?:\(([^()]*)\)|(\.\.\.)|([A-Za-z_]\w*))\s*")

_Names = tuple[str, ...]
_Tensor = list[_Names]


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

    Factors are numbered as they first occur. One of size 1 is left out of
    dimensions that have others.

    Args:
        op: The operation.
        notation: The factors of each dimension of each operand and result.
        reduction: Factors along which results are to be added up.
        need_replication: Factors along which nothing may be sharded in the end.
        permutation: Factors along which shards must exchange parts.
        blocked: Factors along which no sharding moves.
        sizes: Sizes of factors that the shapes do not tell: of all but one in a
            dimension of several.
        custom: See ``RuleBuilder.build``.
    """
    left, arrow, right = notation.partition("->")
    if not arrow:
        raise ValueError(f"notation must have '->' before the results, but is {notation!r}")
    operand_shapes = [shape(value) for value in op.operands]
    result_shapes = [shape(value) for value in op.results]
    operands = _side("operand", left, operand_shapes)
    results = _side("result", right, result_shapes)
    tensors, shapes = operands + results, operand_shapes + result_shapes
    leading = {sum(dim[0].startswith("...") for dim in tensor) for tensor in tensors} - {0}
    if len(leading) > 1:
        raise ValueError(f"'...' stands for {sorted(leading)} dimensions in {notation!r}")
    found = _sizes(tensors, shapes, dict(sizes or {}))
    kept = [[_without_ones(dim, found) for dim in tensor] for tensor in tensors]
    number = {name: i for i, name in enumerate(_in_order(kept))}
    mappings = tuple(
        TensorMapping(tuple(DimMapping(tuple(number[n] for n in dim)) for dim in tensor))
        for tensor in kept
    )

    def factors(argument: str, chosen: str | Iterable[str]) -> tuple[int, ...]:
        names = chosen.split() if isinstance(chosen, str) else list(chosen)
        for name in names:
            if name not in found:
                raise ValueError(f"{argument} names {name!r}, which is not in {notation!r}")
        return tuple(sorted({number[name] for name in names if name in number}))

    return OpShardingRule(
        tuple(found[name] for name in number),
        mappings[: len(operands)],
        mappings[len(operands) :],
        reduction=factors("reduction", reduction),
        need_replication=factors("need_replication", need_replication),
        permutation=factors("permutation", permutation),
        blocked_propagation=factors("blocked", blocked),
        is_custom=custom,
    )


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
    """Return the size of each factor; dimensions of one factor tell first."""
    dims = [
        (dim, size)
        for tensor, sizes_ in zip(tensors, shapes, strict=True)
        for dim, size in zip(tensor, sizes_, strict=True)
    ]
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
    """Return all factors, as they first occur."""
    return list(dict.fromkeys(name for tensor in tensors for dim in tensor for name in dim))
