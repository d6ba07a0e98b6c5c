"""Attributes of functions' arguments and results, and the call graph."""

from __future__ import annotations

import pytest

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir import parse
from emu.mlir.attributes import Attribute, StringAttr, UnitAttr
from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.sdy.dialect import functions
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.names import ORIGINAL_FUNC_NAME, SHARDING
from emu.sdy.dialect.shardings import get_sharding

CUT = TensorSharding("grid", (DimensionSharding((AxisRef("x"),)),))
OPEN = TensorSharding.fully_open(1, "grid")
PROGRAM = """
sdy.mesh @grid = <["x"=2]>
sdy.mesh @one = <[], device_ids=[0]>
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32> {t.note}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = call @second(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @first(%0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
func.func private @first(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @leaf(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @outside(tensor<8xf32>) -> tensor<8xf32>
func.func private @second(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @outside(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @leaf(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @leaf(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func private @leaf(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func @unused() {
  return
}
"""


@pytest.fixture
def module() -> Operation:
    return parse(PROGRAM, verify=False)


def function(module: Operation, name: str) -> Operation:
    return functions.find_function(SymbolTable(module), name)


def test_shardings_of_arguments(module: Operation) -> None:
    main = function(module, "main")
    assert functions.func_arg_sharding(main, 0) is None
    functions.set_func_arg_sharding(main, 1, CUT)
    assert functions.func_arg_sharding(main, 1) == CUT
    assert functions.func_arg_attribute(main, 1, "t.note") == UnitAttr()
    assert get_sharding(main.body().arguments[1]) == CUT
    functions.set_func_arg_sharding(main, 1, None)
    assert functions.func_arg_sharding(main, 1) is None
    assert functions.func_arg_attribute(main, 1, "t.note") == UnitAttr()
    functions.set_func_arg_attribute(main, 1, "t.note", None)
    # No list of attributes where no argument has one.
    assert "arg_attrs" not in main.properties
    functions.set_func_arg_attribute(main, 1, "t.note", None)
    assert "arg_attrs" not in main.properties


def test_shardings_of_results(module: Operation) -> None:
    main = function(module, "main")
    functions.set_func_result_sharding(main, 1, CUT)
    assert [functions.func_result_sharding(main, i) for i in range(2)] == [None, CUT]
    assert functions.func_result_attribute(main, 1, SHARDING) == CUT
    functions.set_func_result_sharding(main, 0, OPEN)
    assert [functions.func_result_sharding(main, i) for i in range(2)] == [OPEN, CUT]
    functions.set_func_result_attribute(main, 0, "t.name", StringAttr("r"))
    functions.set_func_result_sharding(main, 0, None)
    functions.set_func_result_sharding(main, 1, None)
    assert [functions.func_result_sharding(main, i) for i in range(2)] == [None, None]
    assert functions.func_result_attribute(main, 0, "t.name") == StringAttr("r")


def test_all_shardings(module: Operation) -> None:
    main, table = function(module, "main"), SymbolTable(module)
    assert functions.func_arg_shardings(main, table) is None
    functions.set_func_arg_sharding(main, 0, TensorSharding("one"))
    # One device is no reason to fill in the others.
    assert functions.func_arg_shardings(main, table) is None
    functions.set_func_arg_sharding(main, 0, CUT)
    assert functions.func_arg_shardings(main, table) == TensorShardingPerValue((CUT, OPEN))
    functions.set_func_result_sharding(main, 1, CUT)
    assert functions.func_result_shardings(main, table) == TensorShardingPerValue((OPEN, CUT))


def test_changing_all_attributes(module: Operation) -> None:
    main = function(module, "main")
    before = dict(main.properties)
    functions.modify_arg_attributes(main, lambda entries, index: None)
    assert main.properties == before

    def number(entries: dict[str, Attribute], index: int) -> None:
        entries["t.number"] = StringAttr(str(index))

    functions.modify_arg_attributes(main, number)
    functions.modify_result_attributes(main, number)
    assert functions.func_arg_attribute(main, 1, "t.number") == StringAttr("1")
    assert functions.func_result_attribute(main, 0, "t.number") == StringAttr("0")
    functions.modify_arg_attributes(main, lambda entries, index: entries.clear())
    assert "arg_attrs" not in main.properties


def names(functions: list[Operation]) -> list[str | None]:
    return [func.symbol_name for func in functions]


def test_callees_come_before_callers(module: Operation) -> None:
    order = ["leaf", "second", "first", "main", "unused"]
    assert names(functions.iterate_funcs(module)) == order
    assert names(functions.iterate_funcs(module, pre_order=True)) == order[::-1]


def test_calls(module: Operation) -> None:
    called = [functions.callee_name(call) for call in functions.walk_calls(module)]
    assert called == ["outside", "leaf", "leaf", "leaf", "second", "first"]
    called = [functions.callee_name(call) for call in functions.walk_calls(module, pre_order=True)]
    assert called == ["second", "first", "leaf", "outside", "leaf", "leaf"]


def test_calls_may_go_while_walked(module: Operation) -> None:
    for call in functions.walk_calls(module):
        call.replace_with(call.operands)
    assert not [op for op in module.walk() if op.name == "func.call"]


def test_recursion_ends() -> None:
    text = "func.func @a() {\n call @b() : () -> ()\n return\n}\n"
    text += "func.func @b() {\n call @a() : () -> ()\n return\n}\n"
    assert names(functions.iterate_funcs(parse(text, verify=False))) == ["b", "a"]


def test_main_and_missing_functions(module: Operation) -> None:
    table = SymbolTable(module)
    assert functions.main_function(module, table, Diagnostics()).symbol_name == "main"
    with pytest.raises(ValueError, match="Failed to lookup function: grid"):
        functions.find_function(table, "grid")
    single = parse("func.func @only() {\n return\n}", verify=False)
    table = SymbolTable(single)
    assert functions.main_function(single, table, Diagnostics()).symbol_name == "only"
    two = parse("func.func @a() {\n return\n}\nfunc.func @b() {\n return\n}", verify=False)
    diagnostics = Diagnostics()
    with pytest.raises(PassFailed):
        functions.main_function(two, SymbolTable(two), diagnostics)
    assert diagnostics.errors[0].message == "Failed to lookup function: main"
    with pytest.raises(ValueError, match="has no callee"):
        functions.callee_name(single)
    with pytest.raises(ValueError, match="has no function type"):
        functions.function_type(single)


def test_cloning(module: Operation) -> None:
    table = SymbolTable(module)
    count = len([op for op in module.body() if op.name == "func.func"])
    clone = functions.clone_function_recursively(functions.find_function(table, "first"), table)
    assert clone.parent is None
    assert clone.attributes[ORIGINAL_FUNC_NAME] == StringAttr("first")
    (call,) = [op for op in clone.walk() if op.name == "func.call"]
    leaf = functions.find_function(table, functions.callee_name(call))
    assert leaf.symbol_name != "leaf"
    assert functions.original_func_name(leaf) == "leaf"
    assert functions.original_func_name(functions.find_function(table, "leaf")) == "leaf"
    again = functions.clone_function_recursively(clone, table)
    assert functions.original_func_name(again) == "first"
    assert len([op for op in module.body() if op.name == "func.func"]) == count + 2
