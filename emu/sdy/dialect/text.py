"""Text helpers that the dialect's attributes, parser and operations share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

_SYMBOLS = "ijklmnopqrstuvwxyz"


class _HasStrippedText(Protocol):
    def stripped_text(self) -> str: ...


def factor_symbol(factor: int) -> str:
    """Return the name of a factor: ``i`` to ``z``, then ``z_1``, ``z_2`` and so on."""
    last = len(_SYMBOLS) - 1
    return _SYMBOLS[factor] if factor <= last else f"z_{factor - last}"


def stripped_list(attributes: Iterable[_HasStrippedText]) -> str:
    """Return the stripped texts of attributes, separated by commas."""
    return ", ".join(attribute.stripped_text() for attribute in attributes)
