"""Whether a sharding rule fits the operation that has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emu.sdy.dialect.attributes import OpShardingRule, TensorMapping
from emu.sdy.mlir.ir import Operation
from emu.sdy.mlir.types import Type, is_static_tensor

__all__ = ["factor_symbol", "problem_of"]


def factor_symbol(factor: int) -> str:
    """How a factor is written: ``i`` … ``z``, then ``z_1``, ``z_2`` …"""
    letters = "ijklmnopqrstuvwxyz"
    last = len(letters) - 1
    return letters[factor] if factor <= last else f"z_{factor - last}"


def problem_of(rule: OpShardingRule, op: Operation) -> str | None:
    """What is wrong with a rule for an operation, or None.

    The text is what Shardy's verifier says behind ``'stablehlo.add' op``.
    """
    return next(_problems(rule, op), None)


def _problems(rule: OpShardingRule, op: Operation) -> Iterator[str]:
    sizes = rule.factor_sizes
    operands, results = [v.type for v in op.operands], [v.type for v in op.results]
    yield from _mapping_problems("operand", operands, rule.operands, sizes)
    yield from _mapping_problems("result", results, rule.results, sizes)
    in_results = _factors(rule.results)
    used = _factors(rule.operands) | in_results
    for factor, size in enumerate(sizes):
        if factor not in used:
            symbol = factor_symbol(factor)
            yield f"has factor {symbol}={size} that isn't used in operand and result mappings"
    special = (rule.reduction, rule.need_replication, rule.permutation)
    for factors in special:
        yield from _list_problems(factors, len(sizes))
    if len({f for factors in special for f in factors}) != sum(map(len, special)):
        yield (
            "a factor can only be in one of the reduction, need replication, or permutation "
            "factor sets"
        )
    yield from _list_problems(rule.blocked_propagation, len(sizes))
    if not in_results.isdisjoint(rule.reduction):
        yield "reduction factor cannot be in result mappings"


def _factors(mappings: Sequence[TensorMapping]) -> set[int]:
    return {factor for tensor in mappings for dim in tensor.dims for factor in dim.factors}


def _mapping_problems(
    what: str, types: Sequence[Type], mappings: Sequence[TensorMapping], sizes: Sequence[int]
) -> Iterator[str]:
    if len(types) != len(mappings):
        yield f"number of {what}s and mappings must match: {len(types)} != {len(mappings)}"
    elif not mappings:
        yield (
            f"number of {what}s mappings cannot be 0. Op sharding rules can only be defined on "
            "operations with at least one operand and result."
        )
    for index, (type_, mapping) in enumerate(zip(types, mappings, strict=False)):
        place = f"{what} -" if len(types) == 1 else f"{what} {index} -"
        for problem in _tensor_problems(type_, mapping, sizes):
            yield f"{place} {problem}"


def _tensor_problems(type_: Type, mapping: TensorMapping, sizes: Sequence[int]) -> Iterator[str]:
    if not is_static_tensor(type_):
        yield f"expected a ranked tensor with a static shape. type: '{type_}'"
    elif len(mapping.dims) != type_.rank:
        yield f"mapping rank must match: {len(mapping.dims)} != {type_.rank}"
    seen: set[int] = set()
    for dim in mapping.dims:
        if not dim.factors:
            yield "dim mapping must have at least one factor"
        for factor in dim.factors:
            if not 0 <= factor < len(sizes):
                yield (
                    "expecting factor indices to be within 0<=...<num_factors; received: "
                    f"{factor}, num_factors: {len(sizes)}"
                )
            if factor in seen:
                yield "cannot reuse factors for the same tensor value"
            if sizes[factor] == 1 and len(dim.factors) > 1:
                yield ("dim mapping can't have a factor of size 1 if there are multiple factors")
            seen.add(factor)


def _list_problems(factors: Sequence[int], count: int) -> Iterator[str]:
    """What is wrong with a list of factors of one kind."""
    if list(factors) != sorted(factors):
        yield "indices of special factors must be sorted"
    if len(set(factors)) != len(factors):
        yield "indices of special factors must be unique"
    if factors and factors[0] < 0:
        yield "index must be non-negative"
    if factors and factors[-1] >= count:
        yield f"index must be less than {count}, got: {factors[-1]}"
