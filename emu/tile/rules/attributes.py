"""Attributes of each operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from emu.tile import machine
from emu.tile.ir import Operation
from emu.tile.ops import ORDERS, SCOPES, Code
from emu.tile.rules.demands import (
    Broken,
    need,
    whole,
)

Tests: TypeAlias = dict[str, tuple[Callable[[object], bool], str]]


def _truth(value: object) -> bool:
    return isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _wholes(value: object) -> bool:
    return isinstance(value, tuple) and all(map(whole, value))


_AXIS: Tests = {"axis": (whole, "an int")}
_ORDER: Tests = {
    "order": (lambda v: v in ORDERS, f"one of {ORDERS}"),
    "scope": (lambda v: v in SCOPES, f"one of {SCOPES}"),
}
_NAN: Tests = {"propagate_nan": (_truth, "a bool")}

REQUIRED: dict[Code, Tests] = {
    Code.CONSTANT: {"value": (lambda v: isinstance(v, bool | int | float), "a number")},
    Code.PROGRAM_ID: _AXIS,
    Code.NUM_PROGRAMS: _AXIS,
    Code.ARANGE: {"start": (whole, "an int"), "end": (whole, "an int")},
    Code.PERMUTE: {"order": (_wholes, "a tuple of ints")},
    Code.CAT: _AXIS,
    Code.GATHER: _AXIS,
    Code.FLIP: _AXIS,
    Code.ATOMIC_RMW: {"kind": (_text, "a string")},
    Code.CALL: {"callee": (_text, "a string")},
    Code.REDUCE: _AXIS,
    Code.SCAN: _AXIS,
    Code.HISTOGRAM: {"bins": (whole, "an int")},
    Code.ASSERT: {"message": (_text, "a string")},
    Code.PRINT: {"prefix": (_text, "a string")},
    Code.OBSERVE: {"site": (whole, "an int")},
    Code.MACHINE_WORD: {"what": (lambda v: v in machine.WORDS, f"one of {tuple(machine.WORDS)}")},
    Code.MACHINE_CALL: {"what": (lambda v: v in machine.CALLS, f"one of {tuple(machine.CALLS)}")},
}
"""Attributes that must be there, with a test and what it demands."""

OPTIONAL: dict[Code, Tests] = {
    Code.CAST: {"rounding": (lambda v: v in ("rtne", "rtz"), '"rtne" or "rtz"')},
    Code.MIN: _NAN,
    Code.MAX: _NAN,
    Code.SCAN: {"reverse": (_truth, "a bool")},
    Code.DOT: {"native": (_truth, "a bool")},
    Code.ASSERT: {"names": (_text, "a string")},
    Code.PRINT: {"hex": (_truth, "a bool")},
    Code.BARRIER: {"fence": (_truth, "a bool")},
    Code.LOAD: {**_ORDER, "machine": (_truth, "a bool")},
    Code.OBSERVE: {"native": (_truth, "a bool")},
    Code.STORE: {**_ORDER, "machine": (_truth, "a bool")},
    Code.ATOMIC_RMW: _ORDER,
    Code.ATOMIC_CAS: _ORDER,
}
"""Attributes that may be there."""


def check_attributes(o: Operation) -> None:
    """Check that an operation has the attributes of its code, and no others."""
    required, optional = REQUIRED.get(o.code, {}), OPTIONAL.get(o.code, {})
    for name, (test, what) in {**required, **optional}.items():
        if name not in o.attributes:
            need(name not in required, f"it must have the attribute {name}")
        elif not test(o.attributes[name]):
            raise Broken(f"{name} must be {what}, but got {o.attributes[name]!r}")
    for name in o.attributes:
        need(name in required or name in optional, f"it has no attribute {name}")
