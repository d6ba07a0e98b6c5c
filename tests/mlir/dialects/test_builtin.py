"""Modules and casts."""

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import FileLoc


def test_casts_between_any_types() -> None:
    text = """\
module {
  func.func @f(%arg0: tensor<8xf32>, %arg1: i32) -> i8 {
    %0 = builtin.unrealized_conversion_cast %arg0 : tensor<8xf32> to tensor<7xf32>
    %1:2 = builtin.unrealized_conversion_cast %0, %arg1 : tensor<7xf32>, i32 to i8, i16 {note = 1 : i32}
    %2 = builtin.unrealized_conversion_cast to index
    return %1#0 : i8
  }
}
"""
    module = parse(text)
    assert to_text(module) == text
    assert to_text(parse(to_text(module, generic=True))) == text


def test_what_is_no_module_is_put_in_one() -> None:
    module = parse('"t.a"() : () -> ()\n// no more', file="f.mlir")
    assert to_text(module) == 'module {\n  "t.a"() : () -> ()\n}\n'
    first = module.body().first
    assert first is not None
    assert first.location == FileLoc("f.mlir", 1, 1)
    assert to_text(parse("module {}")) == "module {\n}\n"
    assert to_text(parse("")) == "module {\n}\n"
