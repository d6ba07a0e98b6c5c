"""``Faults``: what goes wrong in a launch on purpose."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from emu.comm.errors import ArgumentError
from emu.kernels.core import environment
from emu.kernels.core.messages import shown

KILL, SLOW, LATE = "kill", "slow", "late"
DROP_SIGNAL, DUPLICATE_SIGNAL, CORRUPT = "drop-signal", "duplicate-signal", "corrupt"
ALLOC_FAIL, ENOSPC = "alloc-fail", "enospc"

OPERATIONS = (
    *("put", "get", "put_nbi", "get_nbi", "put_signal", "put_signal_nbi", "signal_op"),
    *("fetch_add", "swap", "compare_swap", "fetch"),
    *("fetch_add_nbi", "swap_nbi", "compare_swap_nbi", "fetch_nbi"),
    *("wait_until", "wait_until_all", "wait_until_some", "wait_for"),
    *("test", "test_all", "test_some", "set_lock", "test_lock", "clear_lock"),
    *("fence", "quiet", "barrier", "sync", "alloc", "free", "group"),
    *("broadcast", "scatter", "gather", "all_gather", "all_to_all", "all_to_all_v", "permute"),
    *("all_reduce", "reduce_scatter"),
    *("post_task", "release_turns", "wait_for_task"),
)
"""Operations of a World and its groups, and of Hccl's tasks, as ``at`` names them."""
ANY = "op"
"""What ``at`` calls all of them."""

MAX_PE, MAX_COUNT, MAX_MS, MAX_FACTOR = 1023, (1 << 63) - 1, 10_000.0, 1e6


class _Kind(NamedTuple):
    """The keys of a kind of fault."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


_PAIR = ("from", "to")
_KINDS = {
    KILL: _Kind(("pe", "at")),
    SLOW: _Kind(("pe",), one_of=("x", "ms")),
    LATE: _Kind((*_PAIR, "ms")),
    DROP_SIGNAL: _Kind((*_PAIR, "nth")),
    DUPLICATE_SIGNAL: _Kind((*_PAIR, "nth")),
    CORRUPT: _Kind((*_PAIR, "nth"), optional=("bit", "seed")),
    ALLOC_FAIL: _Kind(("pe", "nth")),
    ENOSPC: _Kind(("pe", "nth")),
}
KINDS = tuple(_KINDS)

_WHOLE = {
    "pe": (0, MAX_PE),
    "from": (0, MAX_PE),
    "to": (0, MAX_PE),
    "nth": (1, MAX_COUNT),
    "bit": (0, MAX_COUNT),
    "seed": (0, MAX_COUNT),
}
_REAL = {"ms": (0.0, MAX_MS), "x": (1.0, MAX_FACTOR)}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong.

    :meth:`parse` makes it and checks it.
    """

    kind: str
    pe: int
    """PE that it happens to, or that stores and signals come from."""
    to: int | None = None
    """PE that they go to."""
    operation: str = ANY
    """Of ``kill``: the operation that is counted."""
    nth: int = 0
    """Which one, from 1."""
    ms: float = 0.0
    """Milliseconds."""
    factor: float = 1.0
    """Of ``slow``: in how many times the time an operation takes place."""
    bit: int | None = None
    """Of ``corrupt``: which bit. None: it is drawn."""
    seed: int = 0
    text: str = ""
    """What it was made from."""

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Return the fault that a text says, as ``kill:pe=3,at=put:5``.

        Raises:
            ArgumentError: It says none.
        """
        name, _, rest = text.partition(":")
        kind = _KINDS.get(name.strip())
        if kind is None:
            raise _bad(
                text, f"its kind must be one of {', '.join(KINDS)}", name.strip(), KINDS
            ) from None
        values = _values(text, name.strip(), kind, rest)
        found: dict[str, object] = {
            key: _number(text, key, value) for key, value in values.items() if key != "at"
        }
        found["pe"] = found.pop("from", found.get("pe"))
        found["factor"] = found.pop("x", 1.0)
        if "at" in values:
            found["operation"], found["nth"] = _place(text, values["at"])
        if found.get("bit") is not None and "seed" in found:
            raise _bad(text, "seed must not be given with bit: nothing is drawn", values["seed"])
        return cls(kind=name.strip(), text=text.strip(), **found)  # type: ignore[arg-type]  # by key

    @property
    def place(self) -> tuple[object, ...]:
        """What no two faults of a plan may share, but for what can follow each other."""
        if self.kind in (KILL, SLOW):
            return self.kind, self.pe
        if self.kind == LATE:
            return self.kind, self.pe, self.to
        if self.kind in (ALLOC_FAIL, ENOSPC):
            return "allocation", self.pe, self.nth
        what = "store" if self.kind == CORRUPT else "signal"
        return what, self.pe, self.to, self.nth


def _bad(text: str, rule: str, value: object, known: Sequence[str] = ()) -> ArgumentError:
    near = difflib.get_close_matches(str(value), known, 1) if known else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ArgumentError(f"fault {shown(text.strip())}: {rule}, but got {shown(value)}{hint}")


def _values(text: str, name: str, kind: _Kind, rest: str) -> dict[str, str]:
    """Return the values of a fault by their keys, which are those of its kind."""
    known = (*kind.needed, *kind.one_of, *kind.optional)
    said = ", ".join(_written(key) for key in known)
    values: dict[str, str] = {}
    for part in (part.strip() for part in rest.split(",") if part.strip()):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals and part[:1] == "x" and "x" in known:
            key, value = "x", part[1:]
        elif not equals or key not in known or key == "x":
            raise _bad(text, f"{name} must have the keys {said}", part, known)
        if key in values:
            raise _bad(text, f"{key} must be given once", part)
        values[key] = value
    lacking = [key for key in kind.needed if key not in values]
    if kind.one_of and len([key for key in kind.one_of if key in values]) != 1:
        lacking.append(" or ".join(_written(key) for key in kind.one_of) + " (one of them)")
    if lacking:
        raise _bad(text, f"{name} must have {', '.join(lacking)}", rest)
    return values


def _written(key: str) -> str:
    return "xFACTOR" if key == "x" else key


def _number(text: str, key: str, value: str) -> int | float:
    """Return a number of a fault, in the bounds of its key."""
    if key in _WHOLE:
        low, high = _WHOLE[key]
        if not (value.isascii() and value.isdecimal()) or not low <= int(value) <= high:
            raise _bad(text, f"{key} must be a whole number in [{low}, {high}]", value)
        return int(value)
    least, most = _REAL[key]
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not least < number <= most:
        raise _bad(text, f"{_written(key)} must be a number in ({least:g}, {most:g}]", value)
    return number


def _place(text: str, value: str) -> tuple[str, int]:
    """Return which operation, and the how manyth, ``at`` means."""
    operation, colon, nth = value.partition(":")
    if operation not in (ANY, *OPERATIONS):
        rule = f"at must be op:N, or NAME:N with the name of an operation ({', '.join(OPERATIONS)})"
        raise _bad(text, rule, operation, OPERATIONS)
    if not colon:
        raise _bad(text, f"at must be {operation}:N with a number from 1", value)
    return operation, int(_number(text, "nth", nth))


@dataclass(frozen=True)
class Faults:
    """A plan of what goes wrong in a launch; docs/faults.md has a program for each kind.

    Raises:
        ArgumentError: A fault breaks a rule, or two contradict each other.
    """

    specs: str | Sequence[str] = ()
    """The faults, as ``emu run --fault`` has them: ``"kill:pe=3,at=put:5"``. One text may have several, with ``;`` between them."""

    def __post_init__(self) -> None:
        given = [self.specs] if isinstance(self.specs, str) else self.specs
        if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
            raise ArgumentError(
                f"faults must be a text, or a sequence of texts, but got {shown(self.specs)}"
            )
        parts = (part.strip() for text in given for part in text.split(";"))
        object.__setattr__(self, "specs", tuple(part for part in parts if part))
        seen: dict[tuple[object, ...], Fault] = {}
        for fault in self.each:
            other = seen.setdefault(fault.place, fault)
            if other is not fault:
                raise ArgumentError(
                    f"fault {shown(str(fault))}: it must not contradict another one, but there is {shown(str(other))}"
                )

    @cached_property
    def each(self) -> tuple[Fault, ...]:
        """The faults."""
        return tuple(Fault.parse(text) for text in self.specs)

    @classmethod
    def parse(cls, text: str) -> Faults:
        """Return the plan that a text says, as ``EMU_FAULT`` has it.

        Args:
            text: Faults with ``;`` between them, as ``kill:pe=3,at=op:1200;slow:pe=2,x10``. Empty: none.

        Raises:
            ArgumentError: A fault breaks a rule, or two contradict each other.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"fault must be a string, but got {shown(text)}")
        return cls(text)

    @classmethod
    def from_environment(cls) -> Faults | None:
        """Return the plan that ``EMU_FAULT`` has; None: it has none.

        Raises:
            ArgumentError: A fault breaks a rule, or two contradict each other.
        """
        text = environment.fault()
        return cls.parse(text) if text else None

    def check(self, n_pes: int, *, orders: str = "") -> None:
        """Check that the faults can happen in a world.

        Args:
            n_pes: Its number of PEs.
            orders: What else of the launch says when stores arrive; empty: nothing.

        Raises:
            ArgumentError: A PE is not in it, or stores are to be late by two measures.
        """
        for fault in self.each:
            for key, pe in (("from" if fault.to is not None else "pe", fault.pe), ("to", fault.to)):
                if pe is not None and pe >= n_pes:
                    raise _bad(
                        fault.text, f"{key} must be a PE in [0, {n_pes}), one of the launch's", pe
                    )
            if fault.kind == LATE and orders:
                raise ArgumentError(
                    f"fault {shown(fault.text)}: late must not be given with {orders}, which says itself when stores arrive"
                )

    def of(self, pe: int, *kinds: str) -> list[Fault]:
        """Return those of some kinds that happen to a PE, or to what it sends."""
        return [fault for fault in self.each if fault.pe == pe and fault.kind in kinds]
