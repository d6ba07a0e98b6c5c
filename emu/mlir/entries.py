"""The attributes of an operation, as a dictionary that tells the operation when it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self

from emu.mlir.base import Attribute


class HasChanged(Protocol):
    """An operation, which stands above this module."""

    changed: bool


class Entries(dict[str, Attribute]):
    """Attributes by name. Whatever changes them sets ``owner.changed``.

    Args:
        owner: The operation.
        entries: What it holds at first.
    """

    __slots__ = ("owner",)

    def __init__(self, owner: HasChanged, entries: Mapping[str, Attribute] | None = None) -> None:
        if entries:
            super().__init__(entries)
        self.owner = owner

    def __setitem__(self, name: str, value: Attribute) -> None:
        if self.get(name) is not value:
            self.owner.changed = True
            super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.owner.changed = True
        super().__delitem__(name)

    def pop(self, *name_and_default: Any) -> Any:  # noqa: D102  # dict's
        self.owner.changed = True
        return super().pop(*name_and_default)

    def popitem(self) -> tuple[str, Attribute]:  # noqa: D102  # dict's
        self.owner.changed = True
        return super().popitem()

    def clear(self) -> None:  # noqa: D102  # dict's
        self.owner.changed = True
        super().clear()

    def update(  # type: ignore[override]  # dict's has more overloads
        self,
        entries: Mapping[str, Attribute] | Iterable[tuple[str, Attribute]] = (),
        **more: Attribute,
    ) -> None:
        """Set several entries."""
        self.owner.changed = True
        super().update(entries, **more)

    def setdefault(self, name: str, default: Attribute) -> Attribute:
        """Return an entry, which is set first where there is none."""
        self.owner.changed = True
        return super().setdefault(name, default)

    def __ior__(self, entries: Any) -> Self:  # type: ignore[override,misc]  # dict's has overloads
        self.update(entries)
        return self

    def __reduce__(self) -> tuple[type[dict[str, Attribute]], tuple[dict[str, Attribute]]]:
        return dict, (dict(self),)  # a copy belongs to no operation
