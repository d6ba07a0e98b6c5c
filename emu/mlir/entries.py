"""The attributes of an operation, as a dictionary that tells the operation when it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self

from emu.mlir.base import Attribute


class HasChanged(Protocol):
    """An operation, which stands above this module."""

    changed: bool | str


class Entries(dict[str, Attribute]):
    """Attributes by name. Whatever changes them sets ``owner.changed`` to "attributes", unless it is set.

    Attributes:
        owner: The operation, which sets itself here: an ``__init__`` would cost more than the dict.
    """

    __slots__ = ("owner",)

    owner: HasChanged

    def __setitem__(self, name: str, value: Attribute) -> None:
        if self.get(name) is not value:
            self.owner.changed = self.owner.changed or "attributes"
            super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.owner.changed = self.owner.changed or "attributes"
        super().__delitem__(name)

    def pop(self, *name_and_default: Any) -> Any:  # noqa: D102  # dict's
        self.owner.changed = self.owner.changed or "attributes"
        return super().pop(*name_and_default)

    def popitem(self) -> tuple[str, Attribute]:  # noqa: D102  # dict's
        self.owner.changed = self.owner.changed or "attributes"
        return super().popitem()

    def clear(self) -> None:  # noqa: D102  # dict's
        self.owner.changed = self.owner.changed or "attributes"
        super().clear()

    def update(  # type: ignore[override]  # dict's has more overloads
        self,
        entries: Mapping[str, Attribute] | Iterable[tuple[str, Attribute]] = (),
        **more: Attribute,
    ) -> None:
        """Set several entries."""
        self.owner.changed = self.owner.changed or "attributes"
        super().update(entries, **more)

    def setdefault(self, name: str, default: Attribute) -> Attribute:
        """Return an entry, which is set first where there is none."""
        self.owner.changed = self.owner.changed or "attributes"
        return super().setdefault(name, default)

    def __ior__(self, entries: Any) -> Self:  # type: ignore[override,misc]  # dict's has overloads
        self.update(entries)
        return self

    def __reduce__(self) -> tuple[type[dict[str, Attribute]], tuple[dict[str, Attribute]]]:
        return dict, (dict(self),)  # a copy belongs to no operation
