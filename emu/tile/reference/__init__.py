"""The reference interpreter, which defines every operation of the tile IR in NumPy, slowly.

Compilers of the IR are tested against it. Where a result is not laid down, it does this: reductions
combine in the order of the axis, a division by zero gives 0 and its remainder the dividend, atomics go
lane by lane, programs one after another with x fastest.
"""

from emu.tile.reference.interpreter import ExecutionError, run

__all__ = ["ExecutionError", "run"]
