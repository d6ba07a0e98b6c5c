"""Prepared collectives of plain groups (:mod:`emu.comm.world.prepared`) that record themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.errors import StoppedError
from emu.comm.sync.signal_numbers import DONE
from emu.comm.world.allocation import Allocation
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.exchange import Exchange
from emu.comm.world.prepared import PreparedCall, PreparedCalls
from emu.comm.world.prepared_rounds import UNPREPARED, run_call
from emu.kernels.core.jit import native_address
from emu.trace import fused
from emu.trace.events import Kind
from emu.trace.fused import MISSED, S_BEGUN, S_NUMBER, S_PASSED, S_SIZE

# Names that are looked up on every call; the entry of compiled code is put in the place of the last.
_ndarray, _SymmetricArray = np.ndarray, SymmetricArray
_collective = fused.collective


class RecordedCalls(PreparedCalls):
    """The calls that a recorded group has prepared."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._group: Any = exchange.group  # a recorded one
        self._spots: dict[PreparedCall, Words] = {}
        self._left: tuple[int, int] | None = None
        self._is_tried = False

    def call(
        self, kind: str, detail: object, array: Input | None, out: Output | None
    ) -> Array | None:
        """Do a call as :meth:`PreparedCalls.call` does, but not the one that :meth:`record` has just left to the general path."""
        if self._is_tried:
            self._is_tried = False
            return None
        return super().call(kind, detail, array, out)

    def take_left(self) -> tuple[int, int] | None:
        """Return when the call began that :meth:`record` has left behind its opening barrier, and how often that was passed before."""
        left, self._left = self._left, None
        return left

    def record(
        self, kind: str, detail: object, array: Input | None, out: Output | None
    ) -> Array | None:
        """Do a call as :meth:`PreparedCalls.call` does, and record it."""
        if type(array) is _SymmetricArray:
            array = array.local
        if type(out) is _SymmetricArray:
            out = out.local
        # The conditions of the call that is not recorded.
        self._is_tried = True
        if type(array) is not _ndarray:
            return None
        try:
            call = self._calls.get((kind, detail, array.shape, array.dtype))
        except TypeError:
            return None
        if call is None or not array.flags.c_contiguous:
            return None
        if out is None:
            out = np.empty(call.shape, call.dtype)
        elif (
            type(out) is not _ndarray
            or out.shape != call.shape
            or out.dtype != call.dtype
            or not out.flags.carray
        ):
            return None
        spot = call.spot or self._make_spot(call, kind, array)
        arrived = _collective(spot, id(array), id(out))
        if arrived == DONE:
            self._is_tried = False
            return out
        return self._finish(call, arrived, out)

    def _make_spot(self, call: PreparedCall, kind: str, array: Array) -> int:
        """Make the words of a call, and return their address."""
        number, size = self._group._collective_number(kind, array, array)
        run = native_address(run_call, 6)
        plain = self._group._spots.plain
        spot = plain._replace(number=number, size=size, call=call.number, run=run)
        words: Words = np.array(spot, np.int64)
        self._spots[call] = words
        call.spot = int(words.ctypes.data)
        return call.spot

    def _finish(self, call: PreparedCall, arrived: int, out: Array) -> Array | None:
        """Do what is left of a call; None: the general path must."""
        if arrived in (MISSED, UNPREPARED):
            self._is_tried = arrived == UNPREPARED  # what was missed, the prepared call does
            return None
        group, words = self._group, self._spots[call]
        begun, passed = int(words[S_BEGUN]), int(words[S_PASSED])
        try:
            done = self._go_on(call, arrived)
        except StoppedError:
            group._stopped(begun, Kind.COLLECTIVE, call.header.kind)
            raise
        finally:
            self._is_tried = False
        if not done:
            self._is_tried, self._left = True, (begun, passed)
            return None
        group._end_meeting(int(words[S_NUMBER]), begun, int(words[S_SIZE]), passed)
        return out

    def _add(self, key: tuple[Any, ...], *parts: Any) -> None:
        super()._add(key, *parts)
        if len(self._calls) == 1:  # the others are forgotten
            self._spots.clear()


class RecordedExchange(Exchange):
    """The exchanges of a recorded group."""

    def __init__(self, group: Allocation) -> None:
        super().__init__(group)
        self.prepared = RecordedCalls(self)
