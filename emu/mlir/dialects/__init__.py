"""The dialects builtin, func and arith, which every program needs.

Importing the package defines their operations.

Internal: names may change in any release.
"""

from emu.mlir.dialects import arith, builtin, func

__all__ = ["arith", "builtin", "func"]
