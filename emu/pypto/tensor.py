"""Tensors: rectangles of buffers, of which a part may be valid.

A *buffer* is memory and the ops pending on it. A *tensor* is a rectangle of one, so a view shares
memory with the tensor it was taken from. Its ``shape`` may reach beyond its ``valid_shape``: elements outside
read as 0 and are never written. Only the valid part needs memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.kernels.core.messages import shown
from emu.pypto.buffer import LARGE, Buffer
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import INTEGERS, Array, DataType, DTypeLike, as_dtype
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.foreign import as_array
from emu.pypto.node import Node
from emu.pypto.operation import Attributes, Operation, Values
from emu.pypto.spec import TensorSpec
from emu.pypto.submission import force, submit
from emu.pypto.symbolic import (
    ArithmeticOperand,
    Shape,
    SymbolicScalar,
    as_int,
    as_ints,
    as_shape,
    as_text,
    check_rank,
    index_entries,
    product,
)

MAX_AXES = 64
"""NumPy's bound."""

ORIGINS = tuple((0,) * rank for rank in range(MAX_AXES + 1))

OPERATORS: dict[str, Callable[..., Tensor]] = {}
"""Ops behind a tensor's operators and methods, by name; the modules of the ops fill it in.

The ops are made of tensors, so this module cannot import them.
"""


class Tensor(ArithmeticOperand):
    """A tensor of a kernel: an argument, the result of an op, or a view.

    ``pypto.Tensor([16, pypto.DYNAMIC], pypto.DT_FP32)`` does not make one but describes one, for the
    annotations of a kernel. Tensors come from :func:`pypto.tensor`, ops and kernel arguments.

    ``t[a:b, c:d]`` is a view (stops beyond the end are cut as in Python), ``t[i, j]`` reads an integer
    and waits for it, ``t[i, j] = n`` writes one, and ``t[a:, b:] = u`` assembles ``u``: its valid part
    is written with its corner at ``(a, b)``; the stops of the slices are ignored.
    """

    __slots__ = ("_array", "buffer", "dtype", "low", "name", "node", "shape", "valid_shape")

    _array: Array | None
    buffer: Buffer
    dtype: DataType
    low: Shape
    """Corner in the buffer."""
    name: str
    node: Node | None
    """For tokens: the op that it stands for, if that is pending."""
    shape: Shape
    valid_shape: Shape

    def __new__(  # type: ignore[misc]  # the class describes tensors when it is called
        cls, shape: object = None, dtype: DTypeLike | None = None, name: str = ""
    ) -> TensorSpec:
        """Describe a tensor for an annotation."""
        return TensorSpec(shape, dtype, name)

    @property
    def array(self) -> Array:
        """The valid part, without waiting for its values."""
        array = self._array
        if array is None:
            buffer, extent = self.buffer, self.valid_shape
            array = buffer.memory
            if array is None:
                array = buffer.array
            if extent != buffer.shape:
                places = zip(self.low, extent, strict=True)
                array = array[tuple([slice(a, a + n) for a, n in places])]
            self._array = array
        return array

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def dim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return product(self.shape)

    def numpy(self) -> Array:
        """Wait for the values and return them as a copy, zero outside the valid part."""
        force(self)
        return self.dense().copy()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a pypto tensor can only be copied to NumPy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def dense(self) -> Array:
        """Return the values over the whole shape, without waiting; for use inside an op."""
        if self.valid_shape == self.shape:
            return self.array
        try:
            array = np.zeros(self.shape, self.array.dtype)
        except (MemoryError, ValueError):
            raise too_large(self.shape, self.dtype, "shape") from None
        array[corner(self.valid_shape)] = self.array
        return array

    def __repr__(self) -> str:
        valid = "" if self.valid_shape == self.shape else f", valid_shape={list(self.valid_shape)}"
        label = f", name={self.name!r}" if self.name else ""
        return f"<pypto tensor {list(self.shape)} {self.dtype!r}{valid}{label}>"

    __iter__ = None
    """Not iterable: rows are views, ``t[i : i + 1, :]``."""

    # --- elements and slices --------------------------------------------------------------------

    def __getitem__(self, key: object) -> Any:
        if (
            type(key) is tuple
            and len(key) == len(self.shape)
            and _NUMBERS.issuperset(map(type, key))
        ):
            return self._read(key)
        entries = index_entries(key, self.ndim)
        if len(entries) == self.ndim and not any(isinstance(e, slice) for e in entries):
            return self._read(entries)
        low, extent = [], []
        for axis, entry in enumerate(entries):
            if not isinstance(entry, slice):
                raise ArgumentError(
                    f"index {axis} of a slice must be a slice, as in t[i : i + 1, :], but got {shown(entry)}: "
                    "a view keeps all axes"
                )
            if entry.step is not None and as_int(entry.step, f"step of slice {axis}") != 1:
                raise ArgumentError(f"slice {axis} must have step 1, but got {shown(entry.step)}")
            for name in ("start", "stop"):
                if getattr(entry, name) is not None:
                    as_int(getattr(entry, name), f"{name} of slice {axis}")
            start, stop, _ = slice(entry.start, entry.stop).indices(self.shape[axis])
            low.append(start)
            extent.append(max(0, stop - start))
        return view(self, extent, low)

    def __setitem__(self, key: object, value: object) -> None:
        entries = index_entries(key, self.ndim)
        if isinstance(value, Tensor):
            if all(type(e) is slice and e.start is None for e in entries):
                assemble(value, ORIGINS[len(entries)], self)
                return
            offsets = [
                (0 if e.start is None else as_int(e.start, f"start of slice {axis}"))
                if isinstance(e, slice)
                else as_int(e, f"index {axis}")
                for axis, e in enumerate(entries)
            ]
            assemble(value, offsets, self)
        elif isinstance(value, np.ndarray):
            # A copy: the op may run when the program has changed its array.
            self[key] = from_numpy(value.copy())
        elif any(isinstance(e, slice) for e in entries):
            raise ArgumentError(f"only a tensor can be assigned to a slice, but got {shown(value)}")
        else:
            self._write(entries, as_int(value, "value"))

    def _element(self, entries: Sequence[object]) -> Shape:
        at = as_ints(entries, "index")
        if self.dtype not in INTEGERS:
            raise DTypeError(f"t[i, j] must be an element of an integer tensor, but got {self!r}")
        for axis, (i, extent) in enumerate(zip(at, self.shape, strict=True)):
            if not 0 <= i < extent:
                raise ArgumentError(
                    f"index {axis} must be at least 0 and below {extent}, but got {i} for {self!r}"
                )
        return at

    def _read(self, entries: Sequence[object]) -> SymbolicScalar:
        at = self._element(entries)
        if self.valid_shape is not self.shape:
            for i, n in zip(at, self.valid_shape, strict=True):
                if i >= n:
                    return SymbolicScalar(0)
        graph, buffer = CONTEXT.graph, self.buffer
        if not graph.idle and (buffer.pending or self.node is not None or graph.order is not None):
            force(_part(self, at, (1,) * self.ndim))
        elif buffer.batch == graph.batch_number:
            graph.flush()
        return SymbolicScalar(self.array.item(at))

    def _write(self, entries: list[object], value: int) -> None:
        at = self._element(entries)
        if any(i >= n for i, n in zip(at, self.valid_shape, strict=True)):
            raise ArgumentError(
                f"index must lie in valid_shape {list(self.valid_shape)} to be written, but got {list(at)}"
            )
        limits = np.iinfo(self.dtype.np_dtype)
        if not limits.min <= value <= limits.max:
            raise ArgumentError(f"value must fit {self.dtype!r}, but got {value}")
        check_writable(self, "the tensor that is written to")
        submit(SCALAR_WRITE, (), (_part(self, at, (1,) * self.ndim),), (value,))

    # --- operators ------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Tensor:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return OPERATORS["sub"](self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return OPERATORS["sub"](other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return OPERATORS["mul"](self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return OPERATORS["mul"](other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return OPERATORS["div"](self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return OPERATORS["div"](other, self)

    def __gt__(self, other: Operand) -> Tensor:
        return OPERATORS["gt"](self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return OPERATORS["ge"](self, other)

    def __lt__(self, other: Operand) -> Tensor:
        return OPERATORS["lt"](self, other)

    def __le__(self, other: Operand) -> Tensor:
        return OPERATORS["le"](self, other)

    def __bool__(self) -> bool:
        raise ArgumentError(f"a condition must be a scalar, as t[i, j] is, but got {self!r}")

    def __neg__(self) -> Tensor:
        return OPERATORS["neg"](self)

    def __abs__(self) -> Tensor:
        return OPERATORS["abs"](self)

    def view(
        self,
        shape: Sequence[int],
        offsets: Sequence[int] | None = None,
        *,
        valid_shape: Sequence[int] | None = None,
    ) -> Tensor:
        """Return :func:`view` of this tensor."""
        return view(self, shape, offsets, valid_shape=valid_shape)

    def reshape(self, *shape: object) -> Tensor:
        """Return :func:`pypto.reshape` of this tensor."""
        whole = len(shape) == 1 and not isinstance(shape[0], int | np.integer)
        return OPERATORS["reshape"](self, shape[0] if whole else shape)

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Return :func:`pypto.transpose` of this tensor."""
        return OPERATORS["transpose"](self, dim0, dim1)


_NUMBERS = frozenset((int, SymbolicScalar))
"""Types of the entries of an index of an element, as programs mostly write it."""

Number = int | float
Operand = Tensor | Number
"""Operand of an element-wise op."""


def corner(extent: Shape) -> tuple[slice, ...]:
    """Return the slices of a rectangle at the origin."""
    return tuple(slice(0, n) for n in extent)


def wrap(array: Array, dtype: DataType | None = None, name: str = "") -> Tensor:
    """Return a tensor on an array's own memory."""
    t: Tensor = object.__new__(Tensor)
    t._array = array
    t.buffer = Buffer(array.shape, array.dtype, array.size, array)
    t.dtype = dtype if dtype is not None else as_dtype(array.dtype)
    t.low = (0,) * array.ndim
    t.name = name
    t.node = None
    t.shape = t.valid_shape = array.shape
    return t


def new_tensor(shape: Shape, dtype: DataType, valid_shape: Shape | None = None) -> Tensor:
    """Return a tensor on memory that is made when an op writes to it, or at once if there may be too little."""
    valid = shape if valid_shape is None else valid_shape
    np_dtype = dtype.np_dtype
    t: Tensor = object.__new__(Tensor)
    size = prod(valid)
    t.buffer = buffer = Buffer(valid, np_dtype, size)
    t._array = None
    t.dtype = dtype
    t.name = ""
    t.node = None
    t.shape = shape
    t.valid_shape = valid
    rank = len(valid)
    if rank > MAX_AXES or size * np_dtype.itemsize > LARGE:
        try:
            t._array = buffer.array
        except (MemoryError, ValueError):
            raise too_large(valid, dtype, "shape of the result") from None
    t.low = ORIGINS[rank]
    return t


def too_large(shape: Shape, dtype: DataType, argument: str) -> ArgumentError:
    """Return the error of a tensor that memory or NumPy has no room for."""
    if len(shape) > MAX_AXES:
        return ArgumentError(
            f"{argument} must have at most {MAX_AXES} axes, but got {len(shape)}: {shown(list(shape))}"
        )
    return ArgumentError(
        f"{argument} must fit into memory, but got {shown(list(shape))} {dtype!r}, "
        f"{product(shape) * dtype.itemsize} bytes"
    )


def _part(t: Tensor, offsets: Shape, extent: Shape) -> Tensor:
    """Return a rectangle inside the valid part, all of it valid."""
    part: Tensor = object.__new__(Tensor)
    part.buffer, part.dtype, part.name, part.node = t.buffer, t.dtype, t.name, t.node
    part.low = tuple(map(int.__add__, t.low, offsets))
    part.shape = part.valid_shape = extent
    part._array = None
    return part


def token(node: Node | None) -> Tensor:
    """Return the tensor [1, 1] that stands for the completion of an op (None: complete)."""
    if node is None:
        return COMPLETE
    t: Tensor = object.__new__(Tensor)
    t.buffer, t.dtype, t.name, t.node = COMPLETE.buffer, COMPLETE.dtype, node.label, node
    t.low = ORIGINS[2]
    t.shape = t.valid_shape = COMPLETE.shape
    t._array = None
    return t


def _complete() -> Tensor:
    array = np.zeros((1, 1), np.int32)
    array.flags.writeable = False
    return wrap(array, DataType.DT_INT32, "token")


COMPLETE = _complete()
"""Token of every complete op; all tokens share its buffer, which is never written."""


def check_tensor(value: object, argument: str) -> Tensor:
    """Check that a value is a tensor of this front end, and return it."""
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"{argument} must be a pypto tensor, but got {type(value).__name__}: {shown(value)}"
        )
    return value


def check_writable(t: Tensor, argument: str) -> None:
    """Check that a tensor can be written: it is no token, and its array is not read-only."""
    if t.buffer is COMPLETE.buffer:
        raise ArgumentError(f"{argument} must not be a token: tokens hold no values")
    memory = t.buffer.memory
    if memory is not None and not memory.flags.writeable:
        raise ArgumentError(f"{argument} must be writable, but got a read-only array: {t!r}")


# --- public functions -------------------------------------------------------------------------------


def tensor(shape: Sequence[int], dtype: DTypeLike, name: str = "") -> Tensor:
    """Return a new tensor; on the emulator it holds zeros."""
    extents, kind = as_shape(shape, "shape", least=0), as_dtype(dtype)
    as_text(name, "name")
    try:
        return wrap(np.zeros(extents, kind.np_dtype), kind, name)
    except (MemoryError, ValueError):
        raise too_large(extents, kind, "shape") from None


def from_numpy(array: object, name: str = "") -> Tensor:
    """Return a tensor on the memory of a NumPy array (or a torch CPU tensor): writes go there.

    In a kernel, ops that read it may run as late as the kernel's end: until then nobody else may change the array.
    """
    as_text(name, "name")
    return wrap(as_array(array, name or "array"), None, name)


def view(
    t: Tensor,
    shape: Sequence[int],
    offsets: Sequence[int] | None = None,
    *,
    valid_shape: Sequence[int] | None = None,
) -> Tensor:
    """Return a rectangle of a tensor, on the same memory.

    Args:
        t: The tensor.
        shape: Extents of the rectangle, one per axis of ``t``.
        offsets: Its corner in ``t``. Default: the origin.
        valid_shape: Its valid part, from the corner; the rest reads as 0 and may lie beyond the end
            of ``t``. Extents may be 0. Default: ``shape``; what is not valid in ``t`` stays so.

    Raises:
        ArgumentError: If the valid part reaches beyond ``t``.
    """
    check_tensor(t, "t")
    extents = as_shape(shape, "shape", least=0)
    low = (0,) * len(extents) if offsets is None else as_ints(offsets, "offsets")
    check_rank(extents, t.ndim, "shape", "the tensor")
    check_rank(low, t.ndim, "offsets", "the tensor")
    valid = extents if valid_shape is None else as_shape(valid_shape, "valid_shape", least=0)
    check_rank(valid, t.ndim, "valid_shape", "the tensor")
    name = "shape" if valid_shape is None else "valid_shape"
    for axis, (a, n, v, size) in enumerate(zip(low, extents, valid, t.shape, strict=True)):
        if v > n:
            raise ArgumentError(
                f"valid_shape[{axis}] must be at most shape[{axis}] = {n}, but got {v}"
            )
        if a < 0 or (v and a + v > size):
            raise ArgumentError(
                f"offsets[{axis}] + {name}[{axis}] must lie between 0 and {size}, the extent there, "
                f"but got {a} + {v}" + ("; give valid_shape for a tail" if name == "shape" else "")
            )
    inside, start = [], []
    for v, w, a in zip(valid, t.valid_shape, low, strict=True):
        inside.append(v if a + v <= w else max(0, w - a))
        # A corner beyond the valid part is a rectangle without elements, wherever it lies.
        start.append(min(a, w))
    part = _part(t, tuple(start), tuple(inside))
    part.shape = extents
    return part


def assemble(src: Tensor, offsets: Sequence[int], dst: Tensor) -> None:
    """Write the valid part of ``src`` into ``dst`` with its corner at ``offsets``.

    Raises:
        ArgumentError: If it reaches beyond ``dst``.
        DTypeError: If the data types differ.
    """
    check_tensor(src, "src")
    check_tensor(dst, "dst")
    low = as_ints(offsets, "offsets")
    check_rank(low, dst.ndim, "offsets", "dst")
    check_rank(src.shape, dst.ndim, "src.shape", "dst")
    if src.dtype is not dst.dtype:
        raise DTypeError(f"src.dtype must be {dst.dtype!r}, that of dst, but got {src.dtype!r}")
    extent = src.valid_shape
    if extent == dst.shape == dst.valid_shape and not any(low):
        check_writable(dst, "dst")
        if 0 not in extent:
            submit(ASSEMBLE, (src,), (dst,))
        return
    for axis, (a, n, size) in enumerate(zip(low, extent, dst.valid_shape, strict=True)):
        if a < 0 or (a + n > size and 0 not in extent):
            raise ArgumentError(
                f"offsets[{axis}] + the valid extent of src must lie between 0 and {size}, the extent of "
                f"dst there, but got {a} + {n}"
            )
    check_writable(dst, "dst")
    if 0 not in extent:
        submit(ASSEMBLE, (src,), (_part(dst, low, extent),))


def _write(inputs: Values, outputs: tuple[Array, ...], attributes: Attributes) -> None:
    outputs[0][...] = attributes[0]


SCALAR_WRITE = Operation("scalar write", "other", _write)
ASSEMBLE = Operation("assemble", "map", lambda inputs, outputs, _: np.copyto(outputs[0], inputs[0]))
