"""What must hold of operations of the sdy dialect and of its attributes.

Importing the package has the registry know the rules. Each module of it has
those of one family; a rule is a function that gives the first ``Problem`` it
finds.

Rules come in the phases that MLIR has, since which of two errors is reported
depends on it: an operation by itself on the way down (``verify``), what needs
its regions to be right on the way up (``verify_regions``), and what needs other
operations of the module at the very end (``verify_symbol_uses``).
"""

from __future__ import annotations

from emu.sdy.dialect.verify.registration import register_verifiers

register_verifiers()
