"""What the parser makes of operations and blocks."""

import pickle

from emu.mlir import parse, to_text


def test_inherent_attributes_of_the_older_generic_form() -> None:
    text = '"func.func"() ({}) {function_type = () -> (), sym_name = "f", sym_visibility = "private"} : () -> ()'
    assert to_text(parse(text)) == "module {\n  func.func private @f()\n}\n"


def test_a_value_may_be_used_before_its_block() -> None:
    text = """\
module {
  func.func @f() {
    "t.go"()[^bb2] : () -> ()
  ^bb1:  // pred: ^bb2
    %0 = "t.use"(%1#1, %1#0) : (i32, i8) -> i32
    return
  ^bb2:  // pred: ^bb0
    %1:2 = "t.make"() : () -> (i8, i32)
    "t.go"(%1#1)[^bb1] : (i32) -> ()
  }
}
"""
    module = parse(text)
    assert to_text(module) == text
    func = module.body().first
    assert func is not None
    made = next(op for op in func.walk() if op.name == "t.make")
    assert [op.name for op in made.results[1].users] == ["t.go", "t.use"]


RESOURCES = """\
module {
  "t.a"() {a = dense_resource<blob> : tensor<2xf32>} : () -> ()
}

{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000803F00000040"
    }
  }
#-}
"""


def test_resources_are_kept() -> None:
    module = parse(RESOURCES)
    assert to_text(module) == RESOURCES
    assert module.resources == RESOURCES[RESOURCES.index("{-#") :].rstrip()
    assert not module.properties
    assert to_text(pickle.loads(pickle.dumps(module))) == RESOURCES
    assert to_text(module.clone(), generic=True).endswith(
        "}) : () -> ()\n" + RESOURCES[RESOURCES.index("\n{-#") :]
    )
