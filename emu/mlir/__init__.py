"""A small MLIR: from text to plain Python data and back.

It knows the dialects builtin, func and arith. Others are registered from above
(``emu.mlir.registry.register_dialects``).

Internal: names may change in any release.
"""

import emu.mlir.dialects
import emu.mlir.pickling  # noqa: F401  # makes operations picklable
from emu.mlir.reading import parse
from emu.mlir.text.printer import to_text

__all__ = ["parse", "to_text"]
