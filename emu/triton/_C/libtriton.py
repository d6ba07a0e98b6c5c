"""Names of Triton's compiled library that have a meaning without it.

Its MLIR (``ir``, ``passes``, ``llvm``, ``gluon_ir``) is not here: importing them is an ImportError, by which programs
see that there is none.
"""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any

from emu.triton.knobs import env_opt_bool
from emu.triton.runtime.arguments import Tensor


def __getattr__(name: str) -> Any:
    if name == "interpreter":
        return importlib.import_module("emu.triton._C.interpreter")
    raise AttributeError(
        f"emu has no compiled part of Triton's, and so no {name!r} in triton._C.libtriton"
    )


def getenv(key: str, default: str | None = None) -> str | None:
    """Return a variable of the environment."""
    return os.environ.get(key, default)


def getenv_bool(key: str, default: bool | None = None) -> bool | None:
    """Return a variable of the environment as a bool."""
    found = env_opt_bool(key).get()
    return default if found is None else found


class CublasLt:
    """Products of matrices, by torch, in the place of cuBLAS.

    Args:
        workspace: Accepted: torch needs none.
    """

    def __init__(self, workspace: Tensor) -> None:
        del workspace

    def matmul(self, a: Tensor, b: Tensor, c: Tensor) -> None:
        """Write ``a @ b.T`` into ``c``, summed in fp32 and rounded once.

        Args:
            a: Matrix (M, K).
            b: Matrix (N, K).
            c: Matrix (M, N).

        Raises:
            ValueError: The shapes do not fit.
        """
        shapes = tuple(map(tuple, (a.shape, b.shape, c.shape)))
        if not all(len(s) == 2 for s in shapes) or shapes != (
            (shapes[2][0], shapes[0][1]),
            (shapes[2][1], shapes[0][1]),
            shapes[2],
        ):
            raise ValueError(f"a, b and c must be (M, K), (N, K) and (M, N), but are {shapes}")
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor, alpha: float, beta: float) -> None:
        """Write ``alpha * a @ b.T + beta * c`` into ``d``; shapes as for :meth:`matmul`."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())


nvidia = SimpleNamespace(cublas=SimpleNamespace(CublasLt=CublasLt))
"""What programs use of NVIDIA's libraries."""
