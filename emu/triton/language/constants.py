"""Values that are known when a kernel is compiled, and the base class of all values."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


class base_value:
    """Base of everything that a kernel's variables hold: tensors, tuples, constexprs."""

    type: Any  # a base_type; some classes compute it


class base_type:
    """Base of the types of such values."""


class composite(base_value):
    """Base of values other than tuples that consist of named values: instances of aggregates.

    Loops and branches carry the parts, and make a value of the same class of them afterwards.
    """

    def parts(self) -> list[Any]:
        """Return the values that it consists of, in order."""
        raise NotImplementedError

    def with_parts(self, parts: Sequence[Any]) -> Any:
        """Return a value of the same class that consists of others."""
        raise NotImplementedError

    def of_type(self, type_: composite_type) -> composite | None:
        """Return the value as one of a type that :meth:`composite_type.joined` gave; None if it cannot be."""
        return None


class composite_type(base_type):
    """Type of a :class:`composite`.

    Attributes:
        types: Types of the parts, in order.
        known: Whether each part is one value that is known at compile time, and stays so.
    """

    types: Sequence[base_type]
    known: Sequence[bool]

    def with_types(self, types: Sequence[base_type]) -> composite_type:
        """Return the type of a value of the same class whose parts have other types."""
        raise NotImplementedError

    def is_like(self, other: composite_type) -> bool:
        """Return whether values of both types are of one class."""
        raise NotImplementedError

    def joined(self, other: composite_type) -> composite_type | None:
        """Return a type that values of either type can be given where these are not alike; None: there is none."""
        return None

    def make(self, parts: Sequence[Any]) -> Any:
        """Return a value of the class that consists of these parts."""
        raise NotImplementedError


class constexpr_type(base_type):
    """Type of one value that is known at compile time.

    Attributes:
        value: The value.
    """

    def __init__(self, value: object) -> None:
        self.value = unwrap(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((constexpr_type, self.value))

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"


def _operation(
    function: Callable[[Any, Any], object], reflected: bool = False
) -> Callable[[constexpr, object], Any]:
    def apply(self: constexpr, other: object) -> object:
        if isinstance(other, base_value) and not isinstance(other, constexpr):
            return NotImplemented  # the tensor's own reflected operator answers
        theirs = unwrap(other)
        return constexpr(
            function(theirs, self.value) if reflected else function(self.value, theirs)
        )

    return apply


class constexpr(base_value):
    """A value that is known when a kernel is compiled.

    Operators between constexprs and Python's values give constexprs by Python's rules; with a tensor
    the value takes part as a Python scalar.

    Attributes:
        value: The Python value; never a constexpr itself.
        type: Its :class:`constexpr_type`.
    """

    def __init__(self, value: object) -> None:
        while isinstance(value, constexpr):
            value = value.value
        self.value: Any = value

    @property
    def type(self) -> constexpr_type:
        """Type that stands for this one value."""
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        return hash(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __contains__(self, item: object) -> bool:
        return unwrap(item) in self.value

    def __call__(self, *arguments: object, **keywords: object) -> Any:
        """Call the value."""
        return self.value(*arguments, **keywords)

    def __getitem__(self, index: object) -> Any:
        return self.value[unwrap(index)]

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __abs__(self) -> constexpr:
        return constexpr(abs(self.value))

    def __not__(self) -> constexpr:
        """Return ``not`` of the value."""
        return constexpr(not self.value)

    def logical_and(self, other: object) -> constexpr:
        """Return the value ``and`` another, by Python's rules."""
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: object) -> constexpr:
        """Return the value ``or`` another, by Python's rules."""
        return constexpr(self.value or unwrap(other))

    __add__ = _operation(operator.add)
    __radd__ = _operation(operator.add, reflected=True)
    __sub__ = _operation(operator.sub)
    __rsub__ = _operation(operator.sub, reflected=True)
    __mul__ = _operation(operator.mul)
    __rmul__ = _operation(operator.mul, reflected=True)
    __truediv__ = _operation(operator.truediv)
    __rtruediv__ = _operation(operator.truediv, reflected=True)
    __floordiv__ = _operation(operator.floordiv)
    __rfloordiv__ = _operation(operator.floordiv, reflected=True)
    __mod__ = _operation(operator.mod)
    __rmod__ = _operation(operator.mod, reflected=True)
    __pow__ = _operation(operator.pow)
    __rpow__ = _operation(operator.pow, reflected=True)
    __and__ = _operation(operator.and_)
    __rand__ = _operation(operator.and_, reflected=True)
    __or__ = _operation(operator.or_)
    __ror__ = _operation(operator.or_, reflected=True)
    __xor__ = _operation(operator.xor)
    __rxor__ = _operation(operator.xor, reflected=True)
    __lshift__ = _operation(operator.lshift)
    __rlshift__ = _operation(operator.lshift, reflected=True)
    __rshift__ = _operation(operator.rshift)
    __rrshift__ = _operation(operator.rshift, reflected=True)
    __lt__ = _operation(operator.lt)
    __le__ = _operation(operator.le)
    __gt__ = _operation(operator.gt)
    __ge__ = _operation(operator.ge)
    __eq__ = _operation(operator.eq)
    __ne__ = _operation(operator.ne)


ConstexprLike: TypeAlias = T | constexpr
"""A value that must be known when a kernel is compiled: a Python value, or a constexpr of one."""


def unwrap(value: object) -> Any:
    """Return the Python value of a constexpr, also inside lists and tuples; anything else unchanged."""
    if isinstance(value, constexpr):
        return value.value
    if isinstance(value, list):
        return [unwrap(v) for v in value]
    if type(value) is builtins.tuple:
        return builtins.tuple([unwrap(v) for v in value])
    return value


def _is_sequence(value: object) -> bool:
    # A tensor has __iter__, too, to say that it has no items.
    return (
        hasattr(value, "__iter__")
        and not hasattr(value, "handle")
        and not isinstance(value, str | bytes | type)
    )


def unwrap_sequence(values: object) -> list[Any]:
    """Return the Python values of a sequence of constexprs; a scalar gives a list of one.

    ``f(x, 4, 8)`` and ``f(x, (4, 8))`` come to the same: the one sequence in a sequence is taken out.
    """
    given = unwrap(values)
    if not _is_sequence(given):
        return [given]
    items = [unwrap(v) for v in given]
    if len(items) == 1 and _is_sequence(items[0]):
        return unwrap_sequence(items[0])
    return items
