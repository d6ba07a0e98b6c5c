"""Key-value store for ``init_process_group``, without an address and without a file.

Our process groups need none, but torch's own groups (``new_group(backend="gloo")``) and scripts that use the
store do. It is a log in the symmetric memory of PE 0, which belongs to the launch and ends with it, however
that ends. A change appends a record under a lock; each PE reads the new records and keeps the keys in a
dictionary of its own.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from torch._C._distributed_c10d import Store
from torch.distributed import DistStoreError

if TYPE_CHECKING:  # they load Numba, and a process that is no PE needs neither
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.world import World

T = TypeVar("T")
Value: TypeAlias = str | bytes | Sequence[int]

_LOCK, _END = 0, 1  # words of PE 0: number + 1 of the PE that changes the store, end of its log
_CHUNK = 1 << 16  # bytes that are allocated at once for the log
_HEAD = struct.Struct("<IiI")  # bytes of the key, bytes of the value or -1: deleted, zero
_POLL_S = 0.001
_kept: list[WorldStore] = []
"""All stores: C++ code calls these objects, but does not keep them alive."""


class WorldStore(Store):  # type: ignore[misc, unused-ignore] # Any without torch
    """Store shared by the PEs of a launch; it costs nothing until it is used."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__()
        self._world = world
        self._key = f"torch.distributed store {number}"
        self._words = world.alloc(2, np.uint64, key=self._key, poison=False)
        self._chunks: list[SymmetricArray] = []
        self._read = 0
        self._values: dict[str, bytes] = {}
        self._here = threading.RLock()  # torch calls from several threads
        self._timeout = timedelta(minutes=5)
        _kept.append(self)

    # --- the log ---------------------------------------------------------------------------

    def _pieces(self, start: int, stop: int) -> list[SymmetricArray]:
        """Return the parts of the log's chunks that hold bytes ``start`` to ``stop``."""
        pieces = []
        while start < stop:
            number, offset = divmod(start, _CHUNK)
            while len(self._chunks) <= number:
                key = f"{self._key} log {len(self._chunks)}"
                self._chunks.append(self._world.alloc(_CHUNK, np.uint8, key=key, poison=False))
            size = min(stop - start, _CHUNK - offset)
            pieces.append(self._chunks[number][offset : offset + size])
            start += size
        return pieces

    def _catch_up(self) -> None:
        """Read the records appended since the last call."""
        end = self._world.fetch(self._words, 0, index=_END)
        if end == self._read:
            return
        data = b"".join(
            self._world.get(piece, 0).tobytes() for piece in self._pieces(self._read, end)
        )
        at = 0
        while at < len(data):
            key_bytes, value_bytes, _ = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            key = data[at : at + key_bytes].decode()
            at += key_bytes
            if value_bytes < 0:
                self._values.pop(key, None)
                continue
            self._values[key] = data[at : at + value_bytes]
            at += value_bytes
        self._read = end

    def _append(self, key: str, value: bytes | None) -> None:
        name = key.encode()
        record = (
            _HEAD.pack(len(name), -1 if value is None else len(value), 0) + name + (value or b"")
        )
        data, at = np.frombuffer(record, np.uint8), 0
        for piece in self._pieces(self._read, self._read + len(record)):
            self._world.put(piece, data[at : at + piece.size], 0)
            at += piece.size
        self._world.quiet()
        self._world.fetch_add(self._words, len(record), 0, index=_END)
        self._catch_up()

    def _change(self, change: Callable[[], T]) -> T:
        """Run ``change`` under the lock, with all records read."""
        world, mine = self._world, self._world.my_pe + 1
        with self._here:
            while world.compare_swap(self._words, 0, mine, 0, index=_LOCK):
                time.sleep(_POLL_S)
            try:
                self._catch_up()
                return change()
            finally:
                world.compare_swap(self._words, mine, 0, 0, index=_LOCK)

    def _has(self, keys: list[str]) -> bool:
        with self._here:
            self._catch_up()
            return all(key in self._values for key in keys)

    # --- what torch's C++ code calls, by these names ---------------------------------------

    def set(self, key: str, value: Value) -> None:
        """Store a value."""
        self._change(lambda: self._append(key, _bytes(value)))

    def get(self, key: str) -> bytes:
        """Return a value, waiting until it is set."""
        self.wait([key])
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return it."""

        def change() -> int:
            total = int(self._values.get(key, b"0")) + amount
            self._append(key, str(total).encode())
            return total

        return self._change(change)

    def compare_set(self, key: str, expected: Value, desired: Value) -> bytes:
        """Replace a value if it is the expected one; return the value afterwards.

        A missing key is created if ``expected`` is empty.
        """

        def change() -> bytes:
            found = self._values.get(key)
            if found is None and _bytes(expected):
                return _bytes(expected)
            if found is None or found == _bytes(expected):
                self._append(key, _bytes(desired))
            return self._values[key]

        return self._change(change)

    def check(self, keys: list[str]) -> bool:
        """Return whether all keys are set."""
        return self._has(keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait for all keys.

        Raises:
            DistStoreError: They are not all set in time; in the words of torch's stores.
        """
        limit = timeout or self._timeout
        until = time.monotonic() + limit.total_seconds()
        while not self._has(keys):
            if time.monotonic() > until:
                missing = [key for key in keys if key not in self._values]
                raise DistStoreError(f"wait timeout after {limit}: nobody set {', '.join(missing)}")
            time.sleep(_POLL_S)

    def delete_key(self, key: str) -> bool:
        """Remove a key; return whether it was set."""

        def change() -> bool:
            found = key in self._values
            if found:
                self._append(key, None)
            return found

        return self._change(change)

    def num_keys(self) -> int:
        """Return the number of keys."""
        self._has([])
        return len(self._values)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of :meth:`get` and :meth:`wait`."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """Timeout of :meth:`get` and :meth:`wait`."""
        return self._timeout

    # The names of the trampolines.
    compareSet, deleteKey, getNumKeys = compare_set, delete_key, num_keys


def _bytes(value: Value) -> bytes:
    """Return a value as bytes; C++ code passes lists of numbers."""
    return value.encode() if isinstance(value, str) else bytes(value)
