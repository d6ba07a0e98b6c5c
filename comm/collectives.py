"""Placeholder of this commit only: the collectives arrive with the next one."""

from __future__ import annotations


class Collectives:
    """Base of Group."""
