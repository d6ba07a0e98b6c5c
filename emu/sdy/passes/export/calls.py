"""Export of functions and calls: outlining of named computations, deduplication of functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from emu.mlir.attributes import Attribute, StringAttr, SymbolRefAttr, TypeAttr
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import FunctionType
from emu.sdy.dialect.attributes import TensorSharding, TensorShardingPerValue
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.functions import (
    callee_name,
    find_function,
    func_arg_shardings,
    func_result_shardings,
    modify_arg_attributes,
    original_func_name,
)
from emu.sdy.dialect.names import EXECUTION_THREAD, FUNC_MANUAL_AXES, ORIGINAL_FUNC_NAME, SHARDING
from emu.sdy.dialect.shardings import (
    fully_closed_like,
    get_sharding,
    set_shardings,
    sharding_per_value,
)
from emu.sdy.dialect.tensors import is_equivalent
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.export.data_flow import shardings_of_edges
from emu.sdy.passes.insertion_point import Place, replace_other_uses

# Named computations


class ExportNamedComputations(ModulePass, name="sdy-export-named-computations"):
    """Outline each ``sdy.named_computation`` as a private function and a call of it.

    The shardings of its edges, or else its own, become those of the function's
    arguments and of the call's results. If a name is taken, a number is appended.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Export inner computations before the outer ones."""
        table = SymbolTable(op)
        results: list[Value] = []
        computations = [
            each for each in op.walk(post_order=True) if each.name == "sdy.named_computation"
        ]
        for computation in computations:
            results += _export(computation, op, table).results
        _remove_edges(results)


def _export(computation: Operation, module: Operation, table: SymbolTable) -> Operation:
    ins = _edge_or_own(computation, computation.body().arguments, "in_shardings")
    outs = _edge_or_own(computation, computation.results, "out_shardings")
    func = _outline(computation, ins)
    module.body().append(func)
    name = table.insert(func)
    call = Operation(
        "func.call",
        computation.operands,
        [result.type for result in computation.results],
        properties={"callee": SymbolRefAttr(name)},
        attributes={k: v for k, v in computation.attributes.items() if k != EXECUTION_THREAD},
        location=computation.location,
    )
    if outs is not None:
        set_shardings(call, outs)
    Place.before(computation).insert(call)
    computation.replace_with(call.results)
    return call


def _edge_or_own(
    computation: Operation, owners: Sequence[Value], name: str
) -> TensorShardingPerValue | None:
    if shardings := shardings_of_edges(owners):
        return TensorShardingPerValue(tuple(shardings))
    own = computation.properties.get(name)
    return own if isinstance(own, TensorShardingPerValue) else None


def _outline(computation: Operation, ins: TensorShardingPerValue | None) -> Operation:
    """Return a function with the computation's body, which is moved."""
    name = computation.properties["name"]
    block = computation.body()
    type_ = FunctionType(
        tuple(argument.type for argument in block.arguments),
        tuple(result.type for result in computation.results),
    )
    func = Operation(
        "func.func",
        properties={
            "sym_name": name,
            "function_type": TypeAttr(type_),
            "sym_visibility": StringAttr("private"),
        },
        attributes={ORIGINAL_FUNC_NAME: name},
        location=computation.location,
    )
    func.add_region(Region()).take_body(computation.regions[0])
    old = block.terminator
    block.append(Operation("func.return", old.operands, location=old.location))
    old.erase()
    _remove_edges(block.arguments)
    if ins is not None:
        shardings = ins.shardings

        def put(entries: dict[str, Attribute], index: int) -> None:
            entries[SHARDING] = shardings[index]

        modify_arg_attributes(func, put)
    if EXECUTION_THREAD in computation.attributes:
        func.attributes[EXECUTION_THREAD] = computation.attributes[EXECUTION_THREAD]
    return func


def _remove_edges(values: Iterable[Value]) -> None:
    for value in values:
        users = value.users
        if users and users[0].name == "sdy.data_flow_edge":
            users[0].replace_with([value])


# Deduplication of functions

_Key = tuple[str, Attribute | None, TensorShardingPerValue | None, TensorShardingPerValue | None]


class _Keys:
    """Keys that distinguish functions: origin, manual axes, shardings."""

    def __init__(self, table: SymbolTable) -> None:
        self._table = table
        self._keys: dict[Operation, _Key] = {}

    def full(self, func: Operation) -> _Key:
        """Return the key that includes shardings."""
        key = self._keys.get(func)
        if key is None:
            ins = func_arg_shardings(func, self._table)
            outs = func_result_shardings(func, self._table)
            key = self._keys[func] = (*self.origin(func)[:2], ins, outs)
        return key

    def origin(self, func: Operation) -> _Key:
        """Return the key without shardings."""
        return (original_func_name(func), func.attributes.get(FUNC_MANUAL_AXES), None, None)


class UnflattenCallGraph(ModulePass, name="sdy-unflatten-call-graph"):
    """Let calls of equally sharded copies of a function call a single one of them.

    Attributes:
        dedup_functions_fully: Whether to keep a single copy whatever the shardings:
            the one with the shardings that most calls have.
    """

    dedup_functions_fully: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Choose the copies, and change the calls."""
        table = SymbolTable(op)
        keys = _Keys(table)
        key_of = keys.origin if self.dedup_functions_fully else keys.full
        calls = [each for each in op.walk(post_order=True) if each.name == "func.call"]
        callees = [find_function(table, callee_name(call)) for call in calls]
        chosen: dict[_Key, Operation] = {}
        for func in callees:
            chosen.setdefault(key_of(func), func)
        if self.dedup_functions_fully:
            counts: Counter[_Key] = Counter()
            for func in callees:
                counts[keys.full(func)] += 1
                best = chosen[key_of(func)]
                if counts[keys.full(func)] > counts[keys.full(best)]:
                    chosen[key_of(func)] = func
        names = {key: func.symbol_name or "" for key, func in chosen.items()}
        for call, func in zip(calls, callees, strict=True):
            call.properties["callee"] = SymbolRefAttr(names[key_of(func)])
        for each in op.walk():
            if each.name == "func.func":
                each.attributes.pop(ORIGINAL_FUNC_NAME, None)
                each.attributes.pop(FUNC_MANUAL_AXES, None)


# Reshards of results of calls


class InsertFuncCallReshards(ModulePass, name="sdy-insert-func-call-reshards"):
    """Reshard results of calls whose functions return them with another sharding."""

    def run(self, op: Operation, session: Session) -> None:
        """Set the calls' result shardings to their functions', and insert reshards after them."""
        table = SymbolTable(op)
        by_func: dict[Operation, TensorShardingPerValue | None] = {}
        for call in op.walk(post_order=True):
            if call.name != "func.call":
                continue
            func = find_function(table, callee_name(call))
            if func not in by_func:
                by_func[func] = func_result_shardings(func, table)
            shardings = by_func[func]
            if shardings is None:
                own = sharding_per_value(call)
                shardings = None if own is None else fully_closed_like(own)
            if shardings is not None:
                _reshard_results(call, shardings)


def _reshard_results(call: Operation, shardings: TensorShardingPerValue) -> None:
    for given, result in zip(shardings.shardings, call.results, strict=True):
        wanted = get_sharding(result)
        if is_equivalent(given, wanted):
            continue
        if wanted is None:
            wanted = TensorSharding.fully_closed(given.rank, given.mesh)
        added = make_reshard(result, wanted, call.location)
        # Right behind the call each time, so that the last result's comes first.
        Place.after(call).insert(added)
        replace_other_uses(result, added.result)
    set_shardings(call, shardings)
