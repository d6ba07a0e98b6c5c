"""Values that stay pickled until somebody asks for them."""

from __future__ import annotations

import pickle
from functools import cached_property
from typing import Generic, TypeVar

T = TypeVar("T")


class Pickled(Generic[T]):
    """A value, or its pickled form, of which the other is made when it is first needed.

    It is pickled as bytes: a process that only keeps it or passes it on need not even import what the value
    is made of.

    Args:
        value: The value.
    """

    def __init__(self, value: T) -> None:
        self.value = value

    @cached_property
    def value(self) -> T:
        """The value, which must not be changed."""
        found: T = pickle.loads(self.content)
        return found

    @cached_property
    def content(self) -> bytes:
        """The pickled value."""
        return pickle.dumps(self.value, 5)

    def __getstate__(self) -> dict[str, bytes]:
        return {"content": self.content}
