"""Addresses of Triton kernels by brute force: kernels run as Python on a model of memory, lane by lane.

``Model`` has the extents and the bytes of every storage. :class:`Language` stands in for ``triton.language`` while the text
of a kernel is executed: its tiles know their addresses and where these come from, its accesses note each tile of which
a lane is outside and leave these lanes out.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

UNKNOWN = "?"
"""Origin of a pointer that was read from memory, made of an integer, or chosen among arguments."""

DTYPES: dict[str, Any] = {
    "int1": np.dtype(np.bool_),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2),
    **{f"int{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"uint{n}": np.dtype(f"uint{n}") for n in (8, 16, 32)},
}
"""Types in memory by their name in the language."""


@dataclass(frozen=True)
class Bad:
    """A tile of which a lane is outside: its first one.

    Attributes:
        line: Line of the access in the kernel's text.
        verb: ``"load"``, ``"store"`` or ``"atomic"``.
        program: Indices x, y, z.
        lane: Indices of the lane.
        address: Its address.
        argument: Name of the argument that the address comes from; None if that is not one.
        masked: Whether there is a mask.
    """

    line: int
    verb: str
    program: tuple[int, int, int]
    lane: tuple[int, ...]
    address: int
    argument: str | None
    masked: bool


@dataclass
class Model:
    """Memory, and what a run has found.

    Attributes:
        starts: Address of the first byte of each storage.
        storages: Bytes of each storage.
        extents: First address and the one behind of what each argument belongs to, by name.
        bad: Tiles with lanes outside, in the order of execution.
        states: All bytes after each store of the program that runs.
    """

    starts: list[int]
    storages: list[np.ndarray[Any, Any]]
    extents: dict[str, tuple[int, int]]
    bad: list[Bad] = field(default_factory=list)
    states: list[list[list[int]]] = field(default_factory=list)

    def contents(self) -> list[list[int]]:
        """Return the bytes of each storage."""
        return [s.tolist() for s in self.storages]

    def find(self, address: int, size: int, origin: str) -> tuple[np.ndarray[Any, Any], int] | None:
        """Return the bytes that an element is in, and where; None if it is outside of what its pointer may reach."""
        if origin != UNKNOWN:
            start, end = self.extents[origin]
            if not start <= address <= end - size:
                return None
        for start, data in zip(self.starts, self.storages, strict=True):
            if start <= address <= start + len(data) - size:
                return data, address - start
        return None


class Number:
    """A scalar or tile: of integers, floats, or addresses of elements."""

    def __init__(self, a: Any, element: str | None = None, origin: str = UNKNOWN) -> None:
        self.a = np.asarray(a)
        self.element = element
        self.origin = origin

    @property
    def dtype(self) -> Any:
        return SimpleNamespace(element_ty=self.element)

    def _with(self, other: Any, apply: Callable[[Any, Any], Any]) -> Number:
        with np.errstate(over="ignore"):
            return Number(apply(self.a, other.a if isinstance(other, Number) else other))

    def __add__(self, other: Any) -> Number:
        if isinstance(other, Number) and other.element is not None:
            return other + self
        if self.element is None:
            return self._with(other, lambda a, b: a + b)
        steps = other.a if isinstance(other, Number) else np.asarray(other)
        with np.errstate(over="ignore"):
            moved = self.a + steps.astype(np.int64) * DTYPES[self.element].itemsize
        return Number(moved, self.element, self.origin)

    def __sub__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a * b)

    def __mod__(self, other: Any) -> Number:  # both signs: the language's is C's
        return self._with(other, np.fmod)

    def __floordiv__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a // b)

    def __and__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a & b)

    def __or__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a | b)

    def __xor__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a ^ b)

    def __lt__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a < b)

    def __gt__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a >= b)

    def __le__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a <= b)

    def __eq__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a == b)

    def __ne__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a != b)

    __hash__ = None  # type: ignore[assignment]  # equality is of elements
    __radd__, __rmul__, __rand__ = __add__, __mul__, __and__

    def __bool__(self) -> bool:
        return bool(self.a)

    def __index__(self) -> int:
        return int(self.a)

    def __getitem__(self, key: Any) -> Number:
        return Number(self.a[key], self.element, self.origin)

    def to(self, kind: Any) -> Number:
        """Convert, as the language does."""
        if isinstance(kind, tuple):  # a pointer type
            return Number(self.a.astype(np.int64), kind[1])
        return Number(self.a.astype(np.float64 if kind.startswith("float") else DTYPES[kind]))


def _tile(value: Any) -> np.ndarray[Any, Any]:
    return value.a if isinstance(value, Number) else np.asarray(value)


class Language:
    """What kernels use of ``triton.language``, and ``triton`` itself.

    Args:
        model: The memory.
        filename: What the text of the kernel is called.
    """

    constexpr = object
    float32, int32, int64 = "float32", "int32", "int64"

    def __init__(self, model: Model, filename: str) -> None:
        self.model = model
        self.filename = filename
        self.program = (0, 0, 0)
        self.grid = (1, 1, 1)

    def pointer_type(self, element: str) -> tuple[str, str]:
        return "pointer", element

    def __getattr__(self, name: str) -> Any:
        if name in DTYPES:
            return name
        raise AttributeError(name)

    # ---- values

    def program_id(self, axis: int) -> Number:
        return Number(np.int32(self.program[axis]))

    def num_programs(self, axis: int) -> Number:
        return Number(np.int32(self.grid[axis]))

    def arange(self, start: int, end: int) -> Number:
        return Number(np.arange(start, end, dtype=np.int32))

    def where(self, condition: Any, a: Any, b: Any) -> Number:
        origins = {v.origin for v in (a, b) if isinstance(v, Number) and v.element}
        element = a.element if isinstance(a, Number) else None
        origin = origins.pop() if len(origins) == 1 else UNKNOWN
        return Number(np.where(_tile(condition), _tile(a), _tile(b)), element, origin)

    def minimum(self, a: Any, b: Any) -> Number:
        return a._with(b, np.minimum)

    def maximum(self, a: Any, b: Any) -> Number:
        return a._with(b, np.maximum)

    def cumsum(self, a: Number, axis: int) -> Number:
        return Number(np.cumsum(a.a, axis, dtype=a.a.dtype))

    def sum(self, a: Number, axis: int | None = None) -> Number:
        return Number(a.a.sum(axis, dtype=a.a.dtype))

    def max(self, a: Number, axis: int | None = None) -> Number:
        return Number(a.a.max(axis))

    def flip(self, a: Number) -> Number:
        return Number(a.a[::-1])

    def static_range(self, *bounds: int) -> range:
        return range(*bounds)

    # ---- accesses

    def _lanes(
        self, verb: str, pointer: Number, mask: Any
    ) -> Iterator[tuple[tuple[int, ...], np.ndarray[Any, Any], int]]:
        """Yield the indices of each lane that is active and inside, and its bytes; note the first one outside."""
        frame: Any = sys._getframe()
        while frame.f_code.co_filename != self.filename:
            frame = frame.f_back
        line = frame.f_lineno
        assert pointer.element is not None
        size = DTYPES[pointer.element].itemsize
        active = None if mask is None else np.broadcast_to(_tile(mask), pointer.a.shape)
        found, is_noted = [], False
        for lane in np.ndindex(pointer.a.shape):
            if active is not None and not active[lane]:
                continue
            address = int(pointer.a[lane])
            place = self.model.find(address, size, pointer.origin)
            if place is not None:
                found.append((lane, *place))
            elif not is_noted:
                name = None if pointer.origin == UNKNOWN else pointer.origin
                at = address % 2**64
                fact = Bad(line, verb, self.program, lane, at, name, mask is not None)
                self.model.bad.append(fact)
                is_noted = True
        yield from found

    def load(self, pointer: Any, mask: Any = None, other: Any = 0, **block: Any) -> Number:
        if isinstance(pointer, _BlockPointer):
            return pointer.load(**block)
        assert pointer.element is not None
        dtype = DTYPES[pointer.element]
        wide = np.dtype(np.float64) if dtype.kind in "fV" else dtype
        result = np.zeros(pointer.a.shape, wide)
        if mask is not None:
            pass
        if mask is not None and other is not None:
            result[...] = _tile(other)
        for lane, data, at in self._lanes("load", pointer, mask):
            result[lane] = data[at : at + dtype.itemsize].view(dtype)[0]
        return Number(result)

    def store(self, pointer: Number, value: Any, mask: Any = None) -> None:
        values = np.broadcast_to(_tile(value), pointer.a.shape)
        assert pointer.element is not None
        dtype = DTYPES[pointer.element]
        for lane, data, at in self._lanes("store", pointer, mask):
            data[at : at + dtype.itemsize].view(dtype)[0] = values[lane]
        self.model.states.append(self.model.contents())

    def _atomic(
        self, pointer: Number, mask: Any, change: Callable[[Any, tuple[int, ...]], Any]
    ) -> Number:
        assert pointer.element is not None
        dtype = DTYPES[pointer.element]
        result = np.zeros(pointer.a.shape, dtype)
        for lane, data, at in self._lanes("atomic", pointer, mask):
            cell = data[at : at + dtype.itemsize].view(dtype)
            result[lane] = cell[0]
            cell[0] = change(cell[0], lane)
        self.model.states.append(self.model.contents())
        return Number(result)

    def atomic_add(self, pointer: Number, value: Any, mask: Any = None) -> Number:
        return self._atomic(pointer, mask, lambda old, lane: old + _tile(value))

    def atomic_max(self, pointer: Number, value: Any, mask: Any = None) -> Number:
        return self._atomic(pointer, mask, lambda old, lane: max(old, _tile(value)))

    def atomic_cas(self, pointer: Number, expected: Any, value: Any) -> Number:
        return self._atomic(
            pointer, None, lambda old, lane: _tile(value) if old == _tile(expected) else old
        )

    # ---- blocks

    def make_tensor_descriptor(
        self, base: Number, shape: Sequence[Any], strides: Sequence[Any], block_shape: Sequence[int]
    ) -> _Descriptor:
        return _Descriptor(self, base, shape, strides, block_shape)

    def make_block_ptr(
        self,
        base: Number,
        shape: Sequence[Any],
        strides: Sequence[Any],
        offsets: Sequence[Any],
        block_shape: Sequence[int],
        order: Sequence[int],
    ) -> _BlockPointer:
        return _BlockPointer(self, base, shape, strides, block_shape, offsets)


class _Block:
    def __init__(
        self, language: Language, base: Number, shape: Any, strides: Any, block_shape: Any
    ) -> None:
        self.language, self.base = language, base
        self.shape, self.strides = list(map(int, shape)), list(map(int, strides))
        self.block = list(block_shape)

    def at(self, offsets: Sequence[Any], checked: Sequence[int]) -> tuple[Number, Any]:
        """Return the addresses of a block and the mask of its elements within the shape along some axes."""
        address, mask = self.base, Number(np.ones(self.block, np.bool_))
        for axis, (start, count) in enumerate(zip(offsets, self.block, strict=True)):
            line = [1] * len(self.block)
            line[axis] = count
            index = int(start) + np.arange(count, dtype=np.int64).reshape(line)
            address = address + Number(index * self.strides[axis])
            if axis in checked:
                mask = mask & Number((index >= 0) & (index < self.shape[axis]))
        shape = np.broadcast_shapes(address.a.shape, tuple(self.block))
        address.a = np.broadcast_to(address.a, shape)
        return address, mask if checked else None


class _Descriptor(_Block):
    def load(self, offsets: Sequence[Any]) -> Number:
        address, mask = self.at(offsets, range(len(self.block)))
        return self.language.load(address, mask, 0)

    def store(self, offsets: Sequence[Any], value: Any) -> None:
        address, mask = self.at(offsets, range(len(self.block)))
        self.language.store(address, value, mask)


class _BlockPointer(_Block):
    def __init__(self, *given: Any) -> None:
        *rest, self.offsets = given
        super().__init__(*rest)

    def load(self, boundary_check: Sequence[int] = ()) -> Number:
        address, mask = self.at(self.offsets, boundary_check)
        return self.language.load(address, mask, 0)


def execute(
    text: str, filename: str, model: Model, grid: tuple[int, int, int], arguments: dict[str, Any]
) -> dict[tuple[int, int, int], tuple[list[list[int]], list[list[list[int]]]]]:
    """Run a kernel on a model of memory; return each program's first state, and the states after its stores.

    Args:
        text: Module with the function ``kernel``; its imports are left out.
        filename: What the text is called.
        model: The memory. What is found is added to it.
        grid: Extents.
        arguments: Arguments by name.
    """
    language = Language(model, filename)
    language.grid = grid
    lines = ["" if "import " in line else line for line in text.split("\n")]
    triton = SimpleNamespace(jit=lambda fn=None, **_: fn if fn is not None else lambda f: f)
    space: dict[str, Any] = {"tl": language, "triton": triton}
    exec(compile("\n".join(lines), filename, "exec"), space)  # noqa: S102 - written by the generator
    states = {}
    x, y, z = grid
    for program in itertools.product(range(z), range(y), range(x)):
        language.program = program[::-1]
        before, model.states = model.contents(), []
        space["kernel"](**arguments)
        states[language.program] = before, model.states
    return states
