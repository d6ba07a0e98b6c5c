"""What can be wrong with the arguments of a kernel."""

from __future__ import annotations


class ArgumentError(ValueError):
    """An argument breaks a rule; nothing was changed. The text names it, its value and the bound."""
