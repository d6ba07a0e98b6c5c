"""Memory of tensors and arrays: where a storage begins and ends, whatever view of it was passed."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from emu.tile.cpu.run import live_blocks
from emu.triton.runtime import arguments
from emu.triton.runtime.numpy_memory import keepers

END = 1 << 62
"""Above every address."""


@dataclass(frozen=True)
class Storage:
    """Memory that one tensor or several views share.

    Attributes:
        start: Address of its first byte.
        end: Address behind its last byte.
    """

    start: int
    end: int


def find_extents(value: Any) -> tuple[int, int]:
    """Return the first address of an argument's storage and the one behind it; 0 and ``END`` if they are not known."""
    owner: Any = value
    # As in most launches without torch: no look at what holds the memory.
    while owner.__class__ is np.ndarray:
        base: Any = owner.base
        if base is None and owner.flags.forc:
            start = arguments.address_of(owner)
            return start, start + owner.nbytes
        owner = base
    found = find_storage(value)
    return (0, END) if found is None else (found.start, found.end)


def find_storage(value: Any) -> Storage | None:
    """Return the storage of an argument of a launch; None if only its address is known."""
    if type(value) in arguments.tensors:  # nothing else is as frequent
        return _of_tensor(value)
    base = getattr(value, "base", None)
    if type(value).__name__ == "TensorWrapper" and base is not None:
        return find_storage(base)
    torch = arguments.load_torch()
    if torch is not None and isinstance(value, torch.Tensor):
        with arguments.torch_guard():
            return _of_tensor(value)
    if isinstance(value, np.ndarray):
        return _of_array(value)
    inner = getattr(value, "base", None)
    if inner is not None and inner is not value and not callable(inner):
        return find_storage(inner)
    return None


def _of_tensor(tensor: Any) -> Storage:
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    own = Storage(start, start + storage.nbytes())
    if storage.resizable():  # memory of torch's
        return own
    kept = keepers(arguments.load_torch()).find(storage)
    whole = _of_array(kept) if isinstance(kept, np.ndarray) else _of_buffer(kept)
    if whole is None or not whole.start <= own.start <= own.end <= whole.end:
        return own
    return whole


def _of_buffer(buffer: Any) -> Storage | None:
    """Return the memory of an object that is not an array; None if it offers none."""
    try:
        whole = np.frombuffer(buffer, np.uint8)
    except (TypeError, ValueError, BufferError):
        return None
    at = whole.__array_interface__["data"][0]
    return Storage(at, at + whole.nbytes)


def _of_array(array: np.ndarray[Any, Any]) -> Storage | None:
    shared = _in_shared_memory(array)
    if shared is not None:
        return shared
    owner: Any = array
    while True:
        base = owner.base
        if not isinstance(base, np.ndarray):  # as_strided has an object of its own between
            base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray):
            break
        owner = base
    if type(owner.base) in arguments.tensors:  # made by tensor.numpy()
        return find_storage(owner.base)
    start, end = np.lib.array_utils.byte_bounds(owner)
    if owner.base is not None:  # memory of another object: a buffer, or of torch
        whole = _of_buffer(owner.base) or _of_block(start)
        if whole is not None and whole.start <= start and end <= whole.end:
            return whole
    return Storage(start, end)


def _of_block(address: int) -> Storage | None:
    """Return the block with red zones that an address is in: torch's memory, lent by DLPack."""
    found = live_blocks.find_containing(address)
    return None if found is None else Storage(*found)


def _in_shared_memory(array: np.ndarray[Any, Any]) -> Storage | None:
    """Return the allocation of symmetric memory that an array is in; None if it is in none."""
    worlds = sys.modules.get("emu.comm.world.current")
    world = None if worlds is None else worlds.current()
    if world is None:
        return None
    found: tuple[int, int] | None = world.heap.find_span(array.__array_interface__["data"][0])
    return None if found is None else Storage(*found)


def live_storages() -> list[Storage]:
    """Return the storages of all tensors and arrays that the program can reach, and of all symmetric memory.

    With them goes the memory in which the programs of a cooperative launch meet: no tensor has it, only a register.
    """
    found = {*_symmetric_storages(), *_grid_storages()}
    for value in _reachable():
        try:
            storage = find_storage(value)
        except (RuntimeError, NotImplementedError):  # a tensor without memory: meta, sparse
            continue
        if storage is not None and storage.start:
            found.add(storage)
    return list(found)


def _symmetric_storages() -> Iterable[Storage]:
    """Return every allocation of symmetric memory, on each PE: a kernel may compute a peer's address."""
    worlds = sys.modules.get("emu.comm.world.current")
    world = None if worlds is None else worlds.current()
    return () if world is None else (Storage(*span) for span in world.heap.spans())


def _grid_storages() -> Iterable[Storage]:
    words = sys.modules.get("emu.tile.machine_words")
    span = None if words is None else words.grid_memory()
    return () if span is None else (Storage(*span),)


def _reachable() -> list[Any]:
    """Return the tensors and arrays that any object of the program refers to."""
    variables = _variables()
    objects = gc.get_objects()
    found, functions, _ = _select(objects, (FunctionType,))
    holders = [*_without(objects, _NO_HOLDERS), *variables]
    holders += [f.__defaults__ for f in functions if f.__defaults__]
    # The collector knows neither arrays nor tuples and dictionaries that hold nothing but arrays: what
    # it knows refers to them.
    while holders:
        memory, nested, objects = _select(gc.get_referents(*holders), (tuple, dict))
        found += memory
        holders = [*itertools.filterfalse(gc.is_tracked, nested), *(a.tolist() for a in objects)]
    return found


_NO_HOLDERS = (
    *(FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType),
    *(GetSetDescriptorType, weakref.ReferenceType),
)


def _without(values: list[Any], types: tuple[type, ...]) -> Iterable[Any]:
    others = set(map(type, values)).difference(types)
    return itertools.compress(values, map(others.__contains__, map(type, values)))


def _select(values: list[Any], others: tuple[type, ...]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the tensors and arrays among values, those whose class is one of ``others``, and the arrays of objects."""
    torch = arguments.load_torch()
    kinds = (np.ndarray,) if torch is None else (np.ndarray, torch.Tensor)
    types = list(map(type, values))
    # Not isinstance: that asks odd objects for their class, and some of them warn or import.
    wanted = {kind for kind in set(types) if issubclass(kind, kinds)}
    chosen = itertools.compress(values, map((wanted | {*others}).__contains__, types))
    memory: list[Any] = []
    rest: list[Any] = []
    for value in chosen:
        (memory if type(value) in wanted else rest).append(value)
    objects = [a for a in memory if isinstance(a, np.ndarray) and a.dtype.hasobject]
    return memory, rest, objects


def _variables() -> list[list[Any]]:
    """Return the values of the variables of all functions that run now, in any thread."""
    found = []
    for thread in sys._current_frames().values():
        frame: FrameType | None = thread
        while frame is not None:
            found.append(list(frame.f_locals.values()))
            frame = frame.f_back
    return found


def merged(storages: Iterable[Storage]) -> list[Storage]:
    """Return storages by address, those that overlap as one."""
    ordered: list[Storage] = []
    for storage in sorted(storages, key=lambda s: (s.start, s.end)):
        if ordered and storage.start < ordered[-1].end:
            last = ordered[-1]
            ordered[-1] = Storage(last.start, max(last.end, storage.end))
        elif storage.end > storage.start:
            ordered.append(storage)
    return ordered
