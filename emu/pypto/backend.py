"""Backends: who computes local ops."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from emu.kernels.core import environment
from emu.kernels.core.messages import shown
from emu.pypto import local
from emu.pypto.errors import ArgumentError
from emu.pypto.operation import LocalOp

Backend: TypeAlias = Literal["native", "reference"]


class Chosen:
    """The backend in force; None: what the environment says, which is read when it is first needed."""

    name: Backend | None = None


def check_backend(name: object, argument: str = "backend") -> Backend:
    """Check that there is a backend of this name, and return it."""
    if not isinstance(name, str) or name not in ("native", "reference"):
        raise ArgumentError(f'{argument} must be "native" or "reference", but got {shown(name)}')
    return name  # type: ignore[return-value]  # mypy does not narrow by membership


def backend_in_force() -> Backend:
    """Return the backend: what was set, else ``EMU_PYPTO_BACKEND``, else ``native``.

    Raises:
        ArgumentError: The environment names no backend.
    """
    if Chosen.name is None:
        name = environment.pypto_backend()
        Chosen.name = check_backend("native" if name is None else name, "EMU_PYPTO_BACKEND")
    return Chosen.name


def run_ops(ops: list[LocalOp], is_large: bool = True) -> None:
    """Compute local ops in order.

    What may raise an error that depends on values stands alone or at the end of ``ops``.

    Args:
        ops: The ops.
        is_large: Whether a buffer that they touch has :data:`emu.pypto.operation.LEAST_ELEMENTS` elements or more.
    """
    if backend_in_force() == "reference":
        local.run_ops(ops)
        return
    from emu.pypto.native.plan import run_batch

    last = ops.pop() if ops[-1][0].may_fail else None
    if ops:
        if not is_large or _is_aliased(ops):
            local.run_ops(ops)
        else:
            with np.errstate(all="ignore"):
                run_batch(ops)
    if last is not None:
        local.run_ops([last])


def run_pieces(ops: list[LocalOp], is_large: bool) -> None:
    """Compute a piece of local ops that :func:`run_ops` would compute whole; none may raise an error that depends on values.

    Args:
        ops: The ops, on one piece of each operand.
        is_large: Whether the whole ops have :data:`emu.pypto.operation.LEAST_ELEMENTS` elements or more.
    """
    if backend_in_force() == "reference" or not is_large or _is_aliased(ops):
        local.run_ops(ops)
        return
    from emu.pypto.native.plan import run_batch

    with np.errstate(all="ignore"):
        run_batch(ops, least=1)


def _is_aliased(ops: list[LocalOp]) -> bool:
    """Return whether ops write arrays of the program that share memory with others: kernels tell buffers apart by identity."""
    foreign = {
        t.buffer
        for op in ops
        for t in op[1]
        if not isinstance(t, np.generic) and t.buffer.is_foreign
    }
    written = {t.buffer for op in ops for t in op[2] if t.buffer.is_foreign}
    return any(
        one is not other and np.may_share_memory(one.array, other.array)
        for one in written
        for other in foreign | written
    )
