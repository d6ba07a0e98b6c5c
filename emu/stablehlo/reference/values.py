"""Types of what the evaluator works on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""Value of a tensor, of any dtype; a token is an empty array."""
