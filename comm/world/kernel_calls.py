"""``machine_words``: what compiled kernels of other rooms know of this PE's World, and call of it.

The words and the addresses of functions (:mod:`emu.comm.sync.kernel_calls`) stand in one array of the process. In a plain
World the functions are native. Where somebody wants to know of operations, or to delay them, they are Python's: they
call the World's own methods, so that what listens, steers or models links sees an operation of a kernel as it sees one
of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from emu.comm.arrays import Array
from emu.comm.layout import GROUPS
from emu.comm.ops import AtomicOp
from emu.comm.sync import kernel_calls, kernel_numbers, signal_numbers
from emu.comm.world.allocation import array_at
from emu.comm.world.array import SymmetricArray
from emu.comm.world.group import Group
from emu.comm.world.listening import Listener, Word
from emu.comm.world.world import World
from emu.kernels.core.jit import native_address

MachineWords: TypeAlias = "ctypes.Array[ctypes.c_int64]"  # generic for type checkers only

_kept: list[object] = []
"""What must live as long as the process: kernels call it by address."""


def write_machine_words(world: World, words: MachineWords) -> None:
    """Write what kernels need of a World, but for the calls.

    Args:
        world: This PE's.
        words: Room for the words, and for the addresses of the calls behind them.
    """
    layout, segment = world.segment.layout, world.segment
    fields = layout.group_dtype.fields
    assert fields is not None
    words[kernel_numbers.ME] = world.me
    words[kernel_numbers.MY_PE], words[kernel_numbers.N_PES] = world.my_pe, world.n_pes
    words[kernel_numbers.HEAP], words[kernel_numbers.STRIDE] = world.mine, layout.stride
    words[kernel_numbers.HEAP_BYTES] = layout.heap_room
    words[kernel_numbers.GROUPS] = segment.address + layout.groups
    words[kernel_numbers.GROUP_BYTES] = layout.group_bytes
    words[kernel_numbers.MEMBERS] = int(fields["members"][1])
    words[kernel_numbers.SIZE] = int(fields["n_pes"][1])
    words[kernel_numbers.HAS_GROUPS] = GROUPS


def write_call(
    world: World, words: MachineWords, name: str, failed: Callable[[BaseException], None]
) -> None:
    """Write the address of a call: each is loaded when the first kernel needs it.

    Args:
        world: This PE's.
        words: As of :func:`write_machine_words`.
        name: Name of the call.
        failed: Is called with what a call of a kernel raises; it must see to it that the kernel stops.
    """
    number = list(kernel_numbers.CALLS).index(name)
    count = kernel_numbers.CALLS[name] + 1
    # The classes of a plain World do all without Python.
    python = None if type(world) is World else _SeenCalls(world).by_name().get(name)
    if python is None:
        address = native_address(kernel_calls.CALLS[number], count)
    else:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)
        callback = kind(_guarded(python, failed))
        _kept.append(callback)
        address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    words[kernel_numbers.WORDS + number] = address


def _guarded(
    function: Callable[..., int], failed: Callable[[BaseException], None]
) -> Callable[..., int]:
    def guarded(_: int, *arguments: int) -> int:
        try:
            return function(*arguments)
        except BaseException as error:  # noqa: BLE001 - native code cannot pass it on: the launch raises it
            failed(error)
            return 0

    return guarded


class _SeenCalls:
    """The calls of kernels as operations of a World that somebody watches."""

    def __init__(self, world: World) -> None:
        self._world = world

    def by_name(self) -> dict[str, Callable[..., int]]:
        """Return the functions that replace native ones."""
        known = (
            *(self.put, self.get, self.put_signal, self.atomic),
            *(self.fence, self.quiet, self.waited, self.arrive),
        )
        return {function.__name__: function for function in known}

    def put(self, pe: int, offset: int, source: int, nbytes: int) -> int:
        """As :func:`emu.comm.sync.kernel_calls.put`."""
        if nbytes:
            self._world.put(self._bytes_at(offset, nbytes), _memory(source, nbytes), pe)
        return 0

    def get(self, pe: int, offset: int, target: int, nbytes: int) -> int:
        """As :func:`emu.comm.sync.kernel_calls.get`."""
        if nbytes:
            self._world.get(self._bytes_at(offset, nbytes), pe, out=_memory(target, nbytes))
        return 0

    def atomic(
        self, pe: int, offset: int, size: int, operation: int, value: int, expected: int
    ) -> int:
        """As :func:`emu.comm.sync.kernel_calls.atomic`."""
        world, word = self._world, self._array(offset, (1,), np.dtype(f"i{size}"))
        if operation == signal_numbers.FETCH:
            return world.fetch(word, pe)
        if operation == signal_numbers.SET:
            world.signal_op(word, value, pe, op=AtomicOp.SET)
            return 0
        if operation == signal_numbers.ADD:
            return world.fetch_add(word, value, pe)
        if operation == signal_numbers.SWAP:
            return world.swap(word, value, pe)
        return world.compare_swap(word, expected, value, pe)

    def put_signal(
        self,
        pe: int,
        offset: int,
        source: int,
        nbytes: int,
        signal: int,
        size: int,
        operation: int,
        value: int,
    ) -> int:
        """As :func:`emu.comm.sync.kernel_calls.put_signal`."""
        word = self._array(signal, (1,), np.dtype(f"i{size}"))
        how = AtomicOp.SET if operation == signal_numbers.SET else AtomicOp.ADD
        if not nbytes:
            self._world.signal_op(word, value, pe, op=how)
            return 0
        target = self._bytes_at(offset, nbytes)
        self._world.put_signal(target, _memory(source, nbytes), pe, word, value, sig_op=how)
        return 0

    def fence(self) -> int:
        """As :func:`emu.comm.sync.kernel_calls.fence`."""
        self._world.fence()
        return 0

    def quiet(self) -> int:
        """As :func:`emu.comm.sync.kernel_calls.quiet`."""
        self._world.quiet()
        return 0

    def waited(self, offset: int, size: int, comparison: int, value: int) -> int:
        """Tell a listener what the kernel has seen; the word may hold something else by now.

        A word of another PE's memory lies before, or behind, this PE's heap.
        """
        listener: Listener | None = getattr(self._world, "listener", None)
        if listener is not None:
            if size == -8:  # as kernels compare them: less 2**63
                value = (value & (1 << 64) - 1) - (1 << 63)
            stride = self._world.segment.layout.stride
            pe, place = divmod(self._world.my_pe * stride + offset, stride)
            word = Word(pe, place, size)
            listener.waited("wait_until", [(word, comparison, value)])
        return 0

    def arrive(self, group: int) -> int:
        """Pass the barrier of a group; a mismatch is raised."""
        self._group(group).barrier()
        return signal_numbers.DONE

    def _group(self, index: int) -> Group:
        world = self._world
        if index == world.index:
            return world
        entry = world.segment.group_entry(index)
        return world.group(entry["name"].decode())

    def _bytes_at(self, offset: int, nbytes: int) -> SymmetricArray:
        return self._array(offset, (nbytes,), np.dtype(np.uint8))

    def _array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SymmetricArray:
        """Return a part of the heap as an array; it is named like the allocation that it lies in."""
        world = self._world
        name = world.heap.name_at(offset)
        return array_at(world, offset, shape, dtype, name)


def _memory(address: int, nbytes: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
