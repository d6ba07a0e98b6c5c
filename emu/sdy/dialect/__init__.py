"""The sdy dialect: attributes, operations, verifier, canonical forms.

Importing the package registers the dialects of sharded programs; the parser imports them before it
reads a text.

Internal: names may change in any release.
"""

from emu.mlir.registry import register_dialects

register_dialects("emu.stablehlo", "emu.sdy.dialect.ops", "emu.sdy.dialect.verify")
