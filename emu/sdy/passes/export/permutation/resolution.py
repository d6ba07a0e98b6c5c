"""``sdy-resolve-permutation-factors``: handles shards that need elements of other shards.

Along a permutation factor, a device's results depend on elements that other devices
hold: the windows of a convolution cross the borders of shards, a reversed dimension
starts on the last device. Mostly the tensors are resharded so that each device has
the whole dimension. Pads, slices, reverses and reshapes can do better: there the
devices exchange elements with their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import is_static_tensor
from emu.sdy.dialect.attributes import Mesh, OpShardingRule, TensorSharding
from emu.sdy.dialect.builders import make_mesh
from emu.sdy.dialect.meshes import common_mesh_or_name, find_mesh, get_mesh
from emu.sdy.dialect.shardings import get_sharding, get_shardings
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.builder import tensor
from emu.sdy.passes.export.device_counts import check_device_counts
from emu.sdy.passes.export.permutation.halo import Channels, Site
from emu.sdy.passes.export.permutation.locality import is_local_pad_dim, is_local_slice_dim
from emu.sdy.passes.export.permutation.pad_and_slice import exchange_for_pad, exchange_for_slice
from emu.sdy.passes.export.permutation.reshape import resolve_reshape
from emu.sdy.passes.export.permutation.reverse import reverse_shards
from emu.sdy.passes.export.reshards.insertion import Rewrite
from emu.sdy.propagation.projection import project
from emu.sdy.rules import get_or_create
from emu.stablehlo.attributes import ChannelHandle

_LOCAL: dict[str, Callable[[Operation, int, TensorSharding, Mesh], bool]] = {
    "stablehlo.pad": is_local_pad_dim,
    "stablehlo.slice": is_local_slice_dim,
}


class ResolvePermutationFactors(ModulePass, name="sdy-resolve-permutation-factors"):
    """Replace operations with permutation factors by ones that work on shards.

    Attributes:
        enable_halo_exchange: Whether pads, reshapes, reverses and slices work shard
            by shard where possible, with elements from neighbours. Otherwise
            permutation factors are replicated by reshards.
        replica_count: Number of replicas; if greater than 1, devices are replicas.
        partition_count: Number of partitions; only one of the two may be greater
            than 1.
    """

    enable_halo_exchange: bool = True
    replica_count: int = 1
    partition_count: int = 1

    def run(self, op: Operation, session: Session) -> None:
        """Visit inner operations before outer ones."""
        check_device_counts(self.name, self.replica_count, self.partition_count, op, session)
        resolver = _Resolver(
            op, session, halo=self.enable_halo_exchange, is_replica=self.replica_count > 1
        )
        for each in list(op.walk(post_order=True)):
            if each.dialect == "stablehlo" and not definition(each.name).terminator:
                resolver.visit(each)


class _Resolver:
    def __init__(
        self, module: Operation, session: Session, *, halo: bool, is_replica: bool
    ) -> None:
        self._module = module
        self._session = session
        self._halo = halo
        self._is_replica = is_replica
        self._table = SymbolTable(module)
        handles = (op.attribute("channel_handle") for op in module.walk())
        known = [each.handle for each in handles if isinstance(each, ChannelHandle)]
        self._channels = Channels(max(0, 0, *known))
        self._names: dict[Mesh, str] = {}
        for each in module.body():
            mesh = each.properties.get("mesh")
            if isinstance(mesh, Mesh) and each.symbol_name is not None:
                self._names[mesh] = each.symbol_name

    def _fail(self, op: Operation, message: str) -> PassFailed:
        self._session.diagnostics.error(op.location, message)
        return PassFailed(message)

    def visit(self, op: Operation) -> None:
        """Let an operation work on shards."""
        if op.name == "stablehlo.reshape":
            site = self._site(op) or self._site_of_result(op)
            if site is not None:
                resolve_reshape(site, enable_halo_exchange=self._halo)
            return
        rule = get_or_create(op, set_on_op=False, diagnostics=self._session.diagnostics)
        if rule is None or rule.is_custom:
            return
        factors = set(rule.permutation)
        if op.name == "stablehlo.pad":
            # The rule passes a dimension of unchanged size through, whose elements may be shifted.
            factors |= self._shifted_dims(op)
        if factors and (not self._halo or not self._exchange(op)):
            self._replicate(op, rule, sorted(factors))

    def _shifted_dims(self, op: Operation) -> set[int]:
        """Return the dimensions of unchanged size in which a pad moves elements to other shards."""
        site = self._site(op)
        if site is None:
            return set()
        made = tensor(op.result).shape
        return {
            dim
            for dim, size in enumerate(site.shape)
            if size == made[dim] and not is_local_pad_dim(op, dim, site.sharding, site.mesh)
        }

    def _site(self, op: Operation) -> Site | None:
        """Return the operation's site; None if its operand is not sharded."""
        sharding, type_ = get_sharding(op.operands[0]), op.operands[0].type
        if sharding is None or sharding.is_fully_replicated or not is_static_tensor(type_):
            return None
        mesh = find_mesh(self._table, sharding.mesh)
        if mesh is None or mesh.is_maximal:
            return None
        return Site(op, sharding, mesh, self._channels, self._is_replica)

    def _site_of_result(self, op: Operation) -> Site | None:
        """Return the site of an operation whose result only is sharded; None if it is not."""
        target, type_ = get_sharding(op.result), op.operands[0].type
        if _is_whole(target) or target is None or not is_static_tensor(type_):
            return None
        mesh = find_mesh(self._table, target.mesh)
        if mesh is None or mesh.is_maximal:
            return None
        whole = TensorSharding.fully_closed(type_.rank, target.mesh)
        return Site(op, whole, mesh, self._channels, self._is_replica)

    # By an exchange

    def _exchange(self, op: Operation) -> bool:
        """Return whether the operation is done."""
        if op.name not in {"stablehlo.pad", "stablehlo.reverse", "stablehlo.slice"}:
            return False
        site = self._site(op)
        if site is None:
            return _is_whole(get_sharding(op.result))
        if op.name == "stablehlo.pad":
            return exchange_for_pad(site)
        if op.name == "stablehlo.slice":
            return exchange_for_slice(site)
        if isinstance(site.sharding.mesh, Mesh):
            raise self._inlined(op)
        reverse_shards(site, self._mesh_name)
        return True

    def _mesh_name(self, mesh: Mesh, base: str) -> str:
        """Return the name of a mesh's operation; insert one at the front if there is none."""
        name = self._names.get(mesh)
        if name is None:
            new = make_mesh(f"{base}_reversed", mesh, self._module.location)
            name = self._names[mesh] = self._table.insert(new, self._module.body().first)
        return name

    # By reshards

    def _replicate(self, op: Operation, rule: OpShardingRule, factors: Sequence[int]) -> None:
        """Reshard so that none of some factors is sharded."""
        ins, outs = get_shardings(op.operands), get_shardings(op.results)
        name = common_mesh_or_name((*ins, *outs), self._table, ignore_device_ids=True)
        if name is None:
            return
        if isinstance(name, Mesh):
            raise self._inlined(op)
        mesh = get_mesh(self._table, name)
        if mesh.is_maximal:
            return
        projection = project(rule, ins, outs, mesh, closed_if_missing=True)
        changed = [False] * (len(ins) + len(outs))
        for factor in factors:
            if op.name in _LOCAL and self._is_local(op, factor, mesh):
                continue
            updated = projection.update(factor, ())
            changed = [a or b for a, b in zip(changed, updated, strict=True)]
        if any(changed):
            Rewrite(op, rule, projection, name, mesh, self._table).insert(ins, outs, changed)

    def _inlined(self, op: Operation) -> PassFailed:
        return self._fail(op, "a sharding has its mesh inlined: run sdy-lift-inlined-meshes first")

    def _is_local(self, op: Operation, factor: int, mesh: Mesh) -> bool:
        # The factors of a slice and of a pad are their dimensions.
        sharding, result = get_sharding(op.operands[0]), get_sharding(op.result)
        if _is_whole(sharding) and _is_whole(result):
            return True
        if sharding is None or sharding != result:
            if op.name == "stablehlo.pad":
                return False
            raise self._fail(
                op,
                "the operand and the result of a slice must have the same sharding: run "
                "sdy-insert-explicit-reshards first",
            )
        return _LOCAL[op.name](op, factor, sharding, mesh)


def _is_whole(sharding: TensorSharding | None) -> bool:
    return sharding is None or sharding.is_fully_replicated
