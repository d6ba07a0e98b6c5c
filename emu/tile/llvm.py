"""Names for LLVM's values and types in annotations.

llvmlite ships no types, so a type checker takes each of its classes for ``Any``. These names say what is meant; those
of llvmlite's builder, functions, modules and blocks (``ir.IRBuilder``, ...) speak for themselves.

Internal: names may change in any release.
"""

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir

Register: TypeAlias = ir.Value
"""A value that code computes with: a scalar, or a vector of one lane per element. Addresses are i64."""

IrPointer: TypeAlias = ir.Value
"""A value of LLVM's type ``ptr``, which only loads, stores and calls take."""

IrType: TypeAlias = ir.Type
"""The type of a register."""
