"""What passes leave of a program."""

from __future__ import annotations

from collections import Counter

from tile_harness import Kernel

from emu.tile.ir import Module
from emu.tile.ops import Code
from emu.tile.passes import (
    Pass,
    simplify,
)
from emu.tile.verify import verify


def count(module: Module) -> Counter[Code]:
    return Counter(o.code for f in module.functions.values() for o in f.body.walk())


def operations(k: Kernel, *passes: Pass) -> Counter[Code]:
    """Apply passes to a kernel and count what is left."""
    module = simplify(k.program("p").module, passes)
    verify(module)
    return count(module)
