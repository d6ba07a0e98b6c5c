"""NumPy arrays behind torch's tensors: ``torch.from_numpy(a[5:])`` has all of ``a`` as its memory, not just the view.

torch keeps the array (or buffer) that such a tensor was made from, to free it later, and tells nobody. It lies in the
function that the storage calls when it is freed. Where that is, depends on torch's build; so it is looked for once, in
tensors that are made from a known array, and taken only from storages that are freed by the same code.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_WORDS = 5
"""Of what a storage keeps for its end: the memory's address, two words of a function's own, and what code it is."""

_PATHS = ((1,), (1, 6), (1, 1))
"""Where an array can be found from there: in place, or in the manager of a DLPack tensor, old or new form."""

_IMPL_WORDS = 8


class Keepers:
    """How storages that keep an array are recognised.

    Attributes:
        place: Word of torch's storage object that says by which code it is freed; None: none is known.
        codes: Those codes of storages that may keep an array.
    """

    def __init__(self, torch: Any) -> None:
        self.place: int | None = None
        self.codes: set[int] = set()
        self._paths: dict[int, tuple[tuple[int, ...], int]] = {}
        for make in _makers(torch):
            probe = np.zeros(3, np.float32)
            try:
                tensor = make(probe)
            except (RuntimeError, TypeError, BufferError):  # not in this version
                continue
            self._learn(tensor.untyped_storage(), id(probe))

    def find(self, storage: Any) -> object | None:
        """Return the array or buffer that a storage keeps; None if it keeps none."""
        if self.place is None:
            return None
        implementation = _read(storage._cdata, _IMPL_WORDS)
        if implementation[self.place] not in self.codes:
            return None
        context = _read(implementation[self.place + 1], _WORDS)
        path, owner = self._paths.get(context[3], ((), 0))
        if not path or context[0] != storage.data_ptr() or _owner(context, path) != owner:
            return None
        return _object(_follow(context, path))

    def _learn(self, storage: Any, wanted: int) -> None:
        address = storage.data_ptr()
        implementation = _read(storage._cdata, _IMPL_WORDS)
        # The memory, the code, what the code is given.
        place = implementation.index(address) + 1 if address in implementation else _IMPL_WORDS
        if place + 1 >= _IMPL_WORDS or self.place not in (None, place):
            return
        if not _is_heap(implementation[place + 1]):
            return
        context = _read(implementation[place + 1], _WORDS)
        if context[0] != address:
            return
        for path in _PATHS:
            if _follow(context, path) == wanted:
                self.place = place
                self.codes.add(implementation[place])
                self._paths[context[3]] = path, _owner(context, path)
                return


def _makers(torch: Any) -> Iterator[Callable[[Any], Any]]:
    yield torch.from_numpy
    yield lambda array: torch.frombuffer(array, dtype=torch.float32)
    yield torch.from_dlpack


def _read(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _is_heap(address: int) -> bool:
    return address > 1 << 16 and not address % 8


def _follow(context: list[int], path: tuple[int, ...]) -> int:
    address = context[path[0]]
    for step in path[1:]:
        if not _is_heap(address):
            return 0
        address = _read(address + 8 * step, 1)[0]
    return address


def _owner(context: list[int], path: tuple[int, ...]) -> int:
    """Return the code by which a DLPack tensor is freed: of others than NumPy's, what they keep is no array."""
    return 0 if len(path) == 1 else _follow(context, (*path[:-1], path[-1] + 1))


def _object(address: int) -> object:
    found: object = ctypes.cast(address, ctypes.py_object).value
    return found


@functools.cache
def keepers(torch: Any) -> Keepers:
    """Return how storages of a torch are recognised that keep an array."""
    with torch._C.DisableTorchFunction():
        return Keepers(torch)
