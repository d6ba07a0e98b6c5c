"""Table of what computes each operation."""

from __future__ import annotations

from collections.abc import Callable

from emu.stablehlo.reference.values import Array, Handler

HANDLERS: dict[str, Handler] = {}
"""Handler per name of an operation."""

ELEMENTWISE: set[str] = set()
"""Operations whose handlers broadcast: a region of nothing else is applied to whole arrays."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Make a function the handler of operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"{name} has a handler")
            HANDLERS[name] = handler
        return handler

    return register


def define_elementwise(name: str, function: Callable[..., Array]) -> None:
    """Define an operation by a function of arrays that computes each element by itself."""
    handles(name)(lambda op, args, scope: (function(*args),))
    ELEMENTWISE.add(name)
