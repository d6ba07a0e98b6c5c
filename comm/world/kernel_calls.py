"""``machine_words``: what compiled kernels of other rooms know of this PE's World, and call of it.

The words and the addresses of functions (:mod:`emu.comm.sync.kernel_calls`) stand in one array of the process. In a plain
World the functions are native. Where somebody wants to know of operations, or to delay them, they are Python's: they
call the World's own methods, so that what listens, steers or models links sees an operation of a kernel as it sees one
of the program.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from emu.comm.arrays import Array
from emu.comm.hosts.port import Port
from emu.comm.layout import GROUPS
from emu.comm.ops import AtomicOp
from emu.comm.sync import kernel_calls, kernel_numbers, signal_numbers
from emu.comm.world.allocation import array_at
from emu.comm.world.array import SymmetricArray
from emu.comm.world.current import places_of
from emu.comm.world.group import Group
from emu.comm.world.kernel_elements import RemoteElements
from emu.comm.world.linked import LinkedGroup
from emu.comm.world.listening import Listener, Word
from emu.comm.world.nodes import node_of, same_place
from emu.comm.world.world import World
from emu.kernels.core.annotations import Dispatcher
from emu.kernels.core.jit import native_address

MachineWords: TypeAlias = "ctypes.Array[ctypes.c_int64]"  # generic for type checkers only

_kept: list[object] = []
"""What must live as long as the process: kernels call it by address."""


_grid = (ctypes.c_uint8 * kernel_numbers.GRID_BYTES)()


def write_machine_words(world: World, words: MachineWords) -> None:
    """Write what kernels need of a World, but for the calls.

    Args:
        world: This PE's.
        words: Room for the words, and for the addresses of the calls behind them.
    """
    places = places_of(world)
    here = range(world.n_pes) if places is None else places.local
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
    words[kernel_numbers.GRID] = ctypes.addressof(_grid)
    words[kernel_numbers.FIRST_HERE], words[kernel_numbers.END_HERE] = here.start, here.stop
    node = node_of(world)
    words[kernel_numbers.NODE] = node.index
    is_one = node.n_pes == world.n_pes
    words[kernel_numbers.LINK] = int(segment.link is not None)
    words[kernel_numbers.SAME_PLACE] = -1 if is_one else same_place(world).index


class _Here(threading.local):
    """What is known of the call that a kernel of this thread makes."""

    place: tuple[str, int] | None = None


_here = _Here()


def place_of_call() -> tuple[str, int] | None:
    """Return file and line of the call that a kernel of this thread makes; None: none, or they are not known."""
    return _here.place


def write_call(
    world: World,
    words: MachineWords,
    name: str,
    failed: Callable[[BaseException], None],
    place: Callable[[], tuple[str, int] | None] = lambda: None,
) -> None:
    """Write the address of a call: each is loaded when the first kernel needs it.

    Args:
        world: This PE's.
        words: As of :func:`write_machine_words`.
        name: Name of the call.
        failed: Is called with what a call of a kernel raises; it must see to it that the kernel stops.
        place: Returns file and line of the call, for reports.
    """
    number = list(kernel_numbers.CALLS).index(name)
    count = kernel_numbers.CALLS[name] + 1
    # The classes of a plain World do all without Python, and those of one that is only recorded.
    recorded: Mapping[str, Dispatcher] | None = getattr(world, "native_kernel_calls", None)
    is_plain = type(world) is World or recorded is not None
    python = None if is_plain else _SeenCalls(world).by_name().get(name)
    if python is None and name in kernel_numbers.OVER_HOSTS:
        address = 0  # all PEs are here: a kernel that could make the call does not
    elif python is None:
        plain = kernel_calls.CALLS[number]
        address = native_address(recorded.get(name, plain) if recorded else plain, count)
    else:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)
        callback = kind(_guarded(python, failed, place))
        _kept.append(callback)
        address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    words[kernel_numbers.WORDS + number] = address


def _guarded(
    function: Callable[..., int],
    failed: Callable[[BaseException], None],
    place: Callable[[], tuple[str, int] | None],
) -> Callable[..., int]:
    def guarded(_: int, *arguments: int) -> int:
        try:
            _here.place = place()
            return function(*arguments)
        except BaseException as error:  # noqa: BLE001 - native code cannot pass it on: the launch raises it
            failed(error)
            return 0
        finally:
            _here.place = None

    return guarded


class _SeenCalls:
    """The calls of kernels as operations of a World that somebody watches."""

    def __init__(self, world: World) -> None:
        self._world = world

    def by_name(self) -> dict[str, Callable[..., int]]:
        """Return the functions that replace native ones."""
        known = (
            *(self.put, self.get, self.put_signal, self.atomic),
            *(self.fence, self.quiet, self.carried, self.waited, self.arrive),
        )
        found = {function.__name__: function for function in known}
        if hasattr(self._world, "note_wait_of_kernel"):
            found["wait_begins"] = self.wait_begins
        port = getattr(self._world, "port", None)
        if port is not None:
            found |= _elements_through(port).by_name()
        return found

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

    def wait_begins(self) -> int:
        """As :func:`emu.comm.sync.kernel_calls.wait_begins`."""
        return time.monotonic_ns()

    def carried(self, pe: int, sent: int, fetched: int) -> int:
        """Take the time of an emulated link; kernels make this call only where there is one."""
        assert isinstance(self._world, LinkedGroup)
        self._world.carry_elements(pe, sent, fetched)
        return 0

    def waited(self, offset: int, size: int, comparison: int, value: int, begun: int) -> int:
        """Tell a listener what the kernel has seen; the word may hold something else by now.

        A word of another PE's memory lies before, or behind, this PE's heap.
        """
        ended: Callable[[int, int], None] | None = getattr(self._world, "note_wait_of_kernel", None)
        if ended is not None:
            ended(offset, begun)
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


@functools.cache
def _elements_through(port: Port) -> RemoteElements:
    return RemoteElements(port)


def _memory(address: int, nbytes: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
