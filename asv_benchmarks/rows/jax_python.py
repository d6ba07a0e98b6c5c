"""The interpreter that has JAX: a peer may live in an environment of its own."""

from __future__ import annotations

import importlib.util
import os
import sys

VARIABLE = "EMU_BENCH_JAX_PYTHON"


def jax_python() -> str | None:
    """Return the interpreter that has jaxlib; None where there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    return sys.executable if importlib.util.find_spec("jaxlib") is not None else None
