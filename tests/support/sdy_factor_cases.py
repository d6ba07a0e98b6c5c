"""Tensors, factors and steps for tests of the strategies along factors."""

from dataclasses import replace

from emu.sdy.dialect.attributes import (
    AxisRef,
    Mesh,
    MeshAxis,
    PropagationDirection,
    SubAxisInfo,
)
from emu.sdy.propagation.basic import StepContext
from emu.sdy.propagation.projection import (
    FactorSharding,
    Projection,
    TensorFactors,
)

MESH = Mesh((MeshAxis("a", 2), MeshAxis("b", 4), MeshAxis("c", 3), MeshAxis("d", 8)))


def ax(name, pre_size=0, size=0):
    return AxisRef(name, SubAxisInfo(pre_size, size) if size else None)


def tensor(factors, replicated=(), unreduced=()):
    """A tensor by its factors: axes, or a `FactorSharding`."""
    return TensorFactors(
        {
            f: s if isinstance(s, FactorSharding) else FactorSharding(tuple(s), is_minor_most=True)
            for f, s in factors.items()
        },
        replicated,
        unreduced,
    )


def closed(*axes):
    return FactorSharding(axes, is_closed=True, is_minor_most=True)


def context(projection, **changes):
    count = 1 + max(f for t in projection.tensors for f in t.factors)
    return replace(
        StepContext(MESH, (64,) * count, (PropagationDirection.BOTH,) * count), **changes
    )


def step(strategy, operands, results, **changes):
    """What a strategy makes of tensors: for each, the axes by factor."""
    projection = Projection(list(operands), list(results))
    after = projection.copy()
    updated = strategy(after, context(projection, **changes))
    for old, new, flag in zip(projection.tensors, after.tensors, updated, strict=True):
        assert flag == (old != new)
    return [{f: s.axes for f, s in t.factors.items()} for t in after.tensors]
