"""Collectives of a group, which every member calls together.

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

Each method describes its collective as a ``Transfer`` or a ``Reduction``; :mod:`emu.comm.world.exchange`
executes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.errors import ArgumentError
from emu.comm.world.allocation import Allocation
from emu.comm.world.array import Input, Output
from emu.comm.world.collective_arguments import (
    Result,
    as_source,
    check_array,
    check_counts,
    check_member,
    check_operation,
    check_out,
    check_pairs,
    check_row_buffer,
    check_rows,
    data_address,
    is_same,
)
from emu.comm.world.collective_header import (
    HEADER_WORDS,
    IN,
    OUT,
    UNKNOWN,
    CollectiveHeader,
    header_dtype,
    header_shape,
)
from emu.comm.world.exchange import Block, Exchange, Fetch, Transfer
from emu.comm.world.staging import FLAT, FLAT_BYTES, ROWS, SLICES, Reduction

_NOTHING: list[None] = []  # has no hash, and so nothing is prepared for it


class Collectives(Allocation):
    """A group whose members call collectives."""

    _exchange_type: type[Exchange] = Exchange
    _exchange_made: Exchange | None = None

    @property
    def _exchange(self) -> Exchange:
        if self._exchange_made is None:
            self._exchange_made = self._exchange_type(self)
        return self._exchange_made

    # --- one to all ------------------------------------------------------------------------

    def broadcast(self, array: Input | None, root: int = 0, *, out: Output | None = None) -> Array:
        """Send the root's array to every member.

        Args:
            array: On the root, the array to send; elsewhere an array of the same shape and dtype, whose
                content is ignored, or None.
            root: Member that sends.
            out: Array to fill; it may be ``array``. Default: a new one.

        Returns:
            The root's array; ``out`` if given.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        done = self._repeat("broadcast", root if type(root) is int else _NOTHING, array, out)
        if done is not None:
            return done
        root = check_member(self, "root", root)
        mine = self.my_pe == root
        known = None if array is None and not mine else check_array(array)
        result = None if known is None else Result(out, known.shape, known.dtype)
        source = None
        if mine and known is not None and result is not None:
            source = as_source(known, None if is_same(known, result.dense) else result.dense)
        error = None
        x = self._exchange

        def fetch(headers: Words) -> Fetch:
            nonlocal error, result
            if result is None:
                shape, dtype = header_shape(headers[root]), header_dtype(headers[root])
                try:
                    result = Result(out, shape, dtype)
                except ArgumentError as wrong:  # the others go on: so must this one, up to the end
                    error, result = wrong, Result(None, shape, dtype)
            target, nbytes = data_address(result.dense), result.dense.nbytes
            if source is None:
                return Fetch([x.block(headers, root, (0, 0), target, nbytes)], nbytes)
            blocks = [Block(data_address(source), target, nbytes)]
            return Fetch([] if is_same(source, result.dense) else blocks, nbytes)

        x.execute(
            Transfer(
                header=_header("broadcast", known, root=root),
                slot=x.chunk,
                stage=[] if source is None else [(data_address(source), source.nbytes, 0)],
                senders=(root,),
                fetch=fetch,
                source=UNKNOWN if source is None else x.place(source),
            )
        )
        if error is not None:
            raise error
        assert result is not None
        if known is not None:
            stage = [(0, known.nbytes, 0)] if mine else []
            header = _header("broadcast", known, root=root)
            x.prepared.add_transfer(root, header, known.shape, stage, [(root, 0, 0)], 0)
        return result.finish()

    def scatter(
        self, array: Input | None = None, root: int = 0, *, out: Output | None = None
    ) -> Array:
        """Send the root's ``array[p]`` to member ``p``.

        Args:
            array: On the root, an array of shape ``(n_pes, …)``; ignored elsewhere.
            root: Member that sends.
            out: Array to fill. Default: a new one, of the root's dtype.

        Returns:
            This member's slice; ``out`` if given.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        root = check_member(self, "root", root)
        source = check_rows(self, array) if self.my_pe == root else None
        # A member that gives `out` says what it expects; others take what comes.
        expected = source[0] if source is not None else None
        if out is not None:
            expected = check_array(out, "out") if expected is None else expected
            given = check_out(out, expected.shape, expected.dtype)
            source = None if source is None else as_source(source, given)
        source = None if source is None else as_source(source, None)
        result = None
        x = self._exchange

        def fetch(headers: Words) -> Fetch:
            nonlocal result
            result = Result(out, header_shape(headers[root]), header_dtype(headers[root]))
            target, nbytes = data_address(result.dense), result.dense.nbytes
            if source is not None:
                block = Block(data_address(source) + root * nbytes, target, nbytes)
            else:
                offsets = self.my_pe * nbytes, self.my_pe * x.slot
                block = x.block(headers, root, offsets, target, nbytes)
            return Fetch([block], nbytes)

        x.execute(
            Transfer(
                header=_header("scatter", expected, root=root),
                slot=x.slot,
                stage=[] if source is None else self._stage_rows(source),
                senders=(root,),
                fetch=fetch,
                source=UNKNOWN if source is None else x.place(source),
            )
        )
        assert result is not None
        return result.finish()

    # --- all to one, all to all ------------------------------------------------------------

    def gather(self, array: Input, root: int = 0, *, out: Output | None = None) -> Array | None:
        """Collect every member's array on the root.

        Args:
            array: This member's contribution.
            root: Member that collects.
            out: On the root, array of shape ``(n_pes, *array.shape)`` to fill. Default: a new one.

        Returns:
            On the root the array of all; None elsewhere.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        return self._gather("gather", array, check_member(self, "root", root), out)

    def all_gather(self, array: Input, *, out: Output | None = None) -> Array:
        """Collect every member's array on every member.

        Args:
            array: This member's contribution.
            out: Array of shape ``(n_pes, *array.shape)`` to fill. Default: a new one.

        Returns:
            The array of all; row ``p`` is member ``p``'s contribution.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        done = self._repeat("all_gather", None, array, out)
        if done is not None:
            return done
        result = self._gather("all_gather", array, None, out)
        assert result is not None
        return result

    def _gather(
        self, kind: str, array: Input, root: int | None, out: Output | None
    ) -> Array | None:
        source = check_array(array)
        collects = root is None or root == self.my_pe
        shape = (self.n_pes, *source.shape)
        result = Result(out, shape, source.dtype) if collects else None
        source = as_source(source, None if result is None else result.dense)
        data, nbytes, my = data_address(source), source.nbytes, self.my_pe
        x = self._exchange

        def fetch(headers: Words) -> Fetch:
            outputs = headers[:, OUT].tolist()
            if min(outputs) >= 0:  # everyone writes its block to all the others
                blocks = [
                    Block(data, int(x.heaps[pe]) + outputs[pe] + my * nbytes, nbytes)
                    for pe in self._members_from_me()
                ]
                return Fetch(blocks, nbytes, writes=True)
            if result is None:
                return Fetch((), nbytes)
            start, own = data_address(result.dense), 0
            if headers[my, IN] < 0:
                own = start + my * nbytes
            blocks = [
                x.block(headers, pe, (0, 0), start + pe * nbytes, nbytes)
                for pe in self._members_from_me()
                if pe != my or not own
            ]
            return Fetch(blocks, nbytes, own=own)

        writable = result is not None and root is None
        x.execute(
            Transfer(
                header=_header(kind, source, root=root or 0),
                slot=x.chunk,
                stage=[(data, nbytes, 0)],
                senders=range(self.n_pes),
                fetch=fetch,
                source=x.place(source),
                target=x.place(result.dense) if result is not None and writable else UNKNOWN,
            )
        )
        if root is None:
            pulls = [(pe, 0, pe * nbytes) for pe in self._members_from_me()]
            header, whole = _header(kind, source), [(0, nbytes, 0)]
            x.prepared.add_transfer(None, header, shape, whole, pulls, my * nbytes)
        return None if result is None else result.finish()

    def all_to_all(self, array: Input, *, out: Output | None = None) -> Array:
        """Send ``array[p]`` to member ``p``, for each ``p``.

        Args:
            array: Array of shape ``(n_pes, …)``.
            out: Array of the same shape to fill. Default: a new one.

        Returns:
            Row ``p`` is what member ``p`` sent to this one.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        done = self._repeat("all_to_all", None, array, out)
        if done is not None:
            return done
        source = check_rows(self, array)
        result = Result(out, source.shape, source.dtype)
        source = as_source(source, result.dense)
        data, nbytes, my = data_address(source), source.nbytes // self.n_pes, self.my_pe
        start = data_address(result.dense)
        x = self._exchange

        def fetch(headers: Words) -> Fetch:
            offsets = my * nbytes, my * x.slot
            blocks = [
                Block(data + my * nbytes, start + my * nbytes, nbytes)
                if pe == my
                else x.block(headers, pe, offsets, start + pe * nbytes, nbytes)
                for pe in self._members_from_me()
            ]
            return Fetch(blocks, nbytes)

        x.execute(
            Transfer(
                header=_header("all_to_all", source),
                slot=x.slot,
                stage=self._stage_rows(source),
                senders=range(self.n_pes),
                fetch=fetch,
                source=x.place(source),
            )
        )
        rows = [(pe * nbytes, nbytes, pe * x.slot) for pe in range(self.n_pes) if pe != my]
        pulls = [
            (pe, my * (nbytes if pe == my else x.slot), pe * nbytes)
            for pe in self._members_from_me()
        ]
        header = _header("all_to_all", source)
        x.prepared.add_transfer(None, header, source.shape, rows, pulls, 0)
        return result.finish()

    def all_to_all_v(
        self, array: Input, send_counts: Sequence[int], *, out: Output | None = None
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
        source = check_array(array)
        counts = check_counts(self, source, send_counts)
        given = check_row_buffer(out, source)
        source = as_source(source, given)
        row_bytes = _row_bytes(source)
        x, my = self._exchange, self.my_pe
        received: Words = np.zeros(self.n_pes, np.int64)
        result = error = None

        def fetch(headers: Words) -> Fetch:
            nonlocal received, result, error
            sent = headers[:, HEADER_WORDS:]  # row: sender, column: receiver
            received = sent[:, my].copy()
            longest, total = int(sent.max()) * row_bytes, int(received.sum())
            if given is not None and len(given) < total:
                error = ArgumentError(f"out must have at least {total} rows, but got {len(given)}")
                return Fetch((), longest)  # the others go on: so must this one, up to the end
            target = None if given is None else given[:total]
            result = Result(target, (total, *source.shape[1:]), source.dtype)
            ends = (np.cumsum(received) * row_bytes).tolist()
            blocks = []
            for pe in self._members_from_me():
                nbytes = int(received[pe]) * row_bytes
                there = data_address(result.dense) + ends[pe] - nbytes
                before = int(sent[pe, :my].sum()) * row_bytes
                if pe == my:
                    blocks.append(Block(data_address(source) + before, there, nbytes))
                else:
                    blocks.append(x.block(headers, pe, (before, my * x.slot), there, nbytes))
            return Fetch(blocks, longest)

        x.execute(
            Transfer(
                header=CollectiveHeader(
                    kind="all_to_all_v",
                    dtype=source.dtype,
                    shape=source.shape[1:],
                    counts=tuple(counts),
                ),
                slot=x.slot,
                stage=self._stage_counts(source, counts, row_bytes),
                senders=range(self.n_pes),
                fetch=fetch,
                source=x.place(source),
            )
        )
        if error is not None:
            raise error
        assert result is not None
        return result.finish(), received

    def permute(
        self, array: Input, pairs: Sequence[tuple[int, int]], *, out: Output | None = None
    ) -> Array:
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
        source = check_array(array)
        checked = check_pairs(self, pairs)
        result = Result(out, source.shape, source.dtype)
        source = as_source(source, result.dense)
        my, nbytes = self.my_pe, source.nbytes
        senders = [s for s, _ in checked]
        origin = next((s for s, t in checked if t == my), None)
        x = self._exchange

        def fetch(headers: Words) -> Fetch:
            if origin is None:
                result.dense[...] = 0
                return Fetch((), nbytes)
            block = x.block(headers, origin, (0, 0), data_address(result.dense), nbytes)
            return Fetch([block], nbytes)

        x.execute(
            Transfer(
                header=_header("permute", source, pairs=checked),
                slot=x.chunk,
                stage=[(data_address(source), nbytes, 0)] if my in senders else [],
                senders=senders,
                fetch=fetch,
                source=x.place(source),
            )
        )
        return result.finish()

    # --- reductions ------------------------------------------------------------------------

    def all_reduce(self, array: Input, op: str = "sum", *, out: Output | None = None) -> Array:
        """Combine every member's array element by element, and give the result to all.

        Args:
            array: This member's contribution.
            op: ``"sum"``, ``"prod"``, ``"max"``, ``"min"`` or ``"avg"``.
            out: Array to fill; it may be ``array``. Default: a new one.

        Returns:
            The result, the same bits on every member.

        Raises:
            ArgumentError: A bad argument, or members disagree. Nothing was changed.
        """
        done = self._repeat("all_reduce", op, array, out)
        if done is not None:
            return done
        source = check_array(array)
        number = check_operation(op, source.dtype)
        result = Result(out, source.shape, source.dtype)
        source = as_source(source, None if is_same(source, result.dense) else result.dense)
        self._reduce(
            op,
            Reduction(
                header=_header("all_reduce", source, op=number),
                mode=FLAT if source.nbytes <= FLAT_BYTES else SLICES,
                source=source,
                target=result.dense,
                total=source.size,
            ),
        )
        return result.finish()

    def reduce_scatter(self, array: Input, op: str = "sum", *, out: Output | None = None) -> Array:
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
        done = self._repeat("reduce_scatter", op, array, out)
        if done is not None:
            return done
        source = check_rows(self, array)
        number = check_operation(op, source.dtype)
        result = Result(out, source.shape[1:], source.dtype)
        source = as_source(source, result.dense)
        self._reduce(
            op,
            Reduction(
                header=_header("reduce_scatter", source, op=number),
                mode=ROWS,
                source=source,
                target=result.dense,
                total=result.dense.size,
                row_bytes=result.dense.nbytes,
            ),
        )
        return result.finish()

    def _reduce(self, op: str, reduction: Reduction) -> None:
        self._exchange.reduce(reduction)
        self._exchange.prepared.add_reduction(op, reduction)

    # --- blocks ----------------------------------------------------------------------------

    def _repeat(
        self, kind: str, detail: object, array: Input | None, out: Output | None
    ) -> Array | None:
        """Return the output of a call like one before; None: take the general path."""
        exchange = self._exchange_made
        return None if exchange is None else exchange.prepared.call(kind, detail, array, out)

    def _members_from_me(self) -> list[int]:
        """Return the members, this one first: no two begin with the same block."""
        return [*range(self.my_pe, self.n_pes), *range(self.my_pe)]

    def _stage_rows(self, source: Array) -> list[tuple[int, int, int]]:
        """Return the rows that the other members get, for the stage table."""
        nbytes, start, slot = source.nbytes // self.n_pes, data_address(source), self._exchange.slot
        return [
            (start + pe * nbytes, nbytes, pe * slot) for pe in range(self.n_pes) if pe != self.my_pe
        ]

    def _stage_counts(
        self, source: Array, counts: list[int], row_bytes: int
    ) -> list[tuple[int, int, int]]:
        """Return the rows that the other members get, where each gets a number of its own."""
        stage, start, slot = [], data_address(source), self._exchange.slot
        for pe, count in enumerate(counts):
            if pe != self.my_pe and count:
                stage.append((start, count * row_bytes, pe * slot))
            start += count * row_bytes
        return stage


def _header(
    kind: str,
    array: Array | None,
    *,
    op: int = 0,
    root: int = 0,
    pairs: tuple[tuple[int, int], ...] = (),
) -> CollectiveHeader:
    dtype, shape = (None, ()) if array is None else (array.dtype, array.shape)
    return CollectiveHeader(kind=kind, dtype=dtype, shape=shape, op=op, root=root, pairs=pairs)


def _row_bytes(source: Array) -> int:
    """Return the bytes of a row; of an array without rows, too."""
    nbytes = source.itemsize
    for extent in source.shape[1:]:
        nbytes *= extent
    return nbytes
