"""The CPU compiler: tile IR to native code, through LLVM.

::

    from emu.tile import cpu

    kernel = cpu.compile(module)
    kernel.launch(address_of_packed_arguments, grid_x)

How it works, in the order in which a kernel meets it: ``analysis`` finds what may stay symbolic,
``schedule`` which operations share a loop, ``groups`` emits such a loop over a ``nest`` of indices, in which
``lanes`` reads values at a point; ``combining``, ``products``, ``atomic``, ``histogram`` are what
is no arithmetic on single elements; ``emitter`` strings all of it together with the control flow. ``elementwise``,
``conversions`` and ``mathematics`` write the arithmetic itself. ``native`` compiles and loads, ``kernel`` launches.
"""

from emu.tile.cpu.frame import Options
from emu.tile.cpu.kernel import Kernel, ProgramAssertionError, compile

__all__ = ["Kernel", "Options", "ProgramAssertionError", "compile"]
