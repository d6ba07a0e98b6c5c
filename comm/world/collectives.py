"""Collectives of a group: what every member calls together.

The forms follow NCCL and ``torch.distributed``: inputs are arrays of this PE (ndarrays of any
strides, or SymmetricArrays), results are new arrays or go to ``out``. Every member calls the same
collective with the same shape, dtype, op and root, and the collectives of one group in the same
order; where members disagree, all of them raise and nothing was written.

A call returns when this PE's result is there and its input may be changed. It is no barrier: other
members may still be at work on theirs.

Reductions give the same bits on every member and in every run. They combine in the order of the
members: fp32 and fp64 in their own precision, fp16 and bf16 in fp32 with one rounding at the end.
Integers wrap. For bool, ``sum`` and ``max`` mean or, ``prod`` and ``min`` mean and. ``max`` and
``min`` give NaN where any member has NaN. ``avg`` is for floating point only.

How blocks move is in :mod:`emu.comm.world.exchange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.world.array import SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.exchange import (
    FLAT,
    FLAT_BYTES,
    HEADER_WORDS,
    IN,
    MAX_RANK,
    OUT,
    ROWS,
    SLICES,
    UNKNOWN,
    Array,
    Call,
    Exchange,
    header_dtype,
    header_shape,
)
from emu.kernels.core.address import array_data
from emu.kernels.core.dtypes import DTYPES
from emu.kernels.core.messages import shown
from emu.kernels.reduce import CODES, OPS, supports

if TYPE_CHECKING:
    from emu.comm.world.world import Group


class Collectives:
    """Base of Group."""

    my_pe: int
    n_pes: int
    name: str
    _exchange_type: type[Exchange] = Exchange
    _exchange_made: Exchange | None = None

    @property
    def _exchange(self) -> Exchange:
        if self._exchange_made is None:
            self._exchange_made = self._exchange_type(cast("Group", self))
        return self._exchange_made

    # --- one to all ------------------------------------------------------------------------

    def broadcast(self, array: Any, root: int = 0, *, out: Any = None) -> Array:
        """Give every member the root's array.

        Args:
            array: On the root, what to send; elsewhere an array of the same shape and dtype, whose
                content is ignored, or None.
            root: Member that sends.
            out: Array to fill; it may be ``array``. Default: a new one.

        Returns:
            The root's array; ``out`` if given.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        root = self._member("root", root)
        source = self._maybe(array, root)
        given = None if source is None else _target(out, source.shape, source.dtype)
        dense = None if given is None else _dense_out(given)
        mine = self.my_pe == root
        if mine:
            assert source is not None
            assert dense is not None
            source = _dense(source, None if _same(source, dense) else dense)
        call = self._call("broadcast", source, root=root)
        x = self._exchange
        stage = [(_data(source), source.nbytes, 0)] if mine and source is not None else []
        place = x.place(source) if mine and source is not None else UNKNOWN
        table, plan = x.copy(call, x.chunk, stage, place, UNKNOWN)
        error = None
        if given is None or dense is None:
            shape, dtype = header_shape(table[root]), header_dtype(table[root])
            try:
                given = _target(out, shape, dtype)
            except ArgumentError as wrong:  # the others go on: so must this one, up to the end
                error, given = wrong, np.empty(shape, dtype)
            dense = _dense_out(given)
        fetch = []
        direct = int(table[root, IN])
        if not mine:
            fetch = [self._block(root, direct, 0, _data(dense), dense.nbytes)]
        elif source is not None and not _same(source, dense):
            fetch = [(_data(source), _data(dense), dense.nbytes, 0)]
        x.run(call, plan, fetch, dense.nbytes, sync=direct < 0)
        if direct >= 0:
            x.meet(call)
        if error is not None:
            raise error
        return _finish(given, dense)

    def scatter(self, array: Any = None, root: int = 0, *, out: Any = None) -> Array:
        """Give member ``p`` the root's ``array[p]``.

        Args:
            array: On the root, an array of shape ``(n_pes, …)``; ignored elsewhere.
            root: Member that sends.
            out: Array to fill. Default: a new one, of the root's dtype.

        Returns:
            This member's slice; ``out`` if given.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        root = self._member("root", root)
        mine = self.my_pe == root
        source = self._rows(array) if mine else None
        # Who gives `out` says what it expects; others take what comes.
        expected = source[0] if source is not None else None
        if out is not None:
            expected = _array(out, "out") if expected is None else expected
            given = _target(out, expected.shape, expected.dtype)
            source = None if source is None else _dense(source, given)
        x = self._exchange
        stage: list[tuple[int, int, int]] = []
        place = UNKNOWN
        if source is not None:
            source = _dense(source, None)
            stage, place = self._stage_rows(source), x.place(source)
        call = self._call("scatter", expected, root=root)
        table, plan = x.copy(call, x.slot, stage, place, UNKNOWN)
        given = _target(out, header_shape(table[root]), header_dtype(table[root]))
        dense = _dense_out(given)
        nbytes, direct = dense.nbytes, int(table[root, IN])
        if source is not None:
            fetch = [(_data(source) + root * nbytes, _data(dense), nbytes, 0)]
        else:
            offset = self.my_pe * (x.slot if direct < 0 else nbytes)
            fetch = [self._block(root, direct, offset, _data(dense), nbytes)]
        x.run(call, plan, fetch, nbytes, sync=direct < 0)
        if direct >= 0:
            x.meet(call)
        return _finish(given, dense)

    # --- all to one, all to all ------------------------------------------------------------

    def gather(self, array: Any, root: int = 0, *, out: Any = None) -> Array | None:
        """Collect every member's array on the root.

        Args:
            array: What this member gives.
            root: Member that collects.
            out: On the root, array of shape ``(n_pes, *array.shape)`` to fill. Default: a new one.

        Returns:
            On the root the array of all; None elsewhere.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        return self._gather("gather", array, self._member("root", root), out)

    def all_gather(self, array: Any, *, out: Any = None) -> Array:
        """Collect every member's array on every member.

        Args:
            array: What this member gives.
            out: Array of shape ``(n_pes, *array.shape)`` to fill. Default: a new one.

        Returns:
            The array of all; row ``p`` is what member ``p`` gave.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        result = self._gather("all_gather", array, None, out)
        assert result is not None
        return result

    def _gather(self, kind: str, array: Any, root: int | None, out: Any) -> Array | None:
        source = _array(array)
        collects = root is None or root == self.my_pe
        given = _target(out, (self.n_pes, *source.shape), source.dtype) if collects else None
        dense = None if given is None else _dense_out(given)
        source = _dense(source, dense)
        nbytes = source.nbytes
        call = self._call(kind, source, root=root or 0)
        x = self._exchange
        place_out = UNKNOWN if dense is None or root is not None else x.place(dense)
        stage = [(_data(source), nbytes, 0)]
        table, plan = x.copy(call, x.chunk, stage, x.place(source), place_out)
        inputs, outputs = table[:, IN].tolist(), table[:, OUT].tolist()
        if min(outputs) >= 0:  # everyone writes its block to all the others
            fetch = [
                (_data(source), int(x.heaps[pe]) + outputs[pe] + self.my_pe * nbytes, nbytes, 0)
                for pe in self._from_me()
            ]
            x.run(call, plan, fetch, nbytes, sync=False)
            x.meet(call)
            return None if given is None or dense is None else _finish(given, dense)
        fetch = []
        if dense is not None:
            start, my = _data(dense), self.my_pe
            fetch = [
                self._block(pe, inputs[pe], 0, start + pe * nbytes, nbytes)
                for pe in self._from_me()
                if pe != my or inputs[my] >= 0
            ]
            if inputs[my] < 0:
                x.keep_own(start + my * nbytes)
        x.run(call, plan, fetch, nbytes, sync=min(inputs) < 0)
        if max(inputs) >= 0:
            x.meet(call)
        return None if given is None or dense is None else _finish(given, dense)

    def all_to_all(self, array: Any, *, out: Any = None) -> Array:
        """Send ``array[p]`` to member ``p``, for each ``p``.

        Args:
            array: Array of shape ``(n_pes, …)``.
            out: Array of the same shape to fill. Default: a new one.

        Returns:
            Row ``p`` is what member ``p`` sent to this one.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        source = self._rows(array)
        given = _target(out, source.shape, source.dtype)
        dense = _dense_out(given)
        source = _dense(source, dense)
        call = self._call("all_to_all", source)
        x = self._exchange
        table, plan = x.copy(call, x.slot, self._stage_rows(source), x.place(source), UNKNOWN)
        nbytes, my = source.nbytes // self.n_pes, self.my_pe
        inputs = table[:, IN].tolist()
        fetch = []
        for pe in self._from_me():
            target = _data(dense) + pe * nbytes
            if pe == my:
                fetch.append((_data(source) + my * nbytes, target, nbytes, 0))
            else:
                offset = my * (x.slot if inputs[pe] < 0 else nbytes)
                fetch.append(self._block(pe, inputs[pe], offset, target, nbytes))
        x.run(call, plan, fetch, nbytes, sync=min(inputs) < 0)
        if max(inputs) >= 0:
            x.meet(call)
        return _finish(given, dense)

    def all_to_all_v(
        self, array: Any, send_counts: Sequence[int], *, out: Any = None
    ) -> tuple[Array, Array]:
        """Send rows of different numbers: the first ``send_counts[0]`` to member 0, and so on.

        Args:
            array: Array of ``sum(send_counts)`` rows; the members' rows have one shape and dtype.
            send_counts: Number of rows for each member.
            out: Array to fill, with room for at least as many rows as come. Default: a new one.

        Returns:
            ``(data, recv_counts)``: the rows received, member 0's first, and their numbers. With
            ``out``, data is the beginning of ``out``.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed here.
        """
        source = _array(array)
        counts = self._counts(source, send_counts)
        given = None if out is None else _array(out, "out")
        if given is not None:
            _target(out, (len(given), *source.shape[1:]) if given.ndim else (-1,), source.dtype)
        source = _dense(source, given)
        row_bytes = source.itemsize
        for extent in source.shape[1:]:
            row_bytes *= extent
        call = self._call("all_to_all_v", source, shape=source.shape[1:], counts=tuple(counts))
        x, my, start = self._exchange, self.my_pe, 0
        stage = []
        for pe, count in enumerate(counts):
            if pe != my and count:
                stage.append((_data(source) + start * row_bytes, count * row_bytes, pe * x.slot))
            start += count
        table, plan = x.copy(call, x.slot, stage, x.place(source), UNKNOWN)
        matrix = table[:, HEADER_WORDS:].copy()
        inputs = table[:, IN].tolist()
        received = matrix[:, my].copy()
        total = int(received.sum())
        error = None
        if given is not None and len(given) < total:
            error = ArgumentError(f"out must have at least {total} rows, but got {len(given)}")
        target = (
            given[:total]
            if given is not None
            else np.empty((total, *source.shape[1:]), source.dtype)
        )
        dense = _dense_out(target)
        fetch = []
        if error is None:
            ends = (np.cumsum(received) * row_bytes).tolist()
            for pe in self._from_me():
                nbytes = int(received[pe]) * row_bytes
                there = _data(dense) + ends[pe] - nbytes
                before = int(matrix[pe, :my].sum()) * row_bytes
                if pe == my:
                    fetch.append((_data(source) + before, there, nbytes, 0))
                else:
                    offset = my * x.slot if inputs[pe] < 0 else before
                    fetch.append(self._block(pe, inputs[pe], offset, there, nbytes))
        x.run(call, plan, fetch, int(matrix.max()) * row_bytes, sync=min(inputs) < 0)
        if max(inputs) >= 0:
            x.meet(call)
        if error is not None:
            raise error
        return _finish(target, dense), received

    def permute(self, array: Any, pairs: Sequence[tuple[int, int]], *, out: Any = None) -> Array:
        """Send arrays along pairs ``(source, target)``.

        Args:
            array: What this member sends, if it is a source; else it gives shape and dtype.
            pairs: The same list on every member. No source and no target comes twice.
            out: Array to fill. Default: a new one.

        Returns:
            What this member received; zeros if it is nobody's target.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        source = _array(array)
        checked = self._pairs(pairs)
        given = _target(out, source.shape, source.dtype)
        dense = _dense_out(given)
        source = _dense(source, dense)
        call = self._call("permute", source, pairs=checked)
        x, my, nbytes = self._exchange, self.my_pe, source.nbytes
        sends = any(s == my for s, _ in checked)
        stage = [(_data(source), nbytes, 0)] if sends else []
        table, plan = x.copy(call, x.chunk, stage, x.place(source), UNKNOWN)
        inputs = table[:, IN].tolist()
        origin = next((s for s, t in checked if t == my), None)
        fetch = []
        if origin is None:
            dense[...] = 0
        else:
            fetch = [self._block(origin, inputs[origin], 0, _data(dense), nbytes)]
        x.run(call, plan, fetch, nbytes, sync=any(inputs[s] < 0 for s, _ in checked))
        if max(inputs) >= 0:
            x.meet(call)
        return _finish(given, dense)

    # --- reductions ------------------------------------------------------------------------

    def all_reduce(self, array: Any, op: str = "sum", *, out: Any = None) -> Array:
        """Combine every member's array element by element, and give the result to all.

        Args:
            array: What this member gives.
            op: ``"sum"``, ``"prod"``, ``"max"``, ``"min"`` or ``"avg"``.
            out: Array to fill; it may be ``array``. Default: a new one.

        Returns:
            The result, the same bits on every member.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        source = _array(array)
        number = _operation(op, source.dtype)
        given = _target(out, source.shape, source.dtype)
        dense = _dense_out(given)
        source = _dense(source, None if _same(source, dense) else dense)
        mode = FLAT if source.nbytes <= FLAT_BYTES else SLICES
        call = self._call("all_reduce", source, op=number)
        self._exchange.reduce(call, mode, source, dense, source.size, 0)
        return _finish(given, dense)

    def reduce_scatter(self, array: Any, op: str = "sum", *, out: Any = None) -> Array:
        """Combine every member's array, and give row ``p`` of the result to member ``p``.

        Args:
            array: Array of shape ``(n_pes, …)``.
            op: As for :meth:`all_reduce`.
            out: Array of shape ``array.shape[1:]`` to fill. Default: a new one.

        Returns:
            This member's row of the result.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        source = self._rows(array)
        number = _operation(op, source.dtype)
        given = _target(out, source.shape[1:], source.dtype)
        dense = _dense_out(given)
        source = _dense(source, dense)
        call = self._call("reduce_scatter", source, op=number)
        self._exchange.reduce(call, ROWS, source, dense, dense.size, dense.nbytes)
        return _finish(given, dense)

    # --- arguments -------------------------------------------------------------------------

    def _call(
        self, kind: str, array: Array | None, *, shape: tuple[int, ...] | None = None, **more: Any
    ) -> Call:
        if array is None:
            return Call(kind=kind, dtype=None, shape=(), **more)
        extents = array.shape if shape is None else shape
        return Call(kind=kind, dtype=array.dtype, shape=extents, **more)

    def _member(self, argument: str, value: int) -> int:
        if type(value) is int and 0 <= value < self.n_pes:
            return value
        return check.index(argument, value, self.n_pes, f" for group {self.name!r}")

    def _maybe(self, array: Any, root: int) -> Array | None:
        """Return an array that only the root must have."""
        if array is None and self.my_pe != root:
            return None
        return _array(array)

    def _rows(self, array: Any) -> Array:
        """Return an array with a row for each member."""
        source = _array(array)
        if not source.ndim or len(source) != self.n_pes:
            raise ArgumentError(
                f"array must have {self.n_pes} rows, one for each member of group {self.name!r}, "
                f"but got shape {source.shape}"
            )
        return source

    def _counts(self, source: Array, send_counts: Sequence[int]) -> list[int]:
        counts = list(check.integers("send_counts", send_counts))
        if len(counts) != self.n_pes or any(n < 0 for n in counts):
            raise ArgumentError(
                f"send_counts must be {self.n_pes} numbers that are not negative, but got "
                f"{shown(counts)}"
            )
        if not source.ndim or sum(counts) != len(source):
            raise ArgumentError(
                f"send_counts must add up to the rows of array, which has shape {source.shape}, "
                f"but got {shown(counts)}, sum {shown(sum(counts))}"
            )
        return counts

    def _pairs(self, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
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
            checked.append((self._member("source", s), self._member("target", t)))
        for side, name in enumerate(("source", "target")):
            seen = [pair[side] for pair in checked]
            if len(set(seen)) != len(seen):
                raise ArgumentError(f"pairs must name no {name} twice, but got {checked}")
        return tuple(checked)

    # --- blocks ----------------------------------------------------------------------------

    def _from_me(self) -> list[int]:
        """Return the members, this one first: no two begin with the same block."""
        return [*range(self.my_pe, self.n_pes), *range(self.my_pe)]

    def _stage_rows(self, source: Array) -> list[tuple[int, int, int]]:
        """Return the rows that the other members get, for the stage table."""
        nbytes, start, slot = source.nbytes // self.n_pes, _data(source), self._exchange.slot
        return [
            (start + pe * nbytes, nbytes, pe * slot) for pe in range(self.n_pes) if pe != self.my_pe
        ]

    def _block(
        self, pe: int, direct: int, offset: int, target: int, nbytes: int
    ) -> tuple[int, int, int, int]:
        """Return a row of the fetch table: from PE ``pe``'s input if direct, else its staging."""
        x = self._exchange
        if direct >= 0:
            return int(x.heaps[pe]) + direct + offset, target, nbytes, 0
        return int(x.staging[pe]) + offset, target, nbytes, 1


def _array(value: Any, name: str = "array") -> Array:
    array = value.local if isinstance(value, SymmetricArray) else check.array(name, value)
    if array.dtype not in CODES:
        known = ", ".join(str(d) for d in DTYPES)
        raise ArgumentError(f"{name} must have one of the dtypes {known}, but got {array.dtype}")
    if array.ndim > MAX_RANK:
        raise ArgumentError(f"{name} must have at most {MAX_RANK} axes, but got {array.ndim}")
    return array


def _operation(op: str, dtype: np.dtype[Any]) -> int:
    number = OPS.get(op) if isinstance(op, str) else None
    if number is None:
        raise ArgumentError(f"op must be one of {', '.join(OPS)}, but got {shown(op)}")
    if not supports(number, dtype):
        raise ArgumentError(f"op 'avg' must have a floating-point array, but got {dtype}")
    return number


def _target(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
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


def _dense_out(given: Array) -> Array:
    """Return ``given``, or a dense array to be copied to it by :func:`_finish`."""
    return given if given.flags.c_contiguous else np.empty(given.shape, given.dtype)


def _finish(given: Array, dense: Array) -> Array:
    if dense is not given:
        given[...] = dense
    return given


def _dense(source: Array, target: Array | None) -> Array:
    """Return ``source`` dense, and apart from where the result is written."""
    if not source.flags.c_contiguous:
        return source.copy()
    if target is not None and np.may_share_memory(source, target):
        return source.copy()
    return source


def _same(source: Array, target: Array) -> bool:
    return source.flags.c_contiguous and _data(source) == _data(target)


def _data(array: Array) -> int:
    return int(array_data(id(array)))
