"""Arguments of collectives: checks before the members meet, and the destination of the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.collective_header import MAX_RANK
from emu.comm.world.membership import Membership
from emu.kernels.core.address import array_data
from emu.kernels.core.dtypes import DTYPES
from emu.kernels.core.messages import shown
from emu.kernels.reduce import CODES, OPS, supports


def check_array(value: Input | None, name: str = "array") -> Array:
    """Return an input or output as an ndarray whose dtype and rank collectives can handle."""
    array = value.local if isinstance(value, SymmetricArray) else check.array(name, value)
    if array.dtype not in CODES:
        known = ", ".join(str(d) for d in DTYPES)
        raise ArgumentError(f"{name} must have one of the dtypes {known}, but got {array.dtype}")
    if array.ndim > MAX_RANK:
        raise ArgumentError(f"{name} must have at most {MAX_RANK} axes, but got {array.ndim}")
    return array


def check_operation(op: str, dtype: np.dtype[np.generic]) -> int:
    """Return the number of a reduction that ``dtype`` supports."""
    number = OPS.get(op) if isinstance(op, str) else None
    if number is None:
        raise ArgumentError(f"op must be one of {', '.join(OPS)}, but got {shown(op)}")
    if not supports(number, dtype):
        raise ArgumentError(f"op 'avg' must have a floating-point array, but got {dtype}")
    return number


def check_member(group: Membership, argument: str, value: int) -> int:
    """Return the number of a member."""
    if type(value) is int and 0 <= value < group.n_pes:
        return value
    return check.index(argument, value, group.n_pes, f" for group {group.name!r}")


def check_rows(group: Membership, array: Input | None) -> Array:
    """Return an array with a row for each member."""
    source = check_array(array)
    if not source.ndim or len(source) != group.n_pes:
        raise ArgumentError(
            f"array must have {group.n_pes} rows, one for each member of group {group.name!r}, "
            f"but got shape {source.shape}"
        )
    return source


def check_counts(group: Membership, source: Array, send_counts: Sequence[int]) -> list[int]:
    """Return the numbers of rows of ``source`` that go to each member."""
    counts = list(check.integers("send_counts", send_counts))
    if len(counts) != group.n_pes or any(n < 0 for n in counts):
        raise ArgumentError(
            f"send_counts must be {group.n_pes} numbers that are not negative, but got "
            f"{shown(counts)}"
        )
    if not source.ndim or sum(counts) != len(source):
        raise ArgumentError(
            f"send_counts must add up to the rows of array, which has shape {source.shape}, "
            f"but got {shown(counts)}, sum {shown(sum(counts))}"
        )
    return counts


def check_pairs(group: Membership, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return pairs (source, target) of members in which no source and no target comes twice."""
    checked = []
    try:
        listed = list(pairs)
    except TypeError:
        raise ArgumentError(
            f"pairs must be a list of (source, target), but got {shown(pairs)}"
        ) from None
    for pair in listed:
        try:
            s, t = pair
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"pairs must hold (source, target), but got {shown(pair)}"
            ) from error
        checked.append((check_member(group, "source", s), check_member(group, "target", t)))
    for side, name in enumerate(("source", "target")):
        seen = [pair[side] for pair in checked]
        if len(set(seen)) != len(seen):
            raise ArgumentError(f"pairs must name no {name} twice, but got {checked}")
    return tuple(checked)


def check_out(out: Output | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Return ``out`` if it has this shape and dtype; a new array if it is None."""
    if out is None:
        return np.empty(shape, dtype)
    array = out.local if isinstance(out, SymmetricArray) else out
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        got = f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else repr(type(out))
        raise ArgumentError(
            f"out must be an array of shape {shape} and dtype {dtype}, but got {got}"
        )
    if not array.flags.writeable:
        raise ArgumentError("out must be writable, but got a read-only array")
    return array


def check_row_buffer(out: Output | None, source: Array) -> Array | None:
    """Return ``out`` if it has rows like those of ``source``, whatever their number; None if it is None."""
    if out is None:
        return None
    given = check_array(out, "out")
    shape = (len(given), *source.shape[1:]) if given.ndim else (-1,)
    return check_out(given, shape, source.dtype)


class Result:
    """The destination of a collective: a dense array, copied to the caller's if that is not dense.

    Args:
        out: The caller's array. Default: a new one.
        shape: Shape that it must have.
        dtype: Its dtype.

    Raises:
        ArgumentError: ``out`` does not fit.
    """

    __slots__ = ("dense", "given")

    def __init__(
        self, out: Output | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> None:
        given = check_out(out, shape, dtype)
        self.given = given
        self.dense = given if given.flags.c_contiguous else np.empty(given.shape, given.dtype)

    def finish(self) -> Array:
        """Return the caller's array, filled."""
        if self.dense is not self.given:
            self.given[...] = self.dense
        return self.given


def as_source(source: Array, target: Array | None) -> Array:
    """Return ``source`` dense, and apart from where the result is written."""
    if not source.flags.c_contiguous:
        return source.copy()
    # Other members read the source while this one fills its target.
    if target is not None and np.may_share_memory(source, target):
        return source.copy()
    return source


def is_same(source: Array, target: Array) -> bool:
    """Return whether two arrays of one shape are the same dense memory."""
    return source.flags.c_contiguous and data_address(source) == data_address(target)


def data_address(array: Array) -> int:
    """Return the address of an array's first element."""
    return int(array_data(id(array)))
