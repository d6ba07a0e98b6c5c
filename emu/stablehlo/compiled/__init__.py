"""Functions of StableHLO compiled to plans: made once, sent to PEs, bound to memory and called there.

``emu.stablehlo.reference`` defines what operations mean, and computes those that have no compiled form.

Internal: names may change in any release.
"""

from emu.stablehlo.compiled.program import BoundProgram, CompiledProgram, compile_program

__all__ = ["BoundProgram", "CompiledProgram", "compile_program"]
