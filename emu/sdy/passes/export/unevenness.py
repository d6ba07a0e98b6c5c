"""``emu-resolve-uneven-shards``: gathers what cannot be computed on shards of different sizes.

Where a number of shards does not divide a dimension, ``sdy-pad-for-divisibility`` pads it, and then computes
on the padding too. That is right where elements stay apart. A sum includes the padding, and a reshape or a
concatenation mixes it with elements: Shardy's results are silently wrong there. This pass, which Shardy does
not have, makes such dimensions whole around the operation.

It also takes reshards apart that move axes between uneven dimensions: everything that changes is gathered, and
then sliced, since the padding does not fit into an all-to-all or a permutation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emu.mlir.ir import Operation, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import (
    AxisRef,
    AxisRefList,
    DimensionSharding,
    FactorType,
    Mesh,
    OpShardingRule,
    TensorSharding,
)
from emu.sdy.dialect.axes import axis_set_difference
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.meshes import common_mesh_or_name, find_mesh
from emu.sdy.dialect.shardings import (
    get_sharding,
    get_shardings,
    set_sharding,
)
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.builder import tensor
from emu.sdy.passes.export.permutation.locality import is_local_reshape
from emu.sdy.passes.export.reshards.insertion import Rewrite
from emu.sdy.passes.insertion_point import Place, location_of, replace_other_uses
from emu.sdy.propagation.projection import project
from emu.sdy.rules import get_or_create

_Shardings = Sequence[TensorSharding | None]


class ResolveUnevenShards(ModulePass, name="emu-resolve-uneven-shards"):
    """Make dimensions whole whose shards are uneven, where padding would mix with elements.

    Run it after ``sdy-resolve-permutation-factors`` and before ``sdy-reshard-to-collectives``.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Visit inner operations before outer ones, and then the reshards."""
        resolver = _Resolver(SymbolTable(op), session)
        for each in list(op.walk(post_order=True)):
            if each.name == "sdy.constant" or (
                each.dialect == "stablehlo" and not definition(each.name).terminator
            ):
                resolver.visit(each)
        for each in list(op.walk()):
            if each.name == "sdy.reshard":
                resolver.take_apart(each)


class _Resolver:
    def __init__(self, table: SymbolTable, session: Session) -> None:
        self._table = table
        self._session = session

    def _mesh(self, sharding: TensorSharding | None) -> Mesh | None:
        if sharding is None or sharding.is_fully_replicated:
            return None
        return find_mesh(self._table, sharding.mesh)

    def _uneven(self, value: Value, sharding: TensorSharding | None) -> Iterator[int]:
        """Iterate over the dimensions whose shards would have different sizes."""
        mesh = self._mesh(sharding)
        if mesh is None or sharding is None or not isinstance(value.type, TensorType):
            return
        for index, (size, dim) in enumerate(zip(value.type.shape, sharding.dims, strict=True)):
            if size is not None and size % dim.sharded_size(mesh):
                yield index

    def visit(self, op: Operation) -> None:
        """Gather the factors of an operation that must be whole."""
        values = (*op.operands, *op.results)
        shardings = (*get_shardings(op.operands), *get_shardings(op.results))
        uneven = [list(self._uneven(v, s)) for v, s in zip(values, shardings, strict=True)]
        if not any(uneven):
            return
        if not op.operands:
            self._gather_results(op)
            return
        if op.name == "stablehlo.reshape":
            mesh = self._mesh(shardings[0])
            if mesh is not None and is_local_reshape(op, mesh):
                return
        rule = get_or_create(op, set_on_op=False, diagnostics=self._session.diagnostics)
        if rule is not None and not rule.is_custom:
            factors = unsafe_factors(op, rule, uneven)
            if factors:
                self._replicate(op, rule, factors)

    def _replicate(self, op: Operation, rule: OpShardingRule, factors: set[int]) -> None:
        ins, outs = get_shardings(op.operands), get_shardings(op.results)
        name = common_mesh_or_name((*ins, *outs), self._table, ignore_device_ids=True)
        mesh = find_mesh(self._table, name) if name is not None else None
        if mesh is None or not isinstance(name, str):
            return
        projection = project(rule, ins, outs, mesh, closed_if_missing=True)
        changed = [False] * (len(ins) + len(outs))
        reduced = [
            axis
            for tensor in projection.operands
            for factor in factors & set(rule.reduction)
            if factor in tensor.factors
            for axis in (*tensor.factors[factor].axes, *tensor.factors[factor].overflow_axes)
        ]
        for factor in sorted(factors):
            updated = projection.update(factor, ())
            changed = [a or b for a, b in zip(changed, updated, strict=True)]
        if any(changed):
            # Each device then reduces everything: nothing is left to add up along these axes.
            _reduce_less(op, reduced, mesh)
            Rewrite(op, rule, projection, name, mesh, self._table).insert(ins, outs, changed)

    def _gather_results(self, op: Operation) -> None:
        """Let an operation without operands give whole results, and slice those."""
        for result in op.results:
            sharding = get_sharding(result)
            dims = list(self._uneven(result, sharding))
            if sharding is None or not dims:
                continue
            whole = _without(sharding, dims)
            place = Place.after(op)
            added = place.insert(make_reshard(result, sharding, location_of(result)))
            replace_other_uses(result, added.result)
            set_sharding(result, whole)

    def take_apart(self, op: Operation) -> None:
        """Let a reshard of uneven dimensions gather first, and then slice."""
        (value,), result = op.operands, op.result
        old, new = get_sharding(value), get_sharding(result)
        if old is None or new is None or old.rank != new.rank:
            return
        if not (
            any(True for _ in self._uneven(value, old))
            or any(True for _ in self._uneven(result, new))
        ):
            return
        pairs = enumerate(zip(old.dims, new.dims, strict=True))
        different = [index for index, (a, b) in pairs if a.axes != b.axes]
        gathered = _without(old, different)
        if gathered.dims == old.dims or gathered.dims == new.dims:
            return  # it only gathers or only slices
        added = Place.before(op).insert(make_reshard(value, gathered, op.location))
        op.set_operand(0, added.result)


def _reduce_less(op: Operation, axes: Sequence[AxisRef], mesh: Mesh) -> None:
    """Take axes out of the all-reduces of an operation's results."""
    for result in op.results:
        for user in result.users:
            if user.name != "sdy.all_reduce" or not axes:
                continue
            old = user.properties["reduction_axes"]
            assert isinstance(old, AxisRefList)
            left = tuple(axis_set_difference(old.axes, axes, mesh))
            if left:
                user.properties["reduction_axes"] = AxisRefList(left)
            else:
                user.result.replace_all_uses_with(result)
                user.erase()


def unsafe_factors(
    op: Operation, rule: OpShardingRule, uneven: Sequence[Sequence[int]]
) -> set[int]:
    """Return the factors of uneven dimensions whose padding would not stay apart."""
    found: set[int] = set()
    for mapping, dims in zip(rule.tensors, uneven, strict=True):
        for dim in dims:
            factors = mapping.dims[dim].factors
            if len(factors) != 1 or not _stays_apart(rule, factors[0]):
                found.update(factors)
    if op.name == "stablehlo.dynamic_update_slice":
        # An update that would reach beyond the end is moved back: the end must be where it was.
        sizes = (tensor(value).shape for value in op.operands[:2])
        partial = [dim for dim, pair in enumerate(zip(*sizes, strict=True)) if pair[0] != pair[1]]
        for dim in set(partial) & set(uneven[0]):
            found.update(rule.operands[0].dims[dim].factors)
    return found


def _stays_apart(rule: OpShardingRule, factor: int) -> bool:
    """Return whether elements along a factor go with each other one by one, from operands to results."""
    if rule.factor_type(factor) is not FactorType.PASS_THROUGH:
        return False
    dims = [dim.factors for mapping in rule.tensors for dim in mapping.dims]
    if any(factor in factors and len(factors) > 1 for factors in dims):
        return False
    return all(mapping.contains_factor(factor) for mapping in rule.results if mapping.dims)


def _without(sharding: TensorSharding, dims: Sequence[int]) -> TensorSharding:
    """Return a sharding with some dimensions whole."""
    return sharding.with_dims(
        [DimensionSharding() if i in dims else dim for i, dim in enumerate(sharding.dims)]
    )
