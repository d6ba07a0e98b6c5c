"""``NonBlocking``: puts, gets and atomics that a program must complete by ``quiet``.

OpenSHMEM 1.5 lets such an operation happen at any time between the call and the next ``quiet`` or ``barrier``
of the calling PE. Here it happens in the call, which that allows. A program must not count on it: until then
it leaves sources and results alone, and no other PE knows when the target changes.

Each method calls the blocking operation of the class itself (:attr:`OneSided._plain`), so that a subclass can watch
both kinds apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.ops import AtomicOp
from emu.comm.sync import signal_numbers
from emu.comm.world.array import Input, Output, SymmetricArray, symmetric
from emu.comm.world.checks import check
from emu.comm.world.one_sided import OneSided
from emu.kernels.core.messages import shown


class NonBlocking(OneSided):
    """A group whose members start operations and complete them together."""

    def put_nbi(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Start a :meth:`put`; ``quiet`` or ``barrier`` completes it.

        Until then ``src`` must not be changed, and other PEs must not count on what is in ``dst``.

        Raises:
            ArgumentError: As :meth:`put`.
        """
        self._plain.put(self, dst, src, pe, offsets=offsets, op=op)

    def get_nbi(
        self,
        src: SymmetricArray,
        pe: int,
        out: Output,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        """Start a :meth:`get` into ``out``; ``quiet`` or ``barrier`` completes it.

        Until then ``out`` must be neither read nor changed, and ``src`` must not be changed on ``pe``.

        Raises:
            ArgumentError: As :meth:`get`; or ``out`` is None.
        """
        check_output(out)
        self._plain.get(self, src, pe, offsets=offsets, shape=shape, out=out)

    def put_signal_nbi(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Start a :meth:`put_signal`; ``quiet`` or ``barrier`` completes it.

        A PE that sees the signal sees the data. Until ``quiet`` ``src`` must not be changed.

        Raises:
            ArgumentError: As :meth:`put_signal`.
        """
        self._plain.put_signal(
            self, dst, src, pe, signal, value, index=index, offsets=offsets, op=op, sig_op=sig_op
        )

    # --- atomics ---------------------------------------------------------------------------

    def fetch_add_nbi(
        self,
        out: Output,
        target: SymmetricArray,
        value: int,
        pe: int,
        *,
        index: int = 0,
        out_index: int = 0,
    ) -> None:
        """Start a :meth:`fetch_add` whose result goes to element ``out_index`` (C order) of ``out``.

        ``quiet`` or ``barrier`` completes it; until then that element must be neither read nor changed.

        Args:
            out: An array of the target's dtype.
            target: As for :meth:`fetch_add`.
            value: What to add.
            pe: Member whose element it is.
            index: Which element, in C order.
            out_index: Which element of ``out`` gets the old value.

        Raises:
            ArgumentError: As :meth:`fetch_add`; or ``out`` has another dtype, is read-only or has no such element.
        """
        self._start(out, out_index, target, pe, index, signal_numbers.ADD, value)

    def swap_nbi(
        self,
        out: Output,
        target: SymmetricArray,
        value: int,
        pe: int,
        *,
        index: int = 0,
        out_index: int = 0,
    ) -> None:
        """Start a :meth:`swap`; its result goes to ``out`` as that of :meth:`fetch_add_nbi` does."""
        self._start(out, out_index, target, pe, index, signal_numbers.SWAP, value)

    def compare_swap_nbi(
        self,
        out: Output,
        target: SymmetricArray,
        expected: int,
        value: int,
        pe: int,
        *,
        index: int = 0,
        out_index: int = 0,
    ) -> None:
        """Start a :meth:`compare_swap`; its result goes to ``out`` as that of :meth:`fetch_add_nbi` does."""
        self._start(out, out_index, target, pe, index, signal_numbers.CAS, value, expected)

    def fetch_nbi(
        self, out: Output, target: SymmetricArray, pe: int, *, index: int = 0, out_index: int = 0
    ) -> None:
        """Start a :meth:`fetch`; its result goes to ``out`` as that of :meth:`fetch_add_nbi` does."""
        self._start(out, out_index, target, pe, index, signal_numbers.FETCH, 0)

    def _start(
        self,
        out: Output,
        out_index: int,
        target: SymmetricArray,
        pe: int,
        index: int,
        operation: int,
        value: int,
        expected: int = 0,
    ) -> None:
        results, place = result_of(out, out_index, symmetric("target", target).dtype)
        results.flat[place] = self._atomic(target, pe, index, operation, value, expected)


def check_output(out: Output | None) -> None:
    """Raise ``ArgumentError`` if there is none."""
    if out is None:
        raise ArgumentError("out must be an ndarray or a SymmetricArray, but got None")


def result_of(out: Output, out_index: int, dtype: np.dtype[np.generic]) -> tuple[Array, int]:
    """Return the array that a result of ``dtype`` goes to, and the place of its element, after checking both.

    Raises:
        ArgumentError: ``out`` cannot take it, or has no such element.
    """
    array = out.local if isinstance(out, SymmetricArray) else out
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        got = array.dtype if isinstance(array, np.ndarray) else shown(out)
        raise ArgumentError(f"out must be an array of the dtype of target, {dtype}, but got {got}")
    if not array.flags.writeable:
        raise ArgumentError("out must be writable, but got a read-only array")
    return array, check.index("out_index", out_index, array.size, " for out")
