"""Arrays of a partitioned program outside of it: a shard per device, or a result that stays on the PEs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from emu.kernels.core.messages import shown
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.memory import Buffer
from emu.sdy.execution.shards import Placement
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.values import Array


class PerDevice:
    """An input given as shards.

    Args:
        shards: One array per device, in the order of their numbers.

    Raises:
        ExecutionError: ``shards`` is no sequence of arrays.
    """

    def __init__(self, shards: Iterable[Any]) -> None:
        if isinstance(shards, (str, bytes)) or not isinstance(shards, Iterable):
            raise ExecutionError(
                f"shards must be a sequence of arrays, one per device, but is {shown(shards)}"
            )
        self.shards: list[Array] = [to_array(f"shard {i}", x) for i, x in enumerate(shards)]

    def __repr__(self) -> str:
        return f"PerDevice({len(self.shards)} shards)"


class DeviceArray:
    """A result that stays where it was computed: each PE has its shard.

    Give it to the next call, which then copies nothing. It keeps its memory as long as it lives, also
    when the program is closed. After a call to which it was donated its value is gone.

    Attributes:
        shape: Shape of the whole array.
        dtype: Its dtype.
    """

    def __init__(
        self, placement: Placement, parts: Sequence[Array], buffer: Buffer | None = None
    ) -> None:
        self.shape = placement.type.static_shape
        self.dtype = dtype_of(placement.type.element)
        self._placement = placement
        self._parts: list[Array] | None = list(parts)
        self._buffer = buffer

    @property
    def placement(self) -> Placement:
        """Where the shards belong."""
        return self._placement

    @property
    def buffer(self) -> Buffer | None:
        """The memory on the PEs; None where the program has one device."""
        return self._buffer

    @property
    def is_donated(self) -> bool:
        """Whether a call has taken its memory."""
        return self._parts is None

    @property
    def parts(self) -> list[Array]:
        """The shards where they are, one per device.

        Raises:
            ExecutionError: The array was donated.
        """
        if self._parts is None:
            raise ExecutionError(f"{self!r} was donated to a call: its value is gone")
        return self._parts

    @property
    def shards(self) -> list[Array]:
        """Copies of the shards, one per device.

        Raises:
            ExecutionError: The array was donated.
        """
        return [np.array(part) for part in self.parts]

    def numpy(self) -> Array:
        """Return the whole array, a copy.

        Raises:
            ExecutionError: The array was donated.
        """
        return self._placement.assemble(self.parts, range(len(self.parts)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"copy must be True or None for {self!r}, whose shards lie on PEs")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        # A second handle would not know when the first is donated.
        raise ExecutionError(f"{self!r} cannot be copied or pickled: its numpy() can")

    def donate(self) -> None:
        """Give the memory up."""
        self._parts = self._buffer = None

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype})"


def to_array(what: str, value: Any) -> Array:
    """Return a value as an array: NumPy's, one that has ``__array__`` or DLPack's methods, or a number.

    Raises:
        ExecutionError: It is none.
    """
    try:
        if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
            found = np.from_dlpack(value)
        else:
            found = np.asarray(value)
    except Exception as error:
        raise ExecutionError(f"{what} must be an array, but is {shown(value)}: {error}") from error
    if isinstance(value, np.ma.MaskedArray):
        raise ExecutionError(
            f"{what} must be an array without a mask, but is {shown(value)}: its filled() is one"
        )
    if found.dtype.kind in "OSU":
        raise ExecutionError(f"{what} must be an array of numbers, but is {shown(value)}")
    return found
