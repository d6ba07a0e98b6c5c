"""Types of what the evaluator works on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from emu.mlir.ir import Operation

if TYPE_CHECKING:
    from emu.stablehlo.reference.scope import Scope

Array: TypeAlias = npt.NDArray[Any]
"""Value of a tensor, of any dtype; a token is an empty array."""

Handler: TypeAlias = "Callable[[Operation, Sequence[Array], Scope], Sequence[Array]]"
"""Computes an operation's results from its operands."""
