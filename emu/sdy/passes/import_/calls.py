"""Passes that flatten the call graph, import calls as named computations, and order functions."""

from __future__ import annotations

from collections.abc import Iterator

from emu.mlir.attributes import Attribute, StringAttr, SymbolRefAttr
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Region
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect.functions import (
    callee_name,
    clone_function_recursively,
    find_function,
    func_arg_shardings,
    func_result_shardings,
    iterate_funcs,
    original_func_name,
    walk_calls,
)
from emu.sdy.dialect.names import EXECUTION_THREAD, SHARDING
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.import_.data_flow_edges import add_edges_of


def set_callee(call: Operation, name: str) -> None:
    """Set the function that a call calls."""
    call.properties["callee"] = SymbolRefAttr(name)


def _calls(root: Operation) -> Iterator[Operation]:
    return (op for op in root.walk(post_order=True) if op.name == "func.call")


class FlattenCallGraph(ModulePass, name="sdy-flatten-call-graph"):
    """Give every call a function of its own, by copying functions.

    The first call of a function keeps it; each further one gets a copy, and
    the copy's calls get copies in turn.
    """

    def run(self, op: Operation, session: Session) -> None:
        """Flatten a module's call graph."""
        table = SymbolTable(op)
        called: set[str] = set()
        for call in walk_calls(op):
            function = find_function(table, callee_name(call))
            name = callee_name(call)
            if name in called:
                copy = clone_function_recursively(function, table)
                set_callee(call, table.insert(copy))
            called.add(name)


class ImportFuncCalls(ModulePass, name="sdy-import-func-calls"):
    """Turn each call into an ``sdy.named_computation`` that holds the body.

    The first call of a function takes its body, further ones copy it (and a
    warning says so); the called functions are erased.

    Attributes:
        add_data_flow_edges_on_named_computations: Whether to insert the edges of
            all named computations as well.
    """

    add_data_flow_edges_on_named_computations: bool = True

    def run(self, op: Operation, session: Session) -> None:
        """Import the calls of a module."""
        table = SymbolTable(op)
        moved: dict[str, Region] = {}
        for call in walk_calls(op):
            name = callee_name(call)
            if name in moved:
                session.diagnostics.warning_once(
                    "multiple calls",
                    call.location,
                    f"function @{name} has multiple call ops, we need to clone the function "
                    "body for each call",
                )
            function = find_function(table, name)
            if name not in moved and not function.regions[0].blocks:
                message = f"function @{name} has no body that could take the place of the call"
                session.diagnostics.error(call.location, message)
                raise PassFailed(message)
            _import_call(call, function, table, moved)
        for name in moved:
            imported = table.lookup(name)
            if imported is not None:
                table.erase(imported)
        if self.add_data_flow_edges_on_named_computations:
            add_edges_of(op, "sdy.named_computation")


def _import_call(
    call: Operation, function: Operation, table: SymbolTable, moved: dict[str, Region]
) -> None:
    name = callee_name(call)
    properties: dict[str, Attribute] = {"name": StringAttr(original_func_name(function))}
    ins = func_arg_shardings(function, table)
    if ins is not None:
        properties["in_shardings"] = ins
    outs = call.attributes.get(SHARDING)
    if outs is not None:
        properties["out_shardings"] = outs
    attributes = {key: value for key, value in call.attributes.items() if key != SHARDING}
    thread = function.attributes.get(EXECUTION_THREAD)
    if thread is not None:
        attributes[EXECUTION_THREAD] = thread
    named = Operation(
        "sdy.named_computation",
        call.operands,
        [result.type for result in call.results],
        properties=properties,
        attributes=attributes,
        location=call.location,
    )
    block = call.parent
    assert block is not None  # a call was found inside a function
    block.insert_before(call, named)
    if name in moved:
        named.add_region(moved[name].clone({}))
    else:
        region = named.add_region()
        region.take_body(function.regions[0])
        for body in region.blocks:
            terminator = body.terminator
            body.append(Operation("sdy.return", terminator.operands, location=terminator.location))
            terminator.erase()
        moved[name] = region
    call.replace_with(named.results)


class PropagateShardingFromFuncToCall(ModulePass, name="sdy-propagate-sharding-from-func-to-call"):
    """Give calls without result shardings the shardings of the function's results."""

    def run(self, op: Operation, session: Session) -> None:
        """Complete the calls of a module."""
        table = SymbolTable(op)
        for call in _calls(op):
            function = find_function(table, callee_name(call))
            if SHARDING not in call.attributes:
                shardings = func_result_shardings(function, table)
                if shardings is not None:
                    call.attributes[SHARDING] = shardings


class PreOrderFuncs(ModulePass, name="sdy-pre-order-funcs"):
    """Order functions so that callers come before their callees."""

    def run(self, op: Operation, session: Session) -> None:
        """Order the functions of a module."""
        body = op.body()
        for function in list(iterate_funcs(op, pre_order=True)):
            body.append(function.detach())
