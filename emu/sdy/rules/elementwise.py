"""Rules of elementwise operations, and of those that rearrange elements."""

from __future__ import annotations

import math

from emu.mlir.ir import Operation
from emu.mlir.types import is_static_tensor
from emu.sdy.dialect.attributes import FactorType, OpShardingRule
from emu.sdy.rules.builder import RuleBuilder, RuleFunction, pointwise_rule
from emu.sdy.rules.reading import integer, integers, shape
from emu.stablehlo.dialect import SPECS


def _bitcast_convert(op: Operation) -> OpShardingRule:
    """Return the rule: all dimensions but the extra innermost one of the narrower type."""
    source, result = shape(op.operands[0]), shape(op.results[0])
    builder = RuleBuilder.of(op).add_pointwise(min(result, source, key=len))
    if len(source) < len(result):
        builder.add([None], [len(result) - 1], result[-1], FactorType.NEED_REPLICATION)
    elif len(source) > len(result):
        builder.add([len(source) - 1], [None], source[-1], FactorType.NEED_REPLICATION)
    return builder.build()


def _batch_norm_inference(op: Operation) -> OpShardingRule:
    """Return the rule: scale, offset, mean and variance have the feature dimension."""
    builder = RuleBuilder.of(op)
    feature = integer(op, "feature_index")
    for dim, size in enumerate(shape(op.operands[0])):
        statistics = 0 if dim == feature else None
        builder.add([dim, *[statistics] * (len(op.operands) - 1)], [dim], size)
    return builder.build()


def _broadcast_in_dim(op: Operation) -> OpShardingRule:
    """Return the rule: each dimension shares a factor with its source unless that has size 1."""
    builder = RuleBuilder.of(op)
    source = shape(op.operands[0])
    come_from = {out: dim for dim, out in enumerate(integers(op, "broadcast_dimensions") or ())}
    for out_dim, size in enumerate(shape(op.results[0])):
        in_dim = come_from.get(out_dim)
        if in_dim is not None and source[in_dim] == 1 and size != 1:
            builder.add([in_dim], [None], 1)
            in_dim = None
        builder.add([in_dim], [out_dim], size)
    return builder.build()


def _clamp(op: Operation) -> OpShardingRule:
    """Return the pointwise rule; the bounds may be scalars."""
    return RuleBuilder.of(op).add_pointwise(shape(op.operands[1])).build()


def _select(op: Operation) -> OpShardingRule:
    """Return the pointwise rule; the predicate may be a scalar."""
    return RuleBuilder.of(op).add_pointwise(shape(op.results[0])).build()


def _transpose(op: Operation) -> OpShardingRule:
    builder = RuleBuilder.of(op)
    sizes = shape(op.operands[0])
    for out_dim, in_dim in enumerate(integers(op, "permutation") or ()):
        builder.add([in_dim], [out_dim], sizes[in_dim])
    return builder.build()


def _reshape(op: Operation) -> OpShardingRule | None:
    """Return the rule: common factors of both shapes, and factors of only one of them."""
    source, result = op.operands[0].type, op.results[0].type
    if not is_static_tensor(source) or not is_static_tensor(result):
        return None
    if source.size != result.size:
        raise ValueError(f"{source} and {result} differ in their number of elements")
    # A dimension of size 0 has no factors to match.
    if source.size == 0:
        return None
    walk = _ReshapeWalk(RuleBuilder.of(op), source.static_shape, result.static_shape)
    while walk.step():
        pass
    return walk.builder.build()


class _Side:
    """Position of a reshape's walk in one of its two shapes.

    Attributes:
        dim: The current dimension.
        dims_product: Product of the dimensions begun.
        factors_product: Product of the factors given to them.
    """

    __slots__ = ("dim", "dims_product", "factors_product", "sizes")

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.dim = 0
        self.dims_product = 1
        self.factors_product = 1

    @property
    def open(self) -> bool:
        """Whether any dimension is left."""
        return self.dim < len(self.sizes)

    @property
    def at_one(self) -> bool:
        """Whether the current dimension has size 1."""
        return self.open and self.sizes[self.dim] == 1

    def begin(self) -> None:
        """Begin the current dimension if the one before it is done."""
        if self.open and self.dims_product == self.factors_product:
            self.dims_product *= self.sizes[self.dim]

    @property
    def remaining(self) -> int:
        """Product of the rest of the dimensions begun, not yet covered by factors."""
        return self.dims_product // self.factors_product

    def take(self, size: int) -> None:
        """Give a factor to the current dimension."""
        self.factors_product *= size

    def end(self) -> None:
        """Go to the next dimension if this one is done."""
        if self.open and self.dims_product == self.factors_product:
            self.dim += 1

    def catch_up(self, other: _Side, common: int) -> int:
        """Return the factor that brings this side closer to the other side.

        One that catches up at once, else one after which the two sides still have
        their greatest common divisor to share.
        """
        remaining = self.remaining
        ratio, rest = divmod(other.factors_product, self.factors_product)
        if rest == 0 and remaining % ratio == 0:
            return ratio
        return remaining // common if remaining > common else remaining


class _ReshapeWalk:
    """A walk through two shapes with the same number of elements, major to minor.

    While the products of the factors on both sides agree, the greatest common
    divisor of the rests of both dimensions is a common factor. If it is 1, each
    side gets a factor of its own; from then on the side that is behind gets
    factors until the products agree again.
    """

    def __init__(
        self, builder: RuleBuilder, source: tuple[int, ...], result: tuple[int, ...]
    ) -> None:
        self.builder = builder
        self.source = _Side(source)
        self.result = _Side(result)

    def step(self) -> bool:
        """Add the next one or two factors; return False at the end."""
        source, result = self.source, self.result
        if not source.open and not result.open:
            return False
        # Dimensions of size 1 share nothing.
        if source.at_one:
            self.builder.add([source.dim], [None], 1)
            source.dim += 1
        elif result.at_one:
            self.builder.add([None], [result.dim], 1)
            result.dim += 1
        else:
            source.begin()
            result.begin()
            self._add_factors()
            source.end()
            result.end()
        return True

    def _add_factors(self) -> None:
        source, result = self.source, self.result
        common = math.gcd(source.remaining, result.remaining)
        if source.factors_product == result.factors_product:
            if common > 1:
                self.builder.add([source.dim], [result.dim], common)
                source.take(common)
                result.take(common)
            else:
                self._take_source(source.remaining)
                self._take_result(result.remaining)
        elif source.factors_product < result.factors_product:
            self._take_source(source.catch_up(result, common))
        else:
            self._take_result(result.catch_up(source, common))

    def _take_source(self, size: int) -> None:
        self.builder.add([self.source.dim], [None], size)
        self.source.take(size)

    def _take_result(self, size: int) -> None:
        self.builder.add([None], [self.result.dim], size)
        self.result.take(size)


RULES: dict[str, RuleFunction] = {
    **{name: pointwise_rule for name, spec in SPECS.items() if spec.pointwise},
    "sdy.sharding_constraint": pointwise_rule,
    "stablehlo.batch_norm_inference": _batch_norm_inference,
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.clamp": _clamp,
    "stablehlo.reshape": _reshape,
    "stablehlo.select": _select,
    "stablehlo.transpose": _transpose,
}
"""Rule functions, by name of the operation."""
