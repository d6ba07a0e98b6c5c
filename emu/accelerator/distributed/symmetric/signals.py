"""Signals between two members of a group, and barriers made of them, by the rules of torch's signal pads.

Each member has a pad of 32-bit words; word ``channel * members + sender`` is a channel from one member to its owner. A
sender waits until the word is 0 and makes it 1, the owner waits for 1 and makes it 0. So a pad holds zeros whenever nobody
is in the midst of it. All goes through the machine, which reports waits that nobody can end.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from emu.accelerator.distributed import works
from emu.accelerator.distributed.symmetric.checks import check
from emu.accelerator.distributed.symmetric.errors import SignalTimeoutError, SymmetricArgumentError
from emu.comm.memory.stop import check_stopped
from emu.comm.ops import Cmp

if TYPE_CHECKING:  # they load Numba
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group

_POLL_S = 0.0002
_LONGEST_MS = 1 << 62


class Signals:
    """The pads of one allocation in one group.

    Args:
        group: The group.
        pad: Its members' pads, of 32-bit words.
    """

    def __init__(self, group: Group, pad: SymmetricArray) -> None:
        self.group = group
        self.pad = pad
        self._lock = threading.RLock()  # two threads in one barrier would take each other's signals

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for every member.

        Raises:
            SignalTimeoutError: One did not come in time.
        """
        self._check(channel, timeout_ms)
        group, me = self.group, self.group.my_pe
        others = [(me + step) % group.n_pes for step in range(1, group.n_pes)]
        until = _deadline(timeout_ms)
        works.flush_collectives()
        with self._lock:
            for pe in others:
                self._put(pe, channel, until, f"barrier on channel {channel}", timeout_ms)
            for pe in others:
                self._take(pe, channel, until, f"barrier on channel {channel}", timeout_ms)

    def put(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Signal a member, after the last signal on this channel was taken.

        Raises:
            SignalTimeoutError: It was not taken in time.
        """
        self._check(channel, timeout_ms, dst_rank, "dst_rank")
        works.flush_collectives()
        with self._lock:
            what = f"put_signal to rank {dst_rank} on channel {channel}"
            self._put(dst_rank, channel, _deadline(timeout_ms), what, timeout_ms)

    def wait(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Wait for a member's signal, and take it.

        Raises:
            SignalTimeoutError: It did not come in time.
        """
        self._check(channel, timeout_ms, src_rank, "src_rank")
        works.flush_collectives()
        what = f"wait_signal from rank {src_rank} on channel {channel}"
        self._take(src_rank, channel, _deadline(timeout_ms), what, timeout_ms)

    def _check(self, channel: int, timeout_ms: int, rank: int = 0, name: str = "rank") -> None:
        n_pes = self.group.n_pes
        channels = self.pad.size // n_pes
        if not 0 <= check.integer("channel", channel) < channels:
            raise SymmetricArgumentError(
                f"channel must be in [0, {channels}), but got {channel}: the maximum supported channel of {n_pes} ranks "
                f"with a signal pad of {self.pad.nbytes} bytes is {channels - 1}"
            )
        check.index(name, rank, n_pes)
        check.integer("timeout_ms", timeout_ms, low=0, high=_LONGEST_MS)

    def _put(self, pe: int, channel: int, until: float, what: str, timeout_ms: int) -> None:
        group, pad = self.group, self.pad
        word = channel * group.n_pes + group.my_pe
        if until:
            while group.compare_swap(pad, 0, 1, pe, index=word):
                self._check_time(until, what, timeout_ms)
            return
        while group.compare_swap(pad, 0, 1, pe, index=word):
            time.sleep(_POLL_S)

    def _take(self, pe: int, channel: int, until: float, what: str, timeout_ms: int) -> None:
        group, pad = self.group, self.pad
        word = channel * group.n_pes + pe
        while True:
            if until:
                while not group.test(pad, Cmp.EQ, 1, index=word):
                    self._check_time(until, what, timeout_ms)
            else:
                group.wait_until(pad, Cmp.EQ, 1, index=word)
            if group.compare_swap(pad, 1, 0, group.my_pe, index=word):
                return

    def _check_time(self, until: float, what: str, timeout_ms: int) -> None:
        check_stopped(self.group.segment)
        if time.monotonic() > until:
            raise SignalTimeoutError(
                f"[rank {self.group.my_pe}] {what} has timed out after {timeout_ms} ms (CUDA error: "
                "unspecified launch failure, as the kernel that waits on a GPU ends with a trap)"
            )
        time.sleep(_POLL_S)


def _deadline(timeout_ms: int) -> float:
    """Return when to give up; 0: never."""
    return time.monotonic() + timeout_ms / 1000 if timeout_ms else 0.0
