"""Types of what the evaluator works on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""Value of a tensor, of any dtype; a token is an empty array."""

TOKEN: Array = np.empty(0, np.bool_)
"""Value of a token, which only orders operations."""
