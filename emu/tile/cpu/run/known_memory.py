"""Memory that this process knows: arrays and tensors that the program can reach, blocks with red zones, symmetric memory.

Searched after a fault only, so that a report can say which tensor an address is near to.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.tile.cpu.run import live_blocks

_FAR = 1 << 40
"""Distance from which on nothing is near."""
_NULL_PAGES = 1 << 16
"""Addresses below were reached from a null pointer: no system maps them, and no tensor is meant."""

_lock = threading.Lock()


@dataclass(frozen=True)
class Block:
    """Memory that one tensor or several views share.

    Attributes:
        start: Address of its first byte.
        end: Address behind its last byte.
        name: What the program calls it: an argument, or a variable; may be empty.
        text: What it is: dtype, shape, strides.
        rank: Which of several descriptions of one block is best: the highest.
    """

    start: int
    end: int
    name: str
    text: str
    rank: int = 0

    def distance(self, address: int) -> int:
        """Return how many bytes an address is away from the block; 0 if it is inside."""
        return max(self.start - address, address - self.end + 1, 0)

    def where(self, address: int) -> str:
        """Say where an address is."""
        size = f"{self.end - self.start} bytes at {self.start:#x}"
        if address < self.start:
            place = f"{self.start - address} bytes before its beginning"
        elif address >= self.end:
            place = f"{address - self.end} bytes past its end"
        else:
            place = f"inside of it, at byte {address - self.start}"
        return f"{self.name}: {place} ({self.text}, {size})"


def find_nearest(address: int, arguments: Mapping[int, str]) -> Block | None:
    """Return the known memory nearest to an address; None if none is near.

    Args:
        address: The address.
        arguments: Names of a launch's arguments, by address.
    """
    if address < _NULL_PAGES:
        return None
    with _lock:  # one thread at a time looks at what the others do
        blocks = [*_tensors(arguments), *_zoned(arguments), *_symmetric(arguments)]
    nearest = min(
        blocks,
        key=lambda b: (b.distance(address), -b.rank, b.start - b.end),
        default=None,
    )
    return None if nearest is None or nearest.distance(address) > _FAR else nearest


def _zoned(arguments: Mapping[int, str]) -> Iterator[Block]:
    for start in live_blocks.addresses():
        size = live_blocks.size_at(start)
        if size:
            name = arguments.get(start, "memory of no tensor that can be reached")
            yield Block(start, start + size, name, "allocated by torch", rank=-1)


def _symmetric(arguments: Mapping[int, str]) -> Iterator[Block]:
    # Kernels are launched without a world, too: comm is not imported for them.
    worlds = sys.modules.get("emu.comm.world.current")
    world = None if worlds is None else worlds.current()
    if world is None:
        return
    for start, nbytes, text in world.heap.describe_spans():
        yield Block(start, start + nbytes, arguments.get(start, text), "symmetric memory", rank=-1)


def _tensors(arguments: Mapping[int, str]) -> Iterator[Block]:
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    kinds = (np.ndarray,) if tensor is None else (np.ndarray, tensor)
    guard = contextlib.nullcontext() if tensor is None else torch._C.DisableTorchFunction()  # type: ignore[union-attr]
    with guard:
        for name, value in _reachable():
            # Not isinstance: that asks odd objects for their class, and some of them warn or import.
            if not issubclass(type(value), kinds):
                continue
            try:
                block = _of_array(name, value, arguments)
                if block is None:
                    block = _of_tensor(name, value, arguments)
            except (RuntimeError, NotImplementedError):  # a tensor without memory: meta, sparse
                continue
            if block is not None and block.start:
                yield block


def _of_array(name: str, array: Any, arguments: Mapping[int, str]) -> Block | None:
    if not isinstance(array, np.ndarray):
        return None
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    start, end = np.lib.array_utils.byte_bounds(owner if owner.base is None else array)
    steps = tuple(step // max(1, array.itemsize) for step in array.strides)
    text = f"{array.dtype} of shape {array.shape}, strides {steps}"
    argument = arguments.get(array.__array_interface__["data"][0])
    return Block(start, end, argument or name, text, _rank(argument, name))


def _of_tensor(name: str, tensor: Any, arguments: Mapping[int, str]) -> Block:
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    text = f"{tensor.dtype} of shape {tuple(tensor.shape)}, strides {tensor.stride()}"
    if tensor.storage_offset():
        text += f", offset {tensor.storage_offset()}"
    argument = arguments.get(tensor.data_ptr())
    return Block(start, start + storage.nbytes(), argument or name, text, _rank(argument, name))


def _rank(argument: str | None, name: str) -> int:
    return 3 if argument is not None else 2 if name.startswith("variable") else 1


def _reachable() -> Iterator[tuple[str, Any]]:
    unnamed = "a tensor"
    # Of this thread only: variables of functions that other threads run may change while they are read.
    frames = [sys._getframe()]
    # Arrays are not objects of the collector; what holds them is.
    for holder in gc.get_objects():
        kind = type(holder)
        if kind is dict:
            for name, value in list(holder.items()):
                yield f"variable {name}" if type(name) is str else unnamed, value
        elif kind is list or kind is tuple:
            for value in holder:
                yield unnamed, value
        else:
            yield unnamed, holder
    for frame in frames:
        inner = frame
        while inner is not None:
            for name, value in list(inner.f_locals.items()):
                yield f"variable {name}", value
            inner = inner.f_back  # type: ignore[assignment]
