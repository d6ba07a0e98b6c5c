"""Types in the annotations of intrinsics: functions that emit LLVM IR into code that Numba compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir
from numba.core.base import BaseContext
from numba.core.typing.context import Context
from numba.core.typing.templates import Signature

Emitter: TypeAlias = Callable[[BaseContext, ir.IRBuilder, Signature, Sequence[ir.Value]], ir.Value]
"""Emits the call of an intrinsic with arguments that have been evaluated, and returns its result."""

Typed: TypeAlias = tuple[Signature, Emitter]
"""What an intrinsic returns for the types of its arguments."""

TypingContext: TypeAlias = Context
"""First argument of every intrinsic."""
