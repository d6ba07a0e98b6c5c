"""Values of a program: tensors with Python's operators, and tuples of them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Self, TypeAlias, TypeVar, overload

from emu.tile import ir
from emu.triton.language.constants import (
    ConstexprLike,
    base_type,
    base_value,
    composite,
    constexpr,
    constexpr_type,
    unwrap,
)
from emu.triton.language.types import dtype, slice_type, tuple_type

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_functions: dict[str, Callable[..., tensor]] = {}
"""Functions behind the operators, by name.

The modules that define them need the classes of this module first, and fill the table in.
"""


class tensor(base_value):
    """A value of the running program: a scalar, or elements under a shape.

    Most functions of the language are methods, too: ``x.sum(axis=0)`` is ``tl.sum(x, axis=0)``.

    Attributes:
        handle: Its value in the tile IR.
        type: A dtype, a pointer type, or a block type of these.
        dtype: Type of an element.
        shape: Extents, a tuple of constexprs; of a scalar empty.
        numel: Number of elements, a constexpr.
    """

    def __new__(cls, handle: Any = None, type: object = None) -> Self:
        """Make a tensor; a handle whose elements are known, of a kernel that runs as Python, brings its class."""
        kind: Any = cls
        if cls is tensor:
            kind = getattr(handle, "tensor_class", cls)
        made: Self = object.__new__(kind)
        return made

    def __init__(self, handle: Any, type: dtype) -> None:
        self.handle: ir.Value = handle
        self.type: dtype = type
        self.dtype: dtype = type.scalar

    @property
    def extents(self) -> builtins.tuple[int, ...]:
        """Shape as Python's integers."""
        return self.type.shape

    @property
    def shape(self) -> tuple:
        """Extents, each a constexpr."""
        return tuple([constexpr(s) for s in self.type.shape])

    @property
    def numel(self) -> constexpr:
        """Number of elements."""
        return constexpr(self.type.numel)

    @property
    def T(self) -> tensor:
        """The tensor with its last two axes swapped."""
        return _functions["trans"](self)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(s) for s in self.type.shape)}]"

    def __repr__(self) -> str:
        return f"tensor({self})"

    def __bool__(self) -> bool:
        raise TypeError(
            f"a condition must be known at compile time here, but got the tensor {self}; "
            "use tl.where to choose by elements"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"a tensor cannot be iterated over or unpacked, but got {self}")

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: TensorLike) -> tensor:
        return _functions["add"](self, other)

    def __radd__(self, other: TensorLike) -> tensor:
        return _functions["add"](other, self)

    def __sub__(self, other: TensorLike) -> tensor:
        return _functions["sub"](self, other)

    def __rsub__(self, other: TensorLike) -> tensor:
        return _functions["sub"](other, self)

    def __mul__(self, other: TensorLike) -> tensor:
        return _functions["mul"](self, other)

    def __rmul__(self, other: TensorLike) -> tensor:
        return _functions["mul"](other, self)

    def __truediv__(self, other: TensorLike) -> tensor:
        return _functions["truediv"](self, other)

    def __rtruediv__(self, other: TensorLike) -> tensor:
        return _functions["truediv"](other, self)

    def __floordiv__(self, other: TensorLike) -> tensor:
        return _functions["floordiv"](self, other)

    def __rfloordiv__(self, other: TensorLike) -> tensor:
        return _functions["floordiv"](other, self)

    def __mod__(self, other: TensorLike) -> tensor:
        return _functions["mod"](self, other)

    def __rmod__(self, other: TensorLike) -> tensor:
        return _functions["mod"](other, self)

    def __neg__(self) -> tensor:
        return _functions["minus"](self)

    def __pos__(self) -> tensor:
        return self

    def __invert__(self) -> tensor:
        return _functions["invert"](self)

    def __not__(self) -> tensor:
        """Return ``not`` of a condition."""
        return _functions["not_"](self)

    def __and__(self, other: TensorLike) -> tensor:
        return _functions["and_"](self, other)

    def __rand__(self, other: TensorLike) -> tensor:
        return _functions["and_"](other, self)

    def __or__(self, other: TensorLike) -> tensor:
        return _functions["or_"](self, other)

    def __ror__(self, other: TensorLike) -> tensor:
        return _functions["or_"](other, self)

    def __xor__(self, other: TensorLike) -> tensor:
        return _functions["xor_"](self, other)

    def __rxor__(self, other: TensorLike) -> tensor:
        return _functions["xor_"](other, self)

    def __lshift__(self, other: TensorLike) -> tensor:
        return _functions["shl"](self, other)

    def __rlshift__(self, other: TensorLike) -> tensor:
        return _functions["shl"](other, self)

    def __rshift__(self, other: TensorLike) -> tensor:
        return _functions["shr"](self, other, self.dtype)

    def __rrshift__(self, other: TensorLike) -> tensor:
        return _functions["shr"](other, self, self.dtype)

    def __lt__(self, other: TensorLike) -> tensor:
        return _functions["less_than"](self, other)

    def __le__(self, other: TensorLike) -> tensor:
        return _functions["less_equal"](self, other)

    def __gt__(self, other: TensorLike) -> tensor:
        return _functions["greater_than"](self, other)

    def __ge__(self, other: TensorLike) -> tensor:
        return _functions["greater_equal"](self, other)

    # Comparisons give tensors, so tensors must never be looked up or compared by ``==`` in the compiler.
    def __eq__(self, other: object) -> tensor:  # type: ignore[override]  # element by element
        return _functions["equal"](self, other)

    def __ne__(self, other: object) -> tensor:  # type: ignore[override]  # element by element
        return _functions["not_equal"](self, other)

    def logical_and(self, other: TensorLike) -> tensor:
        """Return ``and`` of two conditions; both are evaluated."""
        return _functions["logical_and"](self, other)

    def logical_or(self, other: TensorLike) -> tensor:
        """Return ``or`` of two conditions; both are evaluated."""
        return _functions["logical_or"](self, other)

    def __getitem__(self, index: object) -> tensor:
        return _functions["index"](self, index)

    def to(
        self,
        dtype: ConstexprLike[dtype],
        fp_downcast_rounding: ConstexprLike[str | None] = None,
        bitcast: ConstexprLike[bool] = False,
    ) -> tensor:
        """Return ``tl.cast``: the values in another dtype, or the same bits read as another."""
        return _functions["cast"](self, dtype, fp_downcast_rounding, bitcast)


class tuple(base_value):
    """A tuple of values; the items may be of any types.

    Attributes:
        values: The items.
        type: Its :class:`tuple_type`.
    """

    def __init__(
        self, args: Iterable[Any], type: tuple_type | Iterable[base_type] | None = None
    ) -> None:
        self.values: list[Any] = list(args)
        if type is not None and not isinstance(type, tuple_type):
            type = tuple_type(type)
        fields = getattr(args, "_fields", None)
        if type is None and isinstance(args, builtins.tuple) and fields is not None:
            type = tuple_type([_type_of(v) for v in self.values], fields)
        self._type: tuple_type | None = type

    @property
    def type(self) -> tuple_type:
        """Types of the items."""
        if self._type is None:
            self._type = tuple_type([_type_of(v) for v in self.values])
        return self._type

    @overload
    def __getitem__(self, index: int | constexpr) -> Any: ...
    @overload
    def __getitem__(self, index: builtins.slice | slice) -> tuple: ...

    def __getitem__(self, index: object) -> Any:
        if isinstance(index, slice | builtins.slice):
            part = (unwrap(index.start), unwrap(index.stop), unwrap(index.step))
            return tuple(self.values[builtins.slice(*part)])
        index = unwrap(index)
        if not isinstance(index, int):
            raise TypeError(
                f"index of a tuple must be an int known at compile time, but got {index}"
            )
        return self.values[index]

    def __getattr__(self, name: str) -> Any:
        kept = self.__dict__.get("_type")
        if kept is None or kept.fields is None or name not in kept.fields:
            raise AttributeError(f"a tuple has no attribute {name!r}{_CHANGES.get(name, '')}")
        return self.values[kept.fields.index(name)]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, item: object) -> bool:
        return unwrap(item) in [unwrap(v) for v in self.values]

    def __add__(self, other: Iterable[object]) -> tuple:
        return tuple([*self.values, *other])

    def __radd__(self, other: Iterable[object]) -> tuple:
        return tuple([*other, *self.values])

    def __mul__(self, times: ConstexprLike[int]) -> tuple:
        return tuple(self.values * unwrap(times))

    def __rmul__(self, times: ConstexprLike[int]) -> tuple:
        return self.__mul__(times)

    def __eq__(self, other: object) -> constexpr:  # type: ignore[override]  # element by element
        theirs = unwrap(other)
        if not hasattr(theirs, "__iter__"):
            return constexpr(False)
        return constexpr([unwrap(v) for v in self.values] == [unwrap(v) for v in theirs])

    def __ne__(self, other: object) -> constexpr:  # type: ignore[override]  # element by element
        return constexpr(not (self == other))

    def __hash__(self) -> int:
        return hash(builtins.tuple(self.values))

    def __str__(self) -> str:
        return str([str(v) for v in self.values])

    def __repr__(self) -> str:
        return f"({', '.join(repr(v) for v in self.values)})"


_LIST = "; lists are tuples in kernels and cannot be changed: "
_CHANGES = {
    "append": f"{_LIST}write `xs = xs + [x]`, in a loop over tl.static_range",
    "extend": f"{_LIST}write `xs = xs + ys`, in a loop over tl.static_range",
    **dict.fromkeys(
        ("insert", "pop", "remove", "clear", "sort", "reverse", "copy"), f"{_LIST}make a new one"
    ),
}
"""What to write in place of methods of lists."""


class slice:
    """A part of a tuple, or a whole axis of a tensor: ``start:stop:step``."""

    def __init__(self, start: object, stop: object, step: object) -> None:
        self.start = start
        self.stop = stop
        self.step = step
        self.type = slice_type()


Scalar: TypeAlias = bool | int | float
"""A number of Python's, which takes part in operations without a dtype of its own."""

TensorLike: TypeAlias = tensor | constexpr | Scalar
"""Whatever a function of the language takes for a tensor."""

TensorTuple: TypeAlias = tuple | Sequence[tensor]
"""Tensors of one shape, which a reduction or scan combines together."""

ShapeLike: TypeAlias = ConstexprLike[int] | ConstexprLike[Sequence[ConstexprLike[int]]] | tuple
"""An extent or axis, or a sequence of them, known when a kernel is compiled."""


def _type_of(value: object) -> base_type:
    if isinstance(value, tensor | tuple | composite):
        found: base_type = value.type
        return found
    return constexpr_type(value)


def operation(function: F) -> F:
    """Register a function that implements an operator of tensors."""
    _functions[function.__name__] = function
    return function


def member(function: F) -> F:
    """Make a function a method of tensors, too."""
    setattr(tensor, function.__name__, function)
    return operation(function)


def _items(value: object) -> Sequence[object] | None:
    """Return the items of a tuple of any kind or of a composite; ``None`` for anything else."""
    value = unwrap(value) if isinstance(value, constexpr) else value
    if isinstance(value, tuple):
        return value.values
    if isinstance(value, composite):
        return value.parts()
    return value if isinstance(value, builtins.tuple | list) else None


def flatten(value: object) -> list[ir.Value]:
    """Return the IR values that a value consists of, in order; a constexpr has none."""
    if isinstance(value, tensor):
        # The result of a store has a type but no value; the same holds in _take.
        return [] if value.type.is_void() else [value.handle]
    flat: list[ir.Value] = []
    for item in _items(value) or ():
        flat += flatten(item)
    return flat


def unflatten(template: T, values: Sequence[ir.Value]) -> T:
    """Return a value of the same form as ``template`` that consists of other IR values.

    Args:
        template: A tensor, constexpr, or (nested) tuple of these.
        values: IR values, in number and type as in ``flatten(template)``.

    Raises:
        ValueError: There are more or fewer values than the template has.
    """
    rest = iter(values)
    made: T = _take(template, rest)
    if next(rest, None) is not None:
        raise ValueError(f"values must be {len(flatten(template))}, but got {len(values)}")
    return made


def _take(template: object, rest: Iterator[ir.Value]) -> Any:
    if isinstance(template, tensor):
        if template.type.is_void():
            return template
        handle = next(rest, None)
        if handle is None:
            raise ValueError("values must be as many as flatten gives, but got fewer")
        return tensor(handle, template.type)
    if isinstance(template, tuple):
        fields = (
            template._type
            if template._type is not None and template._type.fields is not None
            else None
        )
        return tuple([_take(v, rest) for v in template.values], fields)
    if isinstance(template, composite):
        return template.with_parts([_take(v, rest) for v in template.parts()])
    items = _items(template)
    if items is None or not any(flatten(v) for v in items):
        return template
    made = [_take(v, rest) for v in items]
    kind: Any = type(template)
    if hasattr(kind, "_fields"):
        return kind(*made)
    return tuple(made) if isinstance(template, constexpr) else kind(made)
