"""Builder of sharding rules, factor by factor.

A rule gives every dimension of every operand and result a list of *factors*.
Dimensions that share a factor are sharded alike. A factor has a size, a kind
(``FactorType``), and may be blocked, so that no sharding propagates along it.

Factors are numbered in the order in which they are added; dimensions without a
factor at the time of ``RuleBuilder.build`` get one of size 1 of their own,
numbered after all others, operands before results. Users see the numbers (as
``i``, ``j``, …), and propagation visits factors in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import DimMapping, FactorType, OpShardingRule, TensorMapping
from emu.sdy.rules.reading import rank, shape

Dims = Sequence[int | None]
"""For each tensor, the dimension that has a factor; None if it has none."""

RuleFunction = Callable[..., OpShardingRule | None]
"""A function of an operation, and optionally of the keyword ``conservative``."""

_Tensors = list[list[list[int]]]

# Equal mappings are one object: there are few, and rules of them compare faster.
_dim_mapping = lru_cache(maxsize=None)(DimMapping)


class RuleBuilder:
    """A builder of one rule; its methods return it, so that calls can be chained.

    Args:
        operand_types: The types of the operands; a type other than a ranked
            tensor (a token) counts as a scalar.
        result_types: The types of the results.
    """

    def __init__(self, operand_types: Iterable[Type], result_types: Iterable[Type]) -> None:
        self._operands: _Tensors = [[[] for _ in range(rank(t))] for t in operand_types]
        self._results: _Tensors = [[[] for _ in range(rank(t))] for t in result_types]
        self._sizes: list[int] = []
        self._by_kind: dict[FactorType, list[int]] = {}
        self._blocked: list[int] = []

    @staticmethod
    def of(op: Operation) -> RuleBuilder:
        """Return a builder for the operands and results of an operation."""
        return RuleBuilder([v.type for v in op.operands], [v.type for v in op.results])

    def add(
        self,
        operand_dims: Dims,
        result_dims: Dims,
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Add a factor to one dimension of each tensor.

        A dimension may get several factors, major to minor. A factor of size 1 is
        not added to a dimension that has a factor already.

        Args:
            operand_dims: One dimension per operand, or None.
            result_dims: One dimension per result, or None.
            size: Size of the factor.
            kind: Kind of the factor. Default: pass-through.
            blocked: Whether no sharding propagates along it. Default: no.
        """
        factor = self._number(size, kind, blocked)
        for what, tensors, dims in (
            ("operand", self._operands, operand_dims),
            ("result", self._results, result_dims),
        ):
            if len(tensors) != len(dims):
                raise ValueError(
                    f"{what}_dims must name a dimension (or None) for each of "
                    f"{len(tensors)} {what}s, but has {len(dims)} entries"
                )
            for index, (tensor, dim) in enumerate(zip(tensors, dims, strict=True)):
                if dim is None:
                    continue
                if not 0 <= dim < len(tensor):
                    raise ValueError(
                        f"{what} {index} has rank {len(tensor)}, but {what}_dims names its "
                        f"dimension {dim}"
                    )
                # The verifier rejects a factor of size 1 beside another one in a dimension.
                if size != 1 or not tensor[dim]:
                    tensor[dim].append(factor)
        return self

    def add_everywhere(
        self,
        dim: int,
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Add a factor to the same dimension of all tensors except scalars."""
        self._add_same((*self._operands, *self._results), dim, size, kind, blocked)
        return self

    def add_to_operands(
        self,
        dim: int,
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Add a factor to the same dimension of all operands except scalars."""
        self._add_same(self._operands, dim, size, kind, blocked)
        return self

    def add_to_results(
        self,
        dim: int,
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Add a factor to the same dimension of all results except scalars."""
        self._add_same(self._results, dim, size, kind, blocked)
        return self

    def add_pointwise(
        self,
        sizes: Sequence[int],
        kind_of: Callable[[int], FactorType | None] = lambda _: FactorType.PASS_THROUGH,
        *,
        blocked: Callable[[FactorType], bool] = lambda _: False,
    ) -> RuleBuilder:
        """Add one factor per dimension, shared by all tensors except scalars.

        Args:
            sizes: Sizes of the factors, one per dimension.
            kind_of: Returns the kind of a dimension's factor; None for no factor.
            blocked: Returns whether factors of a kind are blocked.
        """
        for dim, size in enumerate(sizes):
            kind = kind_of(dim)
            if kind is not None:
                self.add_everywhere(dim, size, kind, blocked=blocked(kind))
        return self

    def add_matching(
        self,
        in_sizes: Sequence[int],
        out_sizes: Sequence[int],
        mismatch: FactorType,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Add one factor of the input's size per dimension, in all tensors except scalars.

        Args:
            in_sizes: The shape of the input.
            out_sizes: The shape of the output.
            mismatch: Kind of the factors of dimensions in which the shapes differ.
            blocked: Whether those factors are blocked.
        """
        if len(in_sizes) != len(out_sizes):
            raise ValueError(
                f"input and output must have one rank, but have {len(in_sizes)} and "
                f"{len(out_sizes)} dimensions"
            )
        for dim, (in_size, out_size) in enumerate(zip(in_sizes, out_sizes, strict=True)):
            if in_size == out_size:
                self.add_everywhere(dim, in_size)
            else:
                self.add_everywhere(dim, in_size, mismatch, blocked=blocked)
        return self

    def build(self, *, custom: bool = False) -> OpShardingRule:
        """Return the rule; the builder is not changed.

        Args:
            custom: Mark it as the user's own rule: passes that drop rules keep it,
                and those that insert explicit reshards leave the operation alone.
        """
        # Both calls append the missing factors' sizes: operands before results.
        sizes = list(self._sizes)
        operands = _tensor_mappings(self._operands, sizes)
        results = _tensor_mappings(self._results, sizes)
        special = {kind: tuple(factors) for kind, factors in self._by_kind.items()}
        return OpShardingRule(
            tuple(sizes),
            operands,
            results,
            special.get(FactorType.REDUCTION, ()),
            special.get(FactorType.NEED_REPLICATION, ()),
            special.get(FactorType.PERMUTATION, ()),
            tuple(self._blocked),
            custom,
        )

    def _number(self, size: int, kind: FactorType, blocked: bool) -> int:
        factor = len(self._sizes)
        self._sizes.append(size)
        if blocked:
            self._blocked.append(factor)
        if kind is not FactorType.PASS_THROUGH:
            self._by_kind.setdefault(kind, []).append(factor)
        return factor

    def _add_same(
        self,
        tensors: Iterable[list[list[int]]],
        dim: int,
        size: int,
        kind: FactorType,
        blocked: bool,
    ) -> None:
        factor = self._number(size, kind, blocked)
        for tensor in tensors:
            if tensor:
                if not 0 <= dim < len(tensor):
                    raise ValueError(f"dim must be below the rank {len(tensor)}, but is {dim}")
                tensor[dim].append(factor)


def _tensor_mappings(tensors: _Tensors, sizes: list[int]) -> tuple[TensorMapping, ...]:
    """Return the mappings; a dimension without a factor gets one of size 1."""
    mappings = []
    for tensor in tensors:
        dims = []
        for factors in tensor:
            if factors:
                dims.append(_dim_mapping(tuple(factors)))
            else:
                dims.append(_dim_mapping((len(sizes),)))
                sizes.append(1)
        mappings.append(TensorMapping(tuple(dims)))
    return tuple(mappings)


def pointwise_rule(op: Operation) -> OpShardingRule | None:
    """Return the rule of an elementwise operation.

    The first result determines the sizes. None if there is no result, or if it is
    not a tensor.
    """
    if not op.results or not isinstance(op.results[0].type, TensorType):
        return None
    operands = tuple([rank(v.type) for v in op.operands])
    results = tuple([rank(v.type) for v in op.results])
    return _identity(shape(op.results[0]), operands, results)


def identity_rule(sizes: Sequence[int], operands: int = 1, results: int = 1) -> OpShardingRule:
    """Return the rule by which all tensors of one shape are sharded alike.

    Args:
        sizes: The shape.
        operands: Number of operands.
        results: Number of results.
    """
    rank_ = len(sizes)
    return _identity(tuple(sizes), (rank_,) * operands, (rank_,) * results)


@lru_cache(maxsize=4096)
def _identity(
    sizes: tuple[int, ...], operand_ranks: tuple[int, ...], result_ranks: tuple[int, ...]
) -> OpShardingRule:
    return OpShardingRule(
        sizes,
        tuple([_identity_mapping(r) for r in operand_ranks]),
        tuple([_identity_mapping(r) for r in result_ranks]),
    )


@lru_cache(maxsize=256)
def _identity_mapping(rank_: int) -> TensorMapping:
    return TensorMapping(tuple([_dim_mapping((dim,)) for dim in range(rank_)]))
