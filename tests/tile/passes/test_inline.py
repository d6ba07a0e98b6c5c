"""Inlining keeps the place of each call."""

from __future__ import annotations

import dataclasses

from tile_harness import Kernel

from emu.tile.ir import Location
from emu.tile.ops import Code
from emu.tile.passes import (
    Inline,
)
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
