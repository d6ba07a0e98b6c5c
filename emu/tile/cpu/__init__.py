"""The CPU compiler: tile IR to native code, through LLVM.

::

    from emu.tile import cpu

    kernel = cpu.compile(module)
    kernel.launch(address_of_packed_arguments, grid_x)

How it works, in the order in which a kernel meets it: ``analysis`` finds what may stay symbolic,
``schedule`` which operations share a loop, ``groups`` emits such a loop over a ``loop_nest``, in which
``point_reader`` reads values at a point; ``combining``, ``scanning``, ``products``, ``atomic``, ``histogram`` are what
is no arithmetic on single elements; ``emitter`` strings all of it together with the control flow, and ``compiling``
begins and ends it. ``elementwise``, ``conversions`` and ``mathematics`` write the arithmetic itself. ``native`` turns
LLVM IR into code, ``kernel`` launches it, on the threads of ``pool``. By ``polling`` and ``watching`` a kernel that
runs for long lets signals in, ``crash`` brings a launch back from a fault, which
``faults`` reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.tile.cpu.options import Options
from emu.tile.cpu.run.faults import ProgramFaultError
from emu.tile.cpu.run.kernel import Kernel, ProgramAssertionError

if TYPE_CHECKING:
    from emu.tile.ir import Module

__all__ = ["Kernel", "Options", "ProgramAssertionError", "ProgramFaultError", "compile"]


def compile(module: Module, *, options: Options | None = None) -> Kernel:
    """Compile the kernel of a module for this machine's CPU.

    Args:
        module: Module to compile; it is verified first and not changed.
        options: Default: all defaults.

    Returns:
        The kernel, loaded.

    Raises:
        VerifyError: The module breaks a rule of the IR.
        TileError: Something in it cannot be compiled for a CPU.
    """
    # Here, so that a process whose kernels are all on disk does not load the compiler.
    from emu.tile.cpu import compiling

    return compiling.compile(module, options=options)
