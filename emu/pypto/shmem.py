"""Symmetric tensors: data on every PE of a group, and signal slots.

*Slots.* A signal is one int32 per tile on the target PE, at ``[src_pe][tile]``. Which word that is
depends on the view and the tile shape that signal and wait see: each combination has words of its own, a
*slot set*, made by whoever uses it first. So a signal and a wait that see different views or tiles never
meet, here as on the device.

*Lifetime.* Memory that a kernel creates is freed at its end: data at once, since the heap counts members.
Slots are freed later. A set may have been made by PEs that this one never dealt with, and a slow PE may make more,
so each PE publishes how far it has drained, and slots are given back at a later create, when everyone has
drained the kernel that used them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emu.comm.errors import SymmetricMemoryError
from emu.kernels.core.messages import shown
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import SHMEM_DTYPES, DataType, DTypeLike, as_dtype
from emu.pypto.errors import ArgumentError, DTypeError, TileShapeError
from emu.pypto.groups import group_of
from emu.pypto.lifetimes import PREFIX, Lifetimes, name_of
from emu.pypto.node import Node
from emu.pypto.order import Op
from emu.pypto.symbolic import Shape, as_ints, as_shape, check_rank
from emu.pypto.tiles import count_tiles, vec_tile
from emu.pypto.worlds import moves_rows, shares_cores

if TYPE_CHECKING:
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group

MAX_ELEMENTS = 2**31 - 1
INT32 = DataType.DT_INT32.np_dtype
SlotSet = tuple["SymmetricArray", int]
"""The words of a slot set, [n_pes, n_tiles], and n_tiles."""


class Memory:
    """Memory of one create: data (none for signals only), slots, and the barrier's word."""

    __slots__ = (
        "_barrier",
        "_data",
        "alive",
        "claimed",
        "dtype",
        "group",
        "is_crowded",
        "last_barrier",
        "last_barrier_op",
        "moves_rows",
        "n_pes",
        "name",
        "number",
        "prefix",
        "slot_sets",
    )

    def __init__(self, group: Group, shape: Shape | None, dtype: DataType) -> None:
        lifetimes = CONTEXT.lifetimes.get(group.name)
        if lifetimes is None:
            lifetimes = CONTEXT.lifetimes[group.name] = Lifetimes(group)
        lifetimes.collect()
        CONTEXT.graph.watch(group)
        self.group = group
        self.moves_rows = moves_rows(group)
        self.is_crowded = self.moves_rows and shares_cores(group)
        self.number = lifetimes.created + 1
        self.alive = True
        self.claimed = lifetimes.claimed
        self.n_pes = group.n_pes
        self.dtype = dtype
        self.name = name_of(self.number)
        self.prefix = f"{PREFIX}{self.number}."
        self.slot_sets: dict[tuple[Shape, ...], SlotSet] = {}
        self.last_barrier: Node | None = None
        self.last_barrier_op: Op | None = None
        self._barrier: SymmetricArray | None = None
        self._data: SymmetricArray | None = None
        try:
            if shape is None:
                name = f"{self.name}.signals"
                slots = group.alloc((self.n_pes, 1), INT32, name=name, poison=False)
                self.slot_sets[()] = (slots, 1)
            else:
                self._data = group.alloc(shape, dtype.np_dtype, name=self.name)
        except SymmetricMemoryError as error:
            what = "signals" if shape is None else f"shape {list(shape)} {dtype!r}"
            raise ArgumentError(
                f"create {self.number} of group {group.name!r} must be the same on every PE, and shape and "
                f"dtype must fit the symmetric heap, but got {what}: {error}"
            ) from None
        lifetimes.created += 1

    @property
    def data(self) -> SymmetricArray:
        """The data; those of a tensor that passed :func:`check_data`."""
        if self._data is None:
            raise ArgumentError(f"{self.name} must have data, but it has signals only")
        return self._data

    def slot_set(self, low: Shape, shape: Shape, tile: Shape) -> SlotSet:
        """Return the slots of a view walked in these tiles."""
        key = (low, shape, tile)
        found = self.slot_sets.get(key)
        if found is None:
            n_tiles = count_tiles(shape, tile)
            text = "/".join(",".join(map(str, part)) for part in key)
            try:
                words = self.group.alloc(
                    (self.n_pes, n_tiles),
                    INT32,
                    name=f"{self.name}.slots",
                    key=f"{self.prefix}slots/{text}",
                    poison=False,
                )
            except SymmetricMemoryError as error:
                raise TileShapeError(
                    f"the tile shape must leave room for the slots of {n_tiles} tiles on each of "
                    f"{self.n_pes} PEs, but got {list(tile)} for {list(shape)}: {error}"
                ) from None
            found = self.slot_sets[key] = (words, n_tiles)
        return found

    def barrier_word(self) -> SymmetricArray:
        """Return the word that barriers on this tensor count in."""
        if self._barrier is None:
            self._barrier = self.group.alloc(
                (1,),
                INT32,
                name=f"{self.name}.barrier",
                key=f"{self.prefix}barrier",
                poison=False,
            )
        return self._barrier

    def all_slots(self) -> list[SymmetricArray]:
        """Return the words of every slot set, also of those that only other PEs have used so far."""
        own = [words for key, (words, _) in self.slot_sets.items() if not key]
        return own + self.group.find_allocs(f"{self.prefix}slots/")

    def check_alive(self, argument: str) -> None:
        """Check that the memory was not freed at the end of its kernel."""
        if not self.alive:
            raise ArgumentError(
                f"{argument} must be alive, but {self.name} was freed at the end of the kernel that made it"
            )

    def free(self) -> None:
        """Free this PE's part of the memory; slots go once no PE needs them."""
        self.alive = False
        for key, (words, _) in self.slot_sets.items():
            # A tensor of signals has one slot set, allocated by every member like data: it goes at once.
            if not key:
                self.claimed -= {(words.offset, pe) for pe in range(self.n_pes)}
                words.free()
        self.slot_sets.clear()
        self._barrier = None
        if self._data is not None:
            self._data.free()
        CONTEXT.lifetimes[self.group.name].retire(self.number)


class ShmemTensor:
    """A view of symmetric data and its slots; made by the creates and :func:`shmem_view`.

    Attributes:
        memory: Memory that it is a view of.
        low: Corner of the view.
        shape: Extents of the view; () for signals only.
        valid_shape: Its valid part, which may be smaller.
    """

    __slots__ = ("low", "memory", "shape", "valid_shape")

    def __init__(self, memory: Memory, low: Shape, shape: Shape, valid_shape: Shape) -> None:
        self.memory = memory
        self.low = low
        self.shape = shape
        self.valid_shape = valid_shape

    @property
    def dtype(self) -> DataType:
        """Data type."""
        return self.memory.dtype

    @property
    def n_pes(self) -> int:
        """Number of PEs of the group."""
        return self.memory.n_pes

    @property
    def group_name(self) -> str:
        """Name of the group."""
        return self.memory.group.name

    def __repr__(self) -> str:
        what = f"{list(self.shape)} {self.dtype!r}" if self.shape else "signals"
        at = f" at {list(self.low)}" if any(self.low) else ""
        return f"<pypto {self.memory.name} {what}{at} of group {self.group_name!r}>"

    def slots(self, shape: object, offsets: object, op: str) -> SlotSet:
        """Return the slots of a rectangle of this view under the tile shape in force."""
        if not self.shape:
            if shape is not None or offsets is not None:
                raise ArgumentError(
                    f"{op}: shape and offsets must not be given when src is a tensor of signals; "
                    f"but got {shown(shape)} and {shown(offsets)}"
                )
            return self.memory.slot_sets[()]
        if shape is None and offsets is None:
            return self.memory.slot_set(self.low, self.shape, vec_tile(self.shape, op, "src"))
        part = subview(self, shape, offsets, None)
        return self.memory.slot_set(part.low, part.shape, vec_tile(part.shape, op, "src"))


def check_shmem(value: object, argument: str) -> ShmemTensor:
    """Check that a value is a symmetric tensor in use, and return it."""
    if not isinstance(value, ShmemTensor):
        raise ArgumentError(f"{argument} must be a ShmemTensor, but got {type(value).__name__}")
    if not value.memory.alive:
        value.memory.check_alive(argument)
    return value


def check_data(value: object, argument: str) -> ShmemTensor:
    """Check that a value is a symmetric tensor with data, and return it."""
    tensor = check_shmem(value, argument)
    if not tensor.shape:
        raise ArgumentError(
            f"{argument} must have data, but got a tensor of signals only (create_shmem_signal)"
        )
    return tensor


def subview(src: ShmemTensor, shape: object, offsets: object, valid_shape: object) -> ShmemTensor:
    """Return a rectangle of a view; shape and offsets default to the whole and the origin."""
    if shape is None and offsets is None and valid_shape is None:
        return src
    rank = len(src.shape)
    extents = src.shape if shape is None else as_shape(shape, "shape")
    low = (0,) * rank if offsets is None else as_ints(offsets, "offsets")
    check_rank(extents, rank, "shape", "src")
    check_rank(low, rank, "offsets", "src")
    if valid_shape is None:
        valid = extents
    else:
        valid = as_shape(valid_shape, "valid_shape", least=0)
        check_rank(valid, rank, "valid_shape", "src")
    inside: list[int] = []
    for axis, (a, n, v, size) in enumerate(zip(low, extents, valid, src.shape, strict=True)):
        if not 0 <= a < size and not (v == 0 and a >= 0):
            raise ArgumentError(
                f"offsets[{axis}] must be at least 0 and below {size}, the extent there, but got {a}"
            )
        if v > n:
            raise ArgumentError(
                f"valid_shape[{axis}] must be at most shape[{axis}] = {n}, but got {v}"
            )
        if a + v > size and v:
            name = "shape" if valid_shape is None else "valid_shape"
            raise ArgumentError(
                f"offsets[{axis}] + {name}[{axis}] must be at most {size}, the extent there, "
                f"but got {a} + {v}"
            )
        rest = src.valid_shape[axis] - a
        inside.append(v if v <= rest else max(0, rest))
    corner = tuple(map(int.__add__, src.low, low))
    return ShmemTensor(src.memory, corner, extents, tuple(inside))


def create_shmem_tensor(
    group_name: str, n_pes: int, dtype: DTypeLike, shape: Sequence[int]
) -> ShmemTensor:
    """Create symmetric data, zeroed, on every PE of a group, with its own signal slots.

    Every member calls it, in the same order as its other creates; it does not wait for the others.
    Made in a kernel, the memory goes back at the kernel's end; else it stays until the program ends.

    Args:
        group_name: 1 to 128 characters. A name not given to a group means all PEs.
        n_pes: Number of PEs of the group.
        dtype: DT_INT32, DT_FP16, DT_BF16 or DT_FP32.
        shape: 2 to 4 extents on each PE, at most 2^31 - 1 elements.

    Raises:
        ArgumentError: If an argument breaks a rule.
        GroupError: If the group is not known, has another size, or this PE is not in it.
    """
    kind = as_dtype(dtype)
    if kind not in SHMEM_DTYPES:
        raise DTypeError(f"dtype must be DT_INT32, DT_FP16, DT_BF16 or DT_FP32, but got {kind!r}")
    extents = as_shape(shape, "shape")
    check_extent(extents, "shape")
    memory = Memory(group_of(group_name, n_pes), extents, kind)
    CONTEXT.graph.scope.at_end.append(memory.free)
    return ShmemTensor(memory, (0,) * len(extents), extents, extents)


def create_shmem_signal(group_name: str, n_pes: int) -> ShmemTensor:
    """Create one signal slot for every PE of a group, on each; no data, and no views.

    Arguments, lifetime and errors as :func:`create_shmem_tensor`.
    """
    memory = Memory(group_of(group_name, n_pes), None, DataType.DT_INT32)
    CONTEXT.graph.scope.at_end.append(memory.free)
    return ShmemTensor(memory, (), (), ())


def shmem_view(
    src: ShmemTensor,
    shape: Sequence[int],
    offsets: Sequence[int],
    *,
    valid_shape: Sequence[int] | None = None,
) -> ShmemTensor:
    """Return a rectangle of symmetric data, with slots of its own.

    Args:
        src: Symmetric data, or a view of it.
        shape: Extents of the rectangle.
        offsets: Its corner in ``src``.
        valid_shape: Its valid part, which alone is fetched and must lie within ``src``; may be 0.
            Default: ``shape``.

    Raises:
        ArgumentError: If the rectangle reaches beyond ``src``, or ``src`` has no data.
    """
    return subview(check_data(src, "src"), shape, offsets, valid_shape)


def check_extent(shape: Shape, argument: str) -> None:
    """Check that a shape has 2 to 4 axes, and 1 to 2^31 - 1 elements."""
    if not 2 <= len(shape) <= 4:
        raise ArgumentError(
            f"{argument} must have 2 to 4 axes, but got {len(shape)}: {list(shape)}"
        )
    count = 1
    for extent in shape:
        count *= extent
    if count == 0:
        raise ArgumentError(f"{argument} must not be empty, but got {list(shape)}")
    if count > MAX_ELEMENTS:
        raise ArgumentError(
            f"{argument} must have at most {MAX_ELEMENTS} elements, but got {count}: {list(shape)}"
        )
