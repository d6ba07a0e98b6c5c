"""Buffers: memory of tensors, and the ops pending on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emu.pypto.blocks import BLOCKS
from emu.pypto.dtypes import Array
from emu.pypto.node import Node
from emu.pypto.symbolic import Shape, lies_in, overlaps

if TYPE_CHECKING:
    from emu.pypto.uses import Uses

LARGE = 1 << 28
"""Bytes from which on memory is asked for at the call: there may be too little."""


class Buffer:
    """Memory, and the pending nodes that read or write rectangles of it.

    The memory of a result is made when it is first asked for: ops that are computed together may never need it.

    Attributes:
        shape: Extents.
        size: Number of elements.
        dtype: NumPy dtype of the elements.
        memory: The array, once there is one.
        batch: Number of the batch whose ops write to it, see ``Graph.batch``.
        pending: Nodes, with the rectangles that they touch and whether they write.
        is_written: Whether an op was submitted that writes to it.
        is_foreign: Whether the memory is the program's, which may share it with another buffer.
        uses: The tasks that have used it, where a check wants to know; see :mod:`emu.pypto.order`.
        call: Number of the kernel call whose arguments it is one of: these share no memory. 0: it may share some.
    """

    __slots__ = (
        "batch",
        "call",
        "dtype",
        "is_foreign",
        "is_written",
        "memory",
        "pending",
        "shape",
        "size",
        "uses",
    )

    def __init__(
        self, shape: Shape, dtype: np.dtype[np.generic], size: int, memory: Array | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.memory = memory
        self.size = size
        self.is_foreign = memory is not None
        self.is_written = False
        self.batch = -1
        self.call = 0
        self.pending: list[tuple[Node, Shape, Shape, bool]] = []
        self.uses: Uses | None = None

    @property
    def array(self) -> Array:
        """The memory, made now if there is none."""
        memory = self.memory
        if memory is None:
            memory = self.memory = BLOCKS.array(self.shape, self.dtype)
        return memory

    def collect(self, low: Shape, extent: Shape, writing: bool, into: set[Node]) -> None:
        """Add the nodes that an access to a rectangle must wait for."""
        if not self.pending:
            return
        self.pending = still = [entry for entry in self.pending if not entry[0].done]
        for node, other, other_extent, writes in still:
            if (writing or writes) and overlaps(low, extent, other, other_extent):
                into.add(node)

    def is_held_in_part(self, low: Shape, extent: Shape, writing: bool) -> bool:
        """Return whether a pending node holds up a part of an access to a rectangle, but not all of it."""
        for node, other, other_extent, writes in self.pending:
            if (
                not node.done
                and (writing or writes)
                and overlaps(low, extent, other, other_extent)
                and not lies_in(low, extent, other, other_extent)
            ):
                return True
        return False
