"""The arguments of ``launch``: all are checked before anything is started."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link
from emu.comm.process.input import ALL, NONE
from emu.comm.process.payload import Call, pack

MAX_PES = 1024
MAX_HEAP = 1 << 42


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What was asked for, checked."""

    call: Call
    n_pes: int
    timeout: float
    heap_size: int
    poison: bool
    prefix_output: bool
    link: Link | None
    preload: tuple[str, ...]
    stdin: int | str


def check_launch(fn: Callable[..., Any], n_pes: int, default_timeout: float, **rest: Any) -> Launch:
    """Check every argument of :func:`emu.comm.process.launch.launch` and pack the call.

    Raises:
        ArgumentError: One of them breaks a rule.
    """
    transport, link = rest["transport"], rest["link"]
    if not isinstance(transport, str) or transport != "shm":
        raise ArgumentError(f"transport must be 'shm', but got {transport!r}")
    if link is not None and not isinstance(link, Link):
        raise ArgumentError(f"link must be an emu.Link or None, but got {link!r}")
    if not callable(fn):
        raise ArgumentError(f"fn must be callable, but got {fn!r}")
    given = rest["timeout"]
    checked: dict[str, Any] = {
        "n_pes": _integer("n_pes", n_pes, MAX_PES, f"an integer in [1, {MAX_PES}]"),
        "timeout": default_timeout if given is None else _seconds(given),
        "heap_size": _integer(
            "heap_size", rest["heap_size"], MAX_HEAP, "in [1, 2**42] bytes, an integer"
        ),
        "poison": _flag("poison", rest["poison"]),
        "prefix_output": _flag("prefix_output", rest["prefix_output"]),
        "preload": _modules(rest["preload"]),
    }
    checked["stdin"] = _stdin(rest["stdin"], checked["n_pes"])
    call = pack(fn, _positional(rest["args"]), _named(rest["kwargs"]))
    return Launch(call=call, link=link, **checked)


def _integer(name: str, value: Any, most: int, rule: str) -> int:
    number = _whole(value)
    if number is None or not 1 <= number <= most:
        raise ArgumentError(f"{name} must be {rule}, but got {value!r}")
    return number


def _whole(value: Any) -> int | None:
    """Return an integer, and None for all else; booleans are none."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _seconds(value: Any) -> float:
    seconds = math.nan
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    if not seconds > 0:
        raise ArgumentError(
            f"timeout must be positive (seconds, math.inf for none) or None, but got {value!r}"
        )
    return seconds


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name} must be True or False, but got {value!r}")
    return bool(value)


def _stdin(value: Any, n_pes: int) -> int | str:
    if isinstance(value, str) and value in (ALL, NONE):
        return value
    number = _whole(value)
    if number is None or not 0 <= number < n_pes:
        raise ArgumentError(
            f"stdin must be a PE in [0, {n_pes}), 'all' or 'none', but got {value!r}"
        )
    return number


def _modules(value: Any) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, (Sequence, set, frozenset)) else (None,)
    if isinstance(value, (str, bytes)) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"preload must be a sequence of module names, but got {value!r}")
    return tuple(str(name) for name in names)


def _positional(value: Any) -> tuple[Any, ...]:
    text = isinstance(value, (str, bytes, bytearray, Mapping))
    if not text and hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__"):
        try:
            return tuple(value)
        except TypeError:  # an array without an axis
            pass
    raise ArgumentError(f"args must be a sequence of positional arguments, but got {value!r}")


def _named(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ArgumentError(
            f"kwargs must be a mapping from names to keyword arguments, but got {value!r}"
        )
    return dict(value)
