"""Rules for sharding rules (``sdy.sharding_rule``) on operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from emu.mlir.ir import Operation
from emu.mlir.types import Type, is_static_tensor
from emu.sdy.dialect.attributes import DimMapping, OpShardingRule, TensorMapping
from emu.sdy.dialect.text import factor_symbol
from emu.sdy.dialect.verify.problems import Problem, value_prefix


def sharding_rule_problem(rule: OpShardingRule, op: Operation) -> Problem | None:
    """Return the problem with a rule for an operation, or None."""
    operand_types = tuple([value.type for value in op.operands])
    result_types = tuple([value.type for value in op.results])
    return _problem_for_types(rule, operand_types, result_types)


# Layers repeat, so the same few rules and types are verified again after each pass.
@lru_cache(maxsize=1 << 14)
def _problem_for_types(
    rule: OpShardingRule, operand_types: tuple[Type, ...], result_types: tuple[Type, ...]
) -> Problem | None:
    problem = _mappings_problem(rule, operand_types, rule.operands, "operand")
    problem = problem or _mappings_problem(rule, result_types, rule.results, "result")
    if problem is not None:
        return problem
    in_results = _factors_of(rule.results)
    used = _factors_of(rule.operands) | in_results
    for factor, size in enumerate(rule.factor_sizes):
        if factor not in used:
            return Problem(
                f"has factor {factor_symbol(factor)}={size} that isn't used in operand and "
                "result mappings"
            )
    return _special_factors_problem(rule, in_results)


def _factors_of(mappings: Sequence[TensorMapping]) -> set[int]:
    return {factor for mapping in mappings for dim in mapping.dims for factor in dim.factors}


def _mappings_problem(
    rule: OpShardingRule, types: Sequence[Type], mappings: Sequence[TensorMapping], kind: str
) -> Problem | None:
    if len(types) != len(mappings):
        return Problem(
            f"number of {kind}s and mappings must match: {len(types)} != {len(mappings)}"
        )
    if not mappings:
        return Problem(
            f"number of {kind}s mappings cannot be 0. Op sharding rules can only be defined "
            "on operations with at least one operand and result."
        )
    for index, (type_, mapping) in enumerate(zip(types, mappings, strict=True)):
        problem = _mapping_problem(rule.factor_sizes, type_, mapping)
        if problem is not None:
            return problem.within(f"{kind} {value_prefix(len(types), index)}")
    return None


def _mapping_problem(sizes: Sequence[int], type_: Type, mapping: TensorMapping) -> Problem | None:
    if not is_static_tensor(type_):
        return Problem(f"expected a ranked tensor with a static shape. type: '{type_}'")
    if len(mapping.dims) != type_.rank:
        return Problem(f"mapping rank must match: {len(mapping.dims)} != {type_.rank}")
    seen: set[int] = set()
    for dim in mapping.dims:
        problem = _dim_mapping_problem(sizes, dim, seen)
        if problem is not None:
            return problem
    return None


def _dim_mapping_problem(sizes: Sequence[int], dim: DimMapping, seen: set[int]) -> Problem | None:
    """Return the problem with a dimension; ``seen`` has the factors of the tensor so far."""
    if not dim.factors:
        return Problem("dim mapping must have at least one factor")
    for factor in dim.factors:
        if not 0 <= factor < len(sizes):
            return Problem(
                "expecting factor indices to be within 0<=...<num_factors; received: "
                f"{factor}, num_factors: {len(sizes)}"
            )
        if factor in seen:
            return Problem("cannot reuse factors for the same tensor value")
        if sizes[factor] == 1 and len(dim.factors) > 1:
            return Problem(
                "dim mapping can't have a factor of size 1 if there are multiple factors"
            )
        seen.add(factor)
    return None


def _special_factors_problem(rule: OpShardingRule, in_results: set[int]) -> Problem | None:
    count = len(rule.factor_sizes)
    special = (rule.reduction, rule.need_replication, rule.permutation)
    for indices in special:
        problem = _indices_problem(indices, count)
        if problem is not None:
            return problem
    if len(set().union(*special)) != sum(map(len, special)):
        return Problem(
            "a factor can only be in one of the reduction, need replication, or permutation "
            "factor sets"
        )
    problem = _indices_problem(rule.blocked_propagation, count)
    if problem is None and in_results.intersection(rule.reduction):
        problem = Problem("reduction factor cannot be in result mappings")
    return problem


def _indices_problem(indices: Sequence[int], count: int) -> Problem | None:
    """Check that the factors of one kind are sorted, unique and in range."""
    if not indices:
        return None
    if list(indices) != sorted(indices):
        return Problem("indices of special factors must be sorted")
    if any(a == b for a, b in pairwise(indices)):
        return Problem("indices of special factors must be unique")
    if indices[0] < 0:
        return Problem("index must be non-negative")
    if indices[-1] >= count:
        return Problem(f"index must be less than {count}, got: {indices[-1]}")
    return None
