"""Backends: who computes local ops."""

from __future__ import annotations

from typing import Literal, TypeAlias

from emu.comm.world import recording
from emu.kernels.core import environment
from emu.kernels.core.messages import shown
from emu.pypto import local
from emu.pypto.errors import ArgumentError
from emu.pypto.operation import LocalOp
from emu.pypto.recorded import record_batch

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
    if recording.active is None:
        _compute(ops, is_large)
    else:
        record_batch(recording.active, _compute, ops, is_large)


def _compute(ops: list[LocalOp], is_large: bool) -> None:
    if backend_in_force() == "reference":
        local.run_ops(ops)
        return
    from emu.pypto.native.plan import run_batch

    last = ops.pop() if ops[-1][0].may_fail else None
    if ops:
        if is_large:
            run_batch(ops)
        else:
            local.run_ops(ops)
    if last is not None:
        local.run_ops([last])


def run_pieces(ops: list[LocalOp], is_large: bool) -> None:
    """Compute a piece of local ops that :func:`run_ops` would compute whole; none may raise an error that depends on values.

    Args:
        ops: The ops, on one piece of each operand.
        is_large: Whether the whole ops have :data:`emu.pypto.operation.LEAST_ELEMENTS` elements or more.
    """
    if recording.active is None:
        _compute_pieces(ops, is_large)
    else:
        record_batch(recording.active, _compute_pieces, ops, is_large)


def _compute_pieces(ops: list[LocalOp], is_large: bool) -> None:
    if backend_in_force() == "reference" or not is_large:
        local.run_ops(ops)
        return
    from emu.pypto.native.plan import run_batch

    run_batch(ops, least=1)
