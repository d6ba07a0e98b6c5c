"""Verifier of the operations and attributes of the sdy dialect.

Importing the package registers the rules. Each of its modules has those of one
family; a rule is a function that returns the first ``Problem`` it finds.

Rules run in the same phases as in MLIR, because the phase decides which of two
errors is reported: an operation by itself on the way down (``verify``), rules
that need valid regions on the way up (``verify_regions``), and rules that need
other operations of the module at the very end (``verify_symbol_uses``).

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.sdy.dialect.verify.registration import register_verifiers

register_verifiers()
