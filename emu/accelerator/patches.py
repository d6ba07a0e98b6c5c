"""Ordered record of the changes made to torch, each with its reason and the way to undo it.

A torch function mode sees calls into torch, but not torch's own lookups: classes without an extension point,
methods that C++ code calls, modules that exist in every build. Those attributes are replaced by
:func:`replace`, and other changes noted by :func:`record`, so that :func:`table` lists them all and
:func:`undo_all` restores torch. docs/torch.md has the table for users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Patch(NamedTuple):
    """One change."""

    target: str
    """Name of the changed object, such as ``torch.cuda.set_device``."""
    reason: str
    """Why a mode does not suffice."""
    undo: Callable[[], object]
    """Function that restores the previous state."""


_ABSENT = object()


class Ledger:
    """The changes that one party has made."""

    def __init__(self) -> None:
        self._made: list[Patch] = []

    @property
    def is_open(self) -> bool:
        """Whether there are changes that were not undone."""
        return bool(self._made)

    def record(self, target: str, reason: str, undo: Callable[[], object]) -> None:
        """Record a change that the caller has made."""
        self._made.append(Patch(target, reason, undo))

    def replace(self, owner: type | ModuleType, name: str, value: object, reason: str) -> None:
        """Set an attribute of a class or a module, and record its previous value.

        Args:
            owner: The class or module.
            name: The attribute. It may be inherited, or not be there: undoing then deletes it.
            value: Its new value.
            reason: Why it is replaced.
        """
        # From the dictionary: getattr would bind methods and lose the wrapper of static ones.
        before = vars(owner).get(name, _ABSENT)

        def undo() -> None:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, value)
        home = f"{owner.__module__}." if isinstance(owner, type) else ""
        self.record(f"{home}{owner.__name__}.{name}", reason, undo)

    def table(self) -> tuple[Patch, ...]:
        """Return all changes, in the order in which they were made."""
        return tuple(self._made)

    def undo_all(self) -> None:
        """Undo all changes, the last first: some wrap the value of an earlier one."""
        while self._made:
            self._made.pop().undo()


LEDGER = Ledger()
"""The changes of :func:`emu.accelerator.install`."""

record = LEDGER.record
replace = LEDGER.replace
table = LEDGER.table
undo_all = LEDGER.undo_all


def replace_all(owner: type | ModuleType, values: Mapping[str, object], reason: str) -> None:
    """Set several attributes for one reason, as :func:`replace` does."""
    for name, value in values.items():
        replace(owner, name, value, reason)


def replace_item(table: dict[K, V], key: K, value: V, target: str, reason: str) -> None:
    """Set an item of a dictionary, and record its previous value.

    Args:
        table: The dictionary.
        key: The item's key; it may be new.
        value: Its new value.
        target: Name of the dictionary.
        reason: Why the item is replaced.
    """
    before = {key: table[key]} if key in table else {}

    def undo() -> None:
        table.pop(key, None)
        table.update(before)

    table[key] = value
    record(target, reason, undo)
