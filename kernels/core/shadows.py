"""Shadows: which bytes of newly allocated memory were never written.

While shadows are kept (:func:`keep`), memory that is allocated without contents is filled with ``PATTERN`` and gets a
shadow, a byte for each byte, 0xFF where nothing was written. Who writes through known functions marks the shadow (kernels that are
checked, torch's operations in place). Whatever else writes is found by :meth:`Shadow.refresh`: memory that no longer
holds the pattern, where the shadow says that it should, was written; eight aligned bytes count together then,
so that data of narrow elements that happen to equal the pattern are not taken for unwritten.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeAlias

import numpy as np

from emu.kernels.core import environment

PATTERN = 0x7FF57FB37FD97FA5
"""What unwritten memory holds in each aligned eight bytes: a NaN as one fp64, two fp32, and four fp16 or bf16."""

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

_ALIGNMENT = 64
_is_kept = "uninit" in (environment.check() or "")
_shadows: dict[int, Shadow] = {}


def keep(wanted: bool = True) -> None:
    """Keep shadows of what is allocated from now on; with False no longer, and forget all."""
    global _is_kept
    _is_kept = wanted
    if not wanted:
        _shadows.clear()


def are_kept() -> bool:
    """Return whether shadows are kept."""
    return _is_kept


class Shadow:
    """The shadow of one allocation.

    Attributes:
        start: Address of the first byte of the memory.
        end: Address behind its last byte.
        site: ``file:line`` of the allocation.
        is_shared: Whether other processes may write the memory at any time.
        states: A byte for each byte of the memory, and up to seven more: 0 where it was written.
    """

    __slots__ = (
        "__weakref__",
        "_is_alive",
        "_words",
        "end",
        "is_shared",
        "site",
        "start",
        "states",
    )

    def __init__(
        self, start: int, nbytes: int, site: str, is_shared: bool, is_alive: Callable[[], bool]
    ) -> None:
        self.start, self.end = start, start + nbytes
        self.site, self.is_shared = site, is_shared
        self._is_alive = is_alive
        padded = (nbytes + 7) // 8 * 8
        room = np.empty(padded + _ALIGNMENT, np.uint8)
        # Aligned like the memory, so that an element's shadow is aligned as the element is.
        skip = (start - int(room.__array_interface__["data"][0])) % _ALIGNMENT
        self.states: Bytes = room[skip : skip + padded]
        self.states[:nbytes] = 0xFF
        self.states[nbytes:] = 0
        self._words = nbytes // 8

    @property
    def distance(self) -> int:
        """Bytes from the memory to its shadow."""
        return int(self.states.__array_interface__["data"][0]) - self.start

    def is_alive(self) -> bool:
        """Return whether the memory still belongs to the allocation."""
        return self._is_alive()

    def memory(self) -> Bytes:
        """Return the memory as bytes."""
        kind = ctypes.c_uint8 * (self.end - self.start)
        found: Bytes = np.frombuffer(memoryview(kind.from_address(self.start)), np.uint8)
        return found

    def fill(self) -> None:
        """Fill the memory with the pattern."""
        fill(self.memory())

    def refresh(self) -> bool:
        """Mark as written what no longer holds the pattern; return whether anything is unwritten."""
        memory, whole = self.memory(), 8 * self._words
        states = self.states[:whole].view(np.uint64)
        changed = (memory[:whole].view(np.uint64) != PATTERN) & (states != 0)
        (rows,) = np.nonzero(changed)
        if rows.size:
            # Bytes that differ although nobody marked them tell of a writer that was not seen.
            differs = memory[:whole].reshape(-1, 8)[rows] != _PATTERN_BYTES
            unseen = (differs & (self.states[:whole].reshape(-1, 8)[rows] != 0)).any(axis=1)
            states[rows[unseen]] = 0
        rest = self.states[whole : memory.size]
        if (rest.astype(bool) & (memory[whole:] != _PATTERN_BYTES[: rest.size])).any():
            rest[:] = 0
        return bool(self.states.any())


def fill(memory: Bytes) -> None:
    """Fill memory, whose address is a multiple of 8, with the pattern."""
    whole = memory.size // 8 * 8
    memory[:whole].view(np.uint64)[:] = PATTERN
    memory[whole:] = _PATTERN_BYTES[: memory.size - whole]


_PATTERN_BYTES = np.frombuffer(PATTERN.to_bytes(8, sys.byteorder), np.uint8)


def track(
    start: int,
    nbytes: int,
    site: str,
    *,
    owner: Any = None,
    is_shared: bool = False,
    is_filled: bool = False,
) -> Shadow | None:
    """Give memory a shadow.

    Args:
        start: Its address.
        nbytes: Its size.
        site: ``file:line`` of the allocation.
        owner: The shadow is forgotten once this object is gone; None: it is kept until :func:`forget`.
        is_shared: Whether other processes may write it at any time.
        is_filled: Whether it holds the pattern already where it is unwritten, as copies and symmetric memory do.

    Returns:
        The shadow; None if there is no memory.
    """
    if not nbytes or start % 8:
        return None
    alive: Callable[[], bool] = (lambda: True) if owner is None else _Life(owner, start)
    shadow = Shadow(start, nbytes, site, is_shared, alive)
    if not is_filled:
        shadow.fill()
    elif not shadow.refresh():
        return None
    _shadows[start] = shadow
    return shadow


class _Life:
    """Tells whether a storage, of which only a weak reference is kept, still has its memory."""

    def __init__(self, owner: Any, start: int) -> None:
        self._start = start
        self._owner = weakref.ref(owner, self._forget)

    def __call__(self) -> bool:
        owner = self._owner()
        return owner is not None and owner.data_ptr() == self._start

    def _forget(self, _: object) -> None:
        shadow = _shadows.get(self._start)
        if shadow is not None and shadow._is_alive is self:
            _shadows.pop(self._start, None)


def forget(start: int) -> None:
    """Forget the shadow of the memory at an address."""
    _shadows.pop(start, None)


def find(start: int, end: int) -> Shadow | None:
    """Return the shadow of an allocation; None if it has none, or everything was written."""
    shadow = _shadows.get(start)
    return None if shadow is None or shadow.end != end else shadow


def find_at(address: int) -> Shadow | None:
    """Return the shadow of the memory that an address is in."""
    for shadow in list(_shadows.values()):
        if shadow.start <= address < shadow.end:
            return shadow
    return None


def alive() -> Iterator[Shadow]:
    """Yield all shadows whose memory is still allocated; forget the others."""
    for start, shadow in list(_shadows.items()):
        if shadow.is_alive():
            yield shadow
        else:
            _shadows.pop(start, None)


def caller(outside: tuple[str, ...]) -> str:
    """Return ``file:line`` of the innermost caller whose file is in none of the folders."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(outside):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
