"""``SymmetricArray``: memory at the same offset in the heap of every PE of a group."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError, IndexRangeError, SymmetricMemoryError
from emu.comm.world.checks import check
from emu.comm.world.membership import Membership
from emu.kernels.core.dtypes import KINDS
from emu.kernels.core.messages import shown

WORDS: dict[np.dtype[np.generic], int] = {
    np.dtype(np.int32): 4,
    np.dtype(np.int64): 8,
    np.dtype(np.uint32): -4,
    np.dtype(np.uint64): -8,
}
"""The dtypes of signals and atomics: bytes, negative for the unsigned."""


class ArrayGroup(Membership):
    """A group that owns symmetric arrays: what a :class:`SymmetricArray` needs of its group."""

    def release(self, array: SymmetricArray) -> None:
        """Count this PE's free of a whole array."""
        raise NotImplementedError


class SymmetricArray:
    """A symmetric array, or a view of one made by basic slicing.

    ``array.local`` is this PE's memory as an ndarray, ``array.on(pe)`` another PE's. ``array[1:3]``
    is a symmetric view, good as the target of a put; ``array[1] = 5`` writes this PE's own memory.

    Attributes:
        group: The group whose members share it; ``pe`` in :meth:`on` counts within it.
        shape: Extent along each axis.
        dtype: One of the 13 dtypes of the heap.
        strides: Bytes between elements along each axis.
        offset: Byte offset of the first element in each heap.
        nbytes: Bytes of its elements.
        name: The name given at allocation, for reports.
    """

    __slots__ = (
        "_on",
        "dense",
        "dtype",
        "freed",
        "group",
        "high_word",
        "index",
        "itemsize",
        "kind",
        "low_word",
        "name",
        "nbytes",
        "offset",
        "root",
        "shape",
        "strides",
        "word",
        "words",
    )

    def __init__(
        self,
        group: ArrayGroup,
        offset: int,
        shape: tuple[int, ...],
        dtype: np.dtype[np.generic],
        name: str,
        *,
        index: int = -1,
        strides: tuple[int, ...] | None = None,
        root: SymmetricArray | None = None,
    ) -> None:
        itemsize = dtype.itemsize
        dense_strides, count = [], 1
        for extent in reversed(shape):
            dense_strides.append(count * itemsize)
            count *= extent
        self.group = group
        self.offset = offset
        self.shape = shape
        self.dtype = dtype
        self.itemsize = itemsize
        self.kind = KINDS[dtype]
        self.strides = strides if strides is not None else tuple(reversed(dense_strides))
        self.dense = self.strides == tuple(reversed(dense_strides))
        self.nbytes = count * itemsize
        self.name = name
        self.index = index
        self.freed = False
        self.root = root if root is not None else self
        self._on: dict[int, Array] = {}
        # For the fast paths of atomics and waits: the number of elements whose offset is a product
        # (0: none, take the general path), and the range of values that are their own bits.
        self.word = WORDS.get(dtype, 0)
        self.words = count if self.dense and self.word else 0
        half = 1 << 8 * itemsize - 1
        self.low_word = -half if self.word > 0 else 0
        self.high_word = half - 1

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.nbytes // self.itemsize

    @property
    def local(self) -> Array:
        """This PE's memory; loads and stores act on it directly."""
        return self.on(self.group.my_pe)

    def on(self, pe: int) -> Array:
        """Return PE ``pe``'s memory as an ndarray, without a copy (``shmem_ptr``).

        Plain loads and stores through it are not ordered and wake no waiter; use put and signals.

        Raises:
            ArgumentError: ``pe`` is not in ``[0, group.n_pes)``.
            SymmetricMemoryError: The array was freed.
        """
        if self.root.freed:
            self.check_alive()
        if type(pe) is not int:
            pe = check.integer("pe", pe)
        view = self._on.get(pe)
        if view is None:
            world_pe = self.group.world_pe(pe)
            segment = self.group.segment
            start = segment.layout.heaps + world_pe * segment.layout.stride + self.offset
            view = np.ndarray(self.shape, self.dtype, segment.bytes, start, self.strides)
            self._on[pe] = view
        return view

    def check_alive(self) -> None:
        """Raise ``SymmetricMemoryError`` if the array was freed."""
        if self.root.freed:
            raise SymmetricMemoryError(f"symmetric array {self.label} was freed; allocate it again")

    @property
    def label(self) -> str:
        """Name in reports: the array's name, else its shape and dtype."""
        return self.name or f"<{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}>"

    def __getitem__(self, key: Any) -> SymmetricArray:
        mine = SymmetricArray.on(
            self, self.group.my_pe
        )  # a view of it uses no memory: nobody is told
        part = self._pick(mine, key if isinstance(key, tuple) else (key,))
        if part.size and not np.may_share_memory(part, mine):
            raise ArgumentError(
                f"a symmetric view must be made by integers and slices, but got key {shown(key)}"
            )
        start = part.__array_interface__["data"][0] - mine.__array_interface__["data"][0]
        return type(self)(
            self.group,
            self.offset + (start if part.size else 0),
            part.shape,
            self.dtype,
            self.name,
            strides=part.strides,
            root=self.root,
        )

    def _pick(self, mine: Array, key: tuple[Any, ...]) -> Array:
        """Return the part of this PE's memory that a key picks; one element as a scalar array."""
        try:
            part = mine[key]
            return part if isinstance(part, np.ndarray) else mine[(*key, ...)]
        except IndexError as error:
            raise IndexRangeError(
                f"key must pick elements of {self!r}, but got {shown(key)}: {error}"
            ) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(
                f"key must be made of integers and slices, but got {shown(key)}: {error}"
            ) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        mine = SymmetricArray.on(self, self.group.my_pe)
        part = self._pick(mine, key if isinstance(key, tuple) else (key,))
        plain = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        # NumPy converts other values element by element, which may fail in the middle: convert them before.
        source = value if plain else check.array("value", value, self.dtype)
        axes = max(source.ndim - part.ndim, 0)
        # NumPy ignores leading axes of 1 in an assignment.
        ignored = axes if source.shape[:axes] == (1,) * axes else 0
        try:
            np.broadcast_to(source.reshape(source.shape[ignored:]), part.shape)
        except ValueError:
            raise ArgumentError(
                f"value must broadcast to shape {part.shape}, but got shape {source.shape}"
            ) from None
        mine[key] = source

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.local, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(SymmetricArray.on(self, self.group.my_pe))

    def __repr__(self) -> str:
        return f"SymmetricArray({self.label}, shape={self.shape}, dtype={self.dtype})"

    def element_offset(self, index: int) -> int:
        """Return the byte offset in the heap of element ``index`` in C order.

        Raises:
            ArgumentError: ``index`` is not in ``[0, size)``.
        """
        if type(index) is not int:
            index = check.integer("index", index)
        if not 0 <= index < self.size:
            check.index("index", index, self.size, f" for {self!r}")
        if self.dense:
            return self.offset + index * self.itemsize
        position = self.offset
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            position += index % extent * stride
            index //= extent
        return position

    def free(self) -> None:
        """Free the memory; it returns to the heap when every member of the group has freed it.

        Does not wait. Views and a second call on the same array raise.
        """
        self.check_alive()
        if self.root is not self:
            raise SymmetricMemoryError(f"a view of {self.label} cannot be freed; free the array")
        self.freed = True
        self._on.clear()
        self.group.release(self)


Input: TypeAlias = ArrayLike | SymmetricArray
"""What can be sent: an array of any strides, a number, or a list of them."""

Output: TypeAlias = Array | SymmetricArray
"""What can be filled."""


def symmetric(name: str, value: object) -> SymmetricArray:
    """Return ``value`` if it is a symmetric array.

    Raises:
        ArgumentError: It is not.
    """
    if not isinstance(value, SymmetricArray):
        raise ArgumentError(f"{name} must be a SymmetricArray, but got {shown(value)}")
    return value
