"""Text of modules."""

from __future__ import annotations

from tile_harness import Kernel

from emu.tile.ir import Location
from emu.tile.ops import Code
from emu.tile.text import print_module
from emu.tile.types import I32


def test_the_text_is_the_documented_one() -> None:
    k = Kernel()
    pointer = k.argument(I32, 0, "n")
    k.builder.location = Location("lib.py", 7, 5, "helper", Location("kernel.py", 3, 9))
    row = k.builder.splat(pointer, (8,))
    row.name = "row"
    k.builder.location = None
    (total,) = k.builder.reduce([row], 0, lambda a, b: [k.builder.binary(Code.ADD, a, b)])
    total.name = "row"
    k.builder.if_(k.number(1), k.region(list), k.region(list))
    assert print_module(k.program("p").module).splitlines() == [
        "func @kernel(%n: i32) {",
        "  %row = splat %n : tile<8xi32> at #1",
        "  %row#1 = reduce %row {axis = 0} : i32 (%0: i32, %1: i32) {",
        "    %2 = add %0, %1 : i32",
        "    yield %2",
        "  }",
        "  %3 = constant {value = 1} : i32",
        "  if %3 () {",
        "    yield",
        "  } () {",
        "    yield",
        "  }",
        "  return",
        "}",
        '#0 = "kernel.py":3:9',
        '#1 = "lib.py":7:5 in "helper" called at #0',
    ]
