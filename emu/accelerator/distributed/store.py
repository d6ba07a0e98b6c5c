"""The key-value store that ``init_process_group`` wants, without an address.

A process group of ours needs none. Groups of torch's own beside it (``new_group(backend="gloo")``) and
scripts that ask for the store do: the first use makes a FileStore in the temporary folder, and the
last PE of the launch to end removes it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from datetime import timedelta
from typing import Any

import numpy as np
from torch._C._distributed_c10d import FileStore, Store

from emu.comm.world import World


class WorldStore(Store):
    """A store shared by the PEs of a launch; it costs nothing until it is used."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__()
        key = f"torch.distributed store {number}"
        self._world = world
        self._words = world.alloc(2, np.uint64, key=key, poison=False)
        self._number = number
        self._made: Any = None
        self._timeout = timedelta(minutes=5)
        world.on_finish(self._finish)

    @property
    def _store(self) -> Any:
        if self._made is None:
            # PE 0's second word makes the name unlike every other launch's.
            mine = int.from_bytes(os.urandom(8), "little") >> 1 | 1
            seen = self._world.compare_swap(self._words, 0, mine, 0, index=1)
            self._made = FileStore(self._path(seen or mine), -1)
            self._made.set_timeout(self._timeout)
        return self._made

    def _path(self, seed: int) -> str:
        return os.path.join(tempfile.gettempdir(), f"emu-store-{seed:016x}-{self._number}")

    def _finish(self) -> None:
        """Count this PE out; the last one removes the file."""
        self._made = None
        last = self._world.fetch_add(self._words, 1, 0) == self._world.n_pes - 1
        seed = self._world.fetch(self._words, 0, index=1)
        if last and seed:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(seed))

    # What torch's C++ code calls, by these names.

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        """Return a value; wait for it if it is not there."""
        return bytes(self._store.get(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return it."""
        return int(self._store.add(key, amount))

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        """Replace a value if it is the one expected; return what is there then."""
        return bytes(self._store.compare_set(key, expected, desired))

    def check(self, keys: list[str]) -> bool:
        """Return whether all keys are there."""
        return bool(self._store.check(keys))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait for all keys."""
        self._store.wait(keys, timeout or self._timeout)

    def delete_key(self, key: str) -> bool:
        """Remove a key; return whether it was there."""
        return bool(self._store.delete_key(key))

    def num_keys(self) -> int:
        """Return the number of keys."""
        return int(self._store.num_keys())

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long :meth:`get` and :meth:`wait` wait."""
        self._timeout = timeout
        if self._made is not None:
            self._made.set_timeout(timeout)

    @property
    def timeout(self) -> timedelta:
        """How long :meth:`get` and :meth:`wait` wait."""
        return self._timeout

    # The names of the trampolines.
    compareSet, deleteKey, getNumKeys = compare_set, delete_key, num_keys
