"""``sdy-per-instruction-partitioning``: partitions some operations, each by itself.

For finding the operation that is partitioned wrong: each chosen one becomes a manual
computation of what its devices do, and the rest of the program stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import StringAttr, TypeAttr
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import FunctionType, TensorType, Type, is_static_tensor
from emu.sdy.dialect.attributes import Mesh, TensorSharding
from emu.sdy.dialect.builders import make_manual_computation, make_mesh, make_return
from emu.sdy.dialect.functions import set_func_arg_sharding, set_func_result_sharding
from emu.sdy.dialect.meshes import common_mesh_or_name, get_mesh
from emu.sdy.dialect.names import COLLECTIVES
from emu.sdy.dialect.shardings import get_or_create_sharding, get_shardings, set_sharding
from emu.sdy.passes.base import ModulePass, Pass, Session, run_pass
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.cleanup import DropShardingAndMesh
from emu.sdy.passes.export.collectives import ReshardToCollectives
from emu.sdy.passes.export.device_counts import check_device_counts
from emu.sdy.passes.export.local.conversion import ConvertGlobalToLocal
from emu.sdy.passes.export.padding import PadForDivisibility
from emu.sdy.passes.export.permutation.locality import even_shape
from emu.sdy.passes.export.permutation.resolution import ResolvePermutationFactors
from emu.sdy.passes.export.reshards.insertion import InsertExplicitReshards
from emu.sdy.passes.export.unevenness import unsafe_factors
from emu.sdy.passes.insertion_point import Place
from emu.sdy.rules import get_or_create

_SKIPPED = frozenset(
    {
        *COLLECTIVES,
        "func.call",
        "sdy.data_flow_edge",
        "sdy.manual_computation",
        "sdy.named_computation",
        "sdy.propagation_barrier",
        "sdy.sharding_constraint",
        "sdy.sharding_group",
    }
)
_SHARDING_CALLS = frozenset({"Sharding", "mhlo.sharding"})
# Sums of what is padded with zeros on both sides.
_SUMS_OF_PRODUCTS = frozenset({"stablehlo.dot", "stablehlo.dot_general"})


class PerInstructionPartitioning(ModulePass, name="sdy-per-instruction-partitioning"):
    """Partition the chosen operations, and wrap each in a manual computation.

    Only operations directly in functions that have a sharded operand or result are
    candidates; no calls, collectives or computations with regions of shardings.

    Attributes:
        filter: Which candidates: parts of names (``dot,add``; any of them), or numbers
            of candidates in program order from 0 on (``selectLow=3, selectHigh=5``,
            both included), or both. All if empty.
        enable_halo_exchange: As in ``sdy-resolve-permutation-factors``.
        replica_count: Number of replicas; if greater than 1, devices are replicas.
        partition_count: Number of partitions; only one of the two may be greater
            than 1.
    """

    filter: str = ""
    enable_halo_exchange: bool = True
    replica_count: int = 1
    partition_count: int = 1

    def run(self, op: Operation, session: Session) -> None:
        """Choose all operations first, and then partition them in program order."""
        check_device_counts(self.name, self.replica_count, self.partition_count, op, session)
        chosen = _parse_filter(self.filter, op, session)
        found = [
            each for number, each in enumerate(_candidates(op)) if chosen.matches(each.name, number)
        ]
        for each in found:
            _Partition(self, op, each, session).wrap()


@dataclass(frozen=True, slots=True)
class _Filter:
    low: int
    high: int | None
    names: tuple[str, ...]

    def matches(self, name: str, number: int) -> bool:
        """Return whether a candidate is chosen."""
        if number < self.low or (self.high is not None and number > self.high):
            return False
        return not self.names or any(part in name for part in self.names)


def _parse_filter(text: str, module: Operation, session: Session) -> _Filter:
    low, high, names = 0, None, []
    for word in text.strip().strip("'\"").split(","):
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            names += [key] if key else []
            continue
        if key not in {"selectLow", "selectHigh"} or not value.isdecimal() or len(value) > 18:
            message = (
                "filter must have parts of names, selectLow=N and selectHigh=N with N from 0 on, "
                f"but has {word.strip()!r}"
            )
            session.diagnostics.error(module.location, message)
            raise PassFailed(message)
        if key == "selectLow":
            low = int(value)
        else:
            high = int(value)
    return _Filter(low, high, tuple(names))


def _candidates(module: Operation) -> Iterable[Operation]:
    for func in [op for op in module.body() if op.name == "func.func"]:
        if not func.regions[0].blocks:
            continue
        for op in list(func.body().operations):
            if definition(op.name).terminator or op.name in _SKIPPED:
                continue
            target = op.properties.get("call_target_name")
            if isinstance(target, StringAttr) and target.value in _SHARDING_CALLS:
                continue
            shardings = (*get_shardings(op.operands), *get_shardings(op.results))
            if any(each is not None and not each.is_fully_replicated for each in shardings):
                yield op


class _Partition:
    """The partitioning of one operation."""

    def __init__(
        self,
        options: PerInstructionPartitioning,
        module: Operation,
        op: Operation,
        session: Session,
    ) -> None:
        self._options = options
        self._module = module
        self._op = op
        self._session = session
        table = SymbolTable(module)
        shardings = (*get_shardings(op.operands), *get_shardings(op.results))
        name = common_mesh_or_name(shardings, table)
        if not isinstance(name, str):
            what = "different meshes" if name is None else "an inlined mesh"
            raise self._failed(f"an operation whose shardings have {what} cannot be partitioned")
        self._mesh = get_mesh(table, name)
        self._ins = [self._closed(value, name) for value in op.operands]
        self._outs = [self._closed(value, name).with_unreduced(()) for value in op.results]
        self._axes = [
            axis.name
            for axis in dict.fromkeys(
                axis
                for sharding in (*self._ins, *self._outs)
                for dim in sharding.dims
                for axis in dim.axes
            )
        ]

    def _failed(self, message: str) -> PassFailed:
        self._session.diagnostics.error(self._op.location, message)
        return PassFailed(message)

    def _closed(self, value: Value, name: str) -> TensorSharding:
        sharding = get_or_create_sharding(value, name, closed_if_missing=True)
        if isinstance(sharding.mesh, Mesh):
            return TensorSharding(name, sharding.dims, sharding.replicated_axes)
        return sharding

    def wrap(self) -> None:
        """Replace the operation by a manual computation."""
        op = self._op
        operands = [value.type for value in op.operands]
        results = [value.type for value in op.results]
        if op.name == "sdy.reshard":
            # Both sides must be even, since the operand and the result have one type.
            both = self._even(self._even(operands[0], self._ins[0]), self._outs[0])
            new_operands = new_results = [both]
        else:
            new_operands = list(map(self._even, operands, self._ins))
            new_results = list(map(self._even, results, self._outs))
            if [*new_operands, *new_results] != [*operands, *results]:
                self._check_padding(new_operands, new_results)
        padded = [
            self._padded(value, type_, sharding)
            for value, type_, sharding in zip(op.operands, new_operands, self._ins, strict=True)
        ]
        body = self._localized(new_operands, new_results)
        names = list(dict.fromkeys(self._axes))
        manual = make_manual_computation(
            padded, new_results, self._ins, self._outs, names, body, op.location
        )
        Place.before(op).insert(manual)
        for old, new, sharding in zip(op.results, manual.results, self._outs, strict=True):
            old.replace_all_uses_with(self._trimmed(new, old.type, sharding))
        op.erase()

    def _even(self, type_: Type, sharding: TensorSharding) -> Type:
        if not is_static_tensor(type_):
            return type_
        return TensorType(even_shape(type_.static_shape, sharding, self._mesh), type_.element)

    def _check_padding(self, operands: Sequence[Type], results: Sequence[Type]) -> None:
        """Raise PassFailed if elements would be mixed with padding."""
        op = self._op
        if op.name in _SUMS_OF_PRODUCTS:
            return
        pairs = zip((*op.operands, *op.results), (*operands, *results), strict=True)
        uneven = [
            [
                dim
                for dim, (size, other) in enumerate(zip(tensor(old).shape, new.shape, strict=True))
                if size != other
            ]
            if isinstance(new, TensorType)
            else []
            for old, new in pairs
        ]
        rule = get_or_create(op, set_on_op=False, diagnostics=self._session.diagnostics)
        if rule is None or rule.is_custom or unsafe_factors(op, rule, uneven):
            raise self._failed(
                "an operation that mixes elements along an uneven dimension cannot be "
                "partitioned by itself"
            )

    def _padded(self, value: Value, type_: Type, sharding: TensorSharding) -> Value:
        if value.type == type_ or not isinstance(type_, TensorType):
            return value
        build = Builder.before(self._op)
        padded = build.pad_high(value, build.zero(type_.element), type_.shape)
        set_sharding(padded, sharding)
        return padded

    def _trimmed(self, value: Value, type_: Type, sharding: TensorSharding) -> Value:
        if value.type == type_ or not is_static_tensor(type_):
            return value
        shape = type_.static_shape
        trimmed = Builder.before(self._op).slice(value, [0] * len(shape), shape)
        set_sharding(trimmed, sharding)
        return trimmed

    def _localized(self, operands: Sequence[Type], results: Sequence[Type]) -> Region:
        """Return what each device does, which takes and gives shards."""
        module = Operation("builtin.module", regions=[Region()], location=self._op.location)
        top = module.regions[0].add_block()
        for each in self._module.body():
            mesh = each.properties.get("mesh")
            if isinstance(mesh, Mesh) and each.symbol_name is not None:
                top.append(make_mesh(each.symbol_name, mesh, each.location))
        top.append(self._outlined(operands, results))
        for step in self._passes():
            run_pass(step, module, self._session)
        func = next(each for each in module.body() if each.name == "func.func")
        block = func.body()
        last = block.terminator
        block.append(make_return(last.operands, last.location))
        last.erase()
        region = Region()
        region.take_body(func.regions[0])
        return region

    def _outlined(self, operands: Sequence[Type], results: Sequence[Type]) -> Operation:
        op = self._op
        region = Region()
        block = region.add_block()
        arguments = [block.add_argument(type_, op.location) for type_ in operands]
        copy = op.clone(dict(zip(op.operands, arguments, strict=True)))
        for index, argument in enumerate(arguments):
            copy.set_operand(index, argument)
        for result, type_ in zip(copy.results, results, strict=True):
            result.change_type(type_)
        block.append(copy)
        block.append(Operation("func.return", copy.results, location=op.location))
        type_ = FunctionType(tuple(operands), tuple(results))
        func = Operation(
            "func.func",
            properties={
                "sym_name": StringAttr("outlined"),
                "function_type": TypeAttr(type_),
                "sym_visibility": StringAttr("private"),
            },
            regions=[region],
            location=op.location,
        )
        for index, sharding in enumerate(self._ins):
            set_func_arg_sharding(func, index, sharding)
        for index, sharding in enumerate(self._outs):
            set_func_result_sharding(func, index, sharding)
        return func

    def _passes(self) -> list[Pass]:
        options = self._options
        return [
            ResolvePermutationFactors(
                options.enable_halo_exchange, options.replica_count, options.partition_count
            ),
            InsertExplicitReshards(enable_full_version=True),
            ReshardToCollectives(),
            PadForDivisibility(),
            ConvertGlobalToLocal(
                replica_count=options.replica_count, partition_count=options.partition_count
            ),
            DropShardingAndMesh(),
        ]
