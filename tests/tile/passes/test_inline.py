"""Inlining keeps the place of each call."""

from __future__ import annotations

import dataclasses

from tile_harness import Kernel

from emu.tile.ir import Location
from emu.tile.ops import Code
from emu.tile.passes import (
    Inline,
)
from emu.tile.text import parse_module, print_module
from emu.tile.types import I32


def test_inlined_operations_say_where_they_were_called_from() -> None:
    k = Kernel()
    b = k.builder
    here, there, outer = (
        Location(f, n, 1, f) for n, f in ((3, "inner"), (5, "middle"), (9, "top"))
    )
    b.location = here
    negative = k.function("inner", lambda x: [b.unary(Code.NEG, x)], I32)
    b.location = there
    twice = k.function("middle", lambda x: b.call(negative, b.call(negative, [x])), I32)
    b.location = outer
    k.result(b.call(twice, [k.argument(I32, 5)])[0])
    module = Inline().apply(k.program("p").module)
    assert list(module.functions) == ["kernel"]
    places = [o.location for o in module.kernel.body.operations if o.code is Code.NEG]
    chain = dataclasses.replace(here, caller=dataclasses.replace(there, caller=outer))
    assert places == [chain, chain]


def test_functions_that_are_not_to_be_inlined_stay_where_a_compiler_can_call_them() -> None:
    k = Kernel()
    b = k.builder
    negative = k.function("inner", lambda x: [b.unary(Code.NEG, x)], I32)
    twice = k.function("middle", lambda x: b.call(negative, b.call(negative, [x])), I32)
    unused = k.function("unused", lambda x: [x], I32)
    for function in (negative, unused):
        function.noinline = True
    k.result(b.call(twice, [k.argument(I32, 5)])[0])
    module = k.program("p").module
    kept = Inline(keep_noinline=True).apply(module)
    assert list(kept.functions) == ["kernel", "inner"]
    assert kept.functions["inner"].noinline
    assert [o.code for o in kept.kernel.body.operations].count(Code.CALL) == 2
    assert list(Inline().apply(module).functions) == ["kernel"]
    text = print_module(kept)
    assert "func noinline @inner(" in text
    assert print_module(parse_module(text)) == text
