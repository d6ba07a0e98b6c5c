"""Pretty and generic forms of whole modules."""

from mlir_reading import PRETTY

from emu.mlir import parse, to_text
from emu.mlir.ir import Operation
from emu.mlir.symbols import lookup

GENERIC = """\
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{arg_attrs = [{net.role = "input"}, {}], function_type = (tensor<4xf32>, i1) -> (tensor<4xf32>, f32), res_attrs = [{net.role = "output"}, {}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: i1):
    %3:2 = "net.split"(%arg0) ({
    ^bb0(%arg2: i32):
      "net.branch"(%arg2)[^bb1, ^bb2] : (i32) -> ()
    ^bb1:  // pred: ^bb0
      "net.jump"()[^bb2] : () -> ()
    ^bb2:  // 2 preds: ^bb0, ^bb1
      %5 = "net.inner"(%arg1) : (i1) -> f32
      "net.end"(%5) : (f32) -> ()
    ^bb3(%6: i8):  // no predecessors
      "net.end"() : () -> ()
    }, {
    }) {net.note = "two"} : (tensor<4xf32>) -> (tensor<4xf32>, f32)
    %4 = "func.call"(%3#0) <{callee = @helper}> {net.hot} : (tensor<4xf32>) -> f32
    "func.return"(%3#0, %4) : (tensor<4xf32>, f32) -> ()
  }) {net.entry} : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>) -> f32, sym_name = "helper", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{function_type = () -> (() -> ()), sym_name = "odd name", sym_visibility = "nested"}> ({
    %0 = "func.constant"() <{value = @"odd name"}> : () -> (() -> (() -> ()))
    %1 = "func.constant"() <{value = @other}> : () -> (() -> ())
    %2 = "func.call_indirect"(%0) : (() -> (() -> ())) -> (() -> ())
    "func.return"(%1) : (() -> ()) -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "other"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
  "builtin.module"() ({
  ^bb0:
  }) : () -> ()
}) {net.version = 2 : i32} : () -> ()
"""


def test_both_forms_of_a_module() -> None:
    module = parse(PRETTY)
    assert to_text(module) == PRETTY == str(module)
    assert to_text(module, generic=True) == GENERIC
    again = parse(GENERIC)
    assert to_text(again) == PRETTY
    assert to_text(again, generic=True) == GENERIC


def test_an_operation_by_itself() -> None:
    module = parse(PRETTY)
    func = lookup(module, "other")
    assert func is not None
    assert to_text(func) == "func.func @other() {\n  return\n}"
    last = func.body().terminator
    assert to_text(last) == "func.return"
    assert to_text(func, generic=True).startswith('"func.func"() <{function_type = () -> ()')


def test_operations_that_differ_in_their_operands_only():
    """They are printed from one text, which may hold what stands for an operand."""
    text = """\
module {
  func.func @f(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg0 {note = "%s %d %% %0"} : tensor<8xf32>
    %1 = stablehlo.add %arg0, %0 {note = "%s %d %% %0"} : tensor<8xf32>
    %2 = stablehlo.add %1, %arg1 {note = "%s %d %% %0"} : tensor<8xf32>
    %3 = stablehlo.add %2, %1 {name = "%s %d %% %0"} : tensor<8xf32>
    %4 = stablehlo.add %3, %3 {note = "%s %d %% %0"} : tensor<8xf32>
    return %4 : tensor<8xf32>
  }
}
"""
    assert str(parse(text)) == text


def test_an_operand_that_is_not_in_the_module():
    module = parse("func.func @f(%x: i32, %y: i32) { return }")
    other = parse("func.func @g(%x: i32) { return }")
    block = module.body().first.body()
    for operand in (*block.arguments, other.body().first.body().arguments[0]):
        block.insert_before(block.last, Operation("arith.addi", [block.arguments[0], operand]))
    assert str(module).count("<<UNKNOWN SSA VALUE>>") == 1
