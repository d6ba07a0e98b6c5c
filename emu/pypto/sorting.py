"""Sorting along an axis. It sees the valid part only, is stable, and puts NaN above all numbers."""

from __future__ import annotations

from emu.pypto import walks
from emu.pypto.dtypes import DT_INT32
from emu.pypto.operation import Operation
from emu.pypto.reduction import TOPK, axis_of
from emu.pypto.submission import submit
from emu.pypto.symbolic import as_flag
from emu.pypto.tensor import Tensor, check_tensor, new_tensor

SORT = Operation("sort", "other", TOPK.reference, walk=walks.lines)


def sort(a: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the values sorted along an axis, and their indices (DT_INT32).

    Of equal values the first comes first, in both directions.
    """
    check_tensor(a, "a")
    axis, descending = axis_of(a, dim), as_flag(descending, "descending")
    values = new_tensor(a.shape, a.dtype, a.valid_shape)
    places = new_tensor(a.shape, DT_INT32, a.valid_shape)
    submit(SORT, (a,), (values, places), (axis, a.valid_shape[axis], descending))
    return values, places


def argsort(a: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Return the indices (DT_INT32) that sort a tensor along an axis, as :func:`sort` does."""
    return sort(a, dim, descending)[1]
