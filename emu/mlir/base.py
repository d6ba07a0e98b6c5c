"""Bare base classes of types and attributes.

They stand below both, because a tensor type holds an attribute (its encoding) and most attributes
hold a type.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """Base of all types, those of dialects included."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Base of all attributes, those of dialects included."""
