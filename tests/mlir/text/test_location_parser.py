"""Locations in texts."""

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import UNKNOWN, FileLoc, NameLoc

DEBUG = """\
#loc2 = loc("x")
#loc3 = loc("d.py":4:1)
#loc4 = loc("y"(#loc3))
module {
  func.func @f(%arg0: i32 loc("x"), %arg1: i32 loc("y"(#loc3))) {
    "t.a"(%arg0) : (i32) -> () loc(#loc6)
    "t.b"(%arg1) : (i32) -> () loc(#loc3)
    "t.c"() ({
    ^bb0(%arg2: f32 loc("x")):
      "t.d"() : () -> () loc(#loc2)
    }) : () -> () loc(#loc5)
    return loc(#loc)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("d.py":3:0 to :7)
#loc5 = loc(fused<"k">[#loc2, #loc1])
#loc6 = loc(callsite(#loc4 at #loc1))
"""


def test_locations() -> None:
    module = parse(DEBUG)
    assert to_text(module, locations=True) == DEBUG
    func = module.body().first
    assert func is not None
    assert func.location == FileLoc("d.py", 3, 0, 3, 7)
    assert [a.location for a in func.body().arguments] == [
        NameLoc("x", UNKNOWN),
        NameLoc("y", FileLoc("d.py", 4, 1)),
    ]


def test_locations_of_a_text_without_them() -> None:
    text = 'func.func @f(%arg0: i32) {\n  "t.a"(%arg0) : (i32) -> ()\n  return\n}\n'
    assert to_text(parse(text, file="f"), locations=True) == (
        '#loc2 = loc("f":1:14)\n'
        "module {\n"
        '  func.func @f(%arg0: i32 loc("f":1:14)) {\n'
        '    "t.a"(%arg0) : (i32) -> () loc(#loc3)\n'
        "    return loc(#loc4)\n"
        "  } loc(#loc1)\n"
        "} loc(#loc)\n"
        '#loc = loc("f":0:0)\n'
        '#loc1 = loc("f":1:1)\n'
        '#loc3 = loc("f":2:3)\n'
        '#loc4 = loc("f":3:3)\n'
    )
