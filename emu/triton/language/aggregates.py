"""Aggregates: classes of a program whose instances kernels hold, with fields of declared kinds."""

from __future__ import annotations

import builtins
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

from emu.triton.language.constants import (
    base_type,
    base_value,
    composite,
    composite_type,
    constexpr,
    constexpr_type,
)
from emu.triton.language.types import tuple_type
from emu.triton.language.values import tuple

V = TypeVar("V")

_HIDDEN = {"__dict__", "__weakref__", "__annotations__", "__annotate__", "__annotate_func__"}
"""Entries of a class that its copy gets anew."""


class aggregate_type(composite_type):
    """Type of an instance: its class, and the types of the fields.

    Attributes:
        kind: The class.
    """

    def __init__(self, kind: type[aggregate_value], types: Sequence[base_type]) -> None:
        self.kind = kind
        self.types = list(types)
        self.known = [kind.__aggregate_fields__[n] is constexpr for n in kind.__aggregate_fields__]

    @property
    def fields(self) -> list[builtins.tuple[str, base_type]]:
        """Names and types of the fields."""
        return list(zip(self.kind.__aggregate_fields__, self.types, strict=True))

    def with_types(self, types: Sequence[base_type]) -> aggregate_type:
        """Return the type of an instance whose fields have other types."""
        return aggregate_type(self.kind, types)

    def is_like(self, other: composite_type) -> bool:
        """Return whether both are of one class."""
        return isinstance(other, aggregate_type) and other.kind is self.kind

    def make(self, parts: Sequence[Any]) -> Any:
        """Return an instance with these values, without a call of ``__init__``."""
        made = object.__new__(self.kind)
        for name, part in zip(self.kind.__aggregate_fields__, parts, strict=True):
            object.__setattr__(made, name, part)
        object.__setattr__(made, "_locked", True)
        return made

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, aggregate_type)
            and other.kind is self.kind
            and other.types == self.types
        )

    def __hash__(self) -> int:
        return hash((self.kind, *self.types))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {type_}" for name, type_ in self.fields)
        return f"{self.kind.__name__}({fields})"

    __str__ = __repr__


class _Making(type):
    """Class of aggregates, which locks an instance when it is complete."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        """Make an instance by ``__init__``, and lock it."""
        kind: Any = cls
        instance = object.__new__(kind)
        object.__setattr__(instance, "_locked", False)
        for name in (
            "_semantic",
            "_generator",
        ):  # of Triton's own functions, which programs may write
            kwargs.pop(name, None)
            if (
                isinstance(kind.__init__, FunctionType)
                and name in kind.__init__.__code__.co_varnames
            ):
                kwargs[name] = None
        kind.__init__(instance, *args, **kwargs)
        for name in kind.__aggregate_fields__:
            if name not in vars(instance):
                raise AttributeError(f"__init__ of {cls.__name__} must set {name!r}, but does not")
        object.__setattr__(instance, "_locked", True)
        return instance


class aggregate_value(composite, metaclass=_Making):
    """Base of the classes that ``triton.aggregate`` makes."""

    __triton_builtin__ = True
    __triton_aggregate__ = True
    __aggregate_fields__: typing.ClassVar[Mapping[str, object]] = {}
    __aggregate_defaults__: typing.ClassVar[Mapping[str, object]] = {}

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Set the fields, in order and by name, as a dataclass does."""
        name, fields = type(self).__name__, [*self.__aggregate_fields__]
        if len(args) > len(fields):
            raise TypeError(f"{name}() takes {len(fields)} fields, but got {len(args)}")
        given = dict(zip(fields, args, strict=False))
        for key, value in kwargs.items():
            if key not in fields:
                raise TypeError(
                    f"{name}() has no field {key!r}; its fields are {', '.join(fields)}"
                )
            if key in given:
                raise TypeError(f"{name}() got {key!r} twice")
            given[key] = value
        for field in fields:
            if field not in given and field not in self.__aggregate_defaults__:
                raise TypeError(f"{name}() needs {field!r}, which has no default")
            value = given[field] if field in given else self.__aggregate_defaults__[field]
            setattr(self, field, _as_value(value))

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field while the instance is made.

        Raises:
            AttributeError: The class has no such field, or the instance is complete.
            TypeError: The value is not of the declared kind.
        """
        cls = type(self)
        if name not in self.__aggregate_fields__:
            raise AttributeError(f"{cls.__name__} has no field {name!r}")
        if self._locked:
            raise AttributeError(
                f"cannot assign to field {name!r} on immutable aggregate {cls.__name__}; "
                "tl.aggregate_replace makes a changed copy"
            )
        kind = self.__aggregate_fields__[name]
        if isinstance(kind, type) and not isinstance(value, kind):
            got = value if isinstance(value, base_value) else type(value).__name__
            raise TypeError(
                f"{name} of {cls.__name__} must be a {kind.__name__}, but got {got!r}"
                + ("; tl.to_tensor makes one of a number" if isinstance(value, constexpr) else "")
            )
        object.__setattr__(self, name, value)

    _locked: bool

    def parts(self) -> list[Any]:
        """Return the values of the fields."""
        return [self.__dict__[name] for name in self.__aggregate_fields__]

    def with_parts(self, parts: Sequence[Any]) -> Any:
        """Return an instance with other values, without a call of ``__init__``."""
        return self.type.make(parts)

    @property
    def type(self) -> aggregate_type:
        """Class and types of the fields."""
        return aggregate_type(type(self), [_type_of(v) for v in self.parts()])

    def __repr__(self) -> str:
        fields = ", ".join(f"{n}={self.__dict__[n]!r}" for n in self.__aggregate_fields__)
        return f"{type(self).__name__}({fields})"


def _type_of(value: Any) -> base_type:
    found: base_type = value.type if isinstance(value, base_value) else constexpr_type(value)
    return found


def _as_value(value: object) -> object:
    """Return a field's value: what Python has as a constexpr, tuples as the language's."""
    if isinstance(value, base_value):
        return value
    if isinstance(value, builtins.tuple | list):
        items = [_as_value(v) for v in value]
        fields = getattr(type(value), "_fields", None)
        return tuple(items, tuple_type([_type_of(v) for v in items], fields))
    return constexpr(value)


def _annotations(cls: type) -> dict[str, object]:
    """Return the kinds of the fields that a class itself declares; text stays where it cannot be read."""
    plain = dict(inspect.get_annotations(cls))
    if any(isinstance(v, str) for v in plain.values()):
        try:
            hints = typing.get_type_hints(cls)
        except (NameError, TypeError, AttributeError):
            return plain
        plain = {name: hints.get(name, kind) for name, kind in plain.items()}
    return plain


def aggregate(cls: type) -> Any:
    """Make a class whose instances kernels can hold, pass, return and carry through loops.

    Its fields are annotated with what they hold: ``tl.tensor``, ``tl.constexpr``, ``tl.tuple``, or another
    aggregate. Methods are jit functions, constexpr functions, or plain Python that runs at compile time.
    Without an ``__init__``, fields are set in order and by name. Instances cannot be changed.

    Args:
        cls: The class; its bases, if any, must be aggregates, whose fields come first.

    Raises:
        TypeError: A base is not an aggregate, or ``cls`` is not a class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls: triton.aggregate needs a class, but got {cls!r:.60}")
    bases = [b for b in cls.__bases__ if b is not object]
    if not all(issubclass(b, aggregate_value) for b in bases):
        raise TypeError(
            f"Aggregates can only inherit from other aggregates, but {cls.__name__} has the bases "
            f"{', '.join(b.__name__ for b in bases)}"
        )
    fields: dict[str, object] = {}
    defaults: dict[str, object] = {}
    for base in reversed(bases):
        fields |= base.__aggregate_fields__  # type: ignore[attr-defined]  # checked above
        defaults |= base.__aggregate_defaults__  # type: ignore[attr-defined]  # the same
    own = _annotations(cls)
    space = {k: v for k, v in vars(cls).items() if k not in _HIDDEN}
    for name, kind in own.items():
        fields[name] = kind
        if name in space:
            defaults[name] = space.pop(name)
    space.setdefault("__init__", aggregate_value.__init__)  # not a base's, which knows fewer fields
    space["__aggregate_fields__"] = fields
    space["__aggregate_defaults__"] = defaults
    space["__annotations__"] = own
    return _Making(cls.__name__, builtins.tuple(bases) or (aggregate_value,), space)


def aggregate_replace(instance: V, **changes: object) -> V:
    """Return a copy of an aggregate's instance with some fields replaced.

    Args:
        instance: The instance, which stays as it is.
        **changes: New values by field.

    Raises:
        TypeError: ``instance`` is not one of an aggregate, or has no such field.
    """
    if not isinstance(instance, aggregate_value):
        raise TypeError(
            f"aggregate_replace() expects an aggregate instance, but got {type(instance).__name__}"
        )
    kind = type(instance)
    for name in changes:
        if name not in kind.__aggregate_fields__:
            raise TypeError(
                f"{kind.__name__} has no field '{name}'; its fields are "
                f"{', '.join(kind.__aggregate_fields__)}"
            )
    changes.pop("_semantic", None)
    given = dict(zip(kind.__aggregate_fields__, instance.parts(), strict=True)) | changes
    made: Callable[..., V] = kind
    return made(**given)
