"""The check and interpreter dialects of StableHLO's tests, for our reference."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from emu.mlir.attributes import ArrayAttr, IntegerAttr, SymbolRefAttr
from emu.mlir.ir import Operation
from emu.stablehlo.reference.devices import Device, run_on_threads
from emu.stablehlo.reference.dtypes import constant_array, is_complex, is_float
from emu.stablehlo.reference.elementwise import total_order
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.values import Array

_ULPS = 3
_ALMOST = 0.001


class Mismatch(Exception):
    """A check of a test does not hold."""


# Checks


def ulps(actual: Array, expected: Array) -> float:
    """Return the largest distance in units of the last place; infinity where only one is NaN."""
    if is_complex(actual.dtype):
        return max(ulps(actual.real, expected.real), ulps(actual.imag, expected.imag))
    if not is_float(actual.dtype):
        return 0.0 if np.array_equal(actual, expected) else np.inf
    nan = np.isnan(actual), np.isnan(expected)
    if not np.array_equal(*nan):
        return np.inf
    # Both zeros are the same place.
    a, b = (
        total_order(np.ascontiguousarray(x[~nan[0]] + x.dtype.type(0))) for x in (actual, expected)
    )
    far = np.abs(a.astype(np.float64) - b.astype(np.float64)) > 2.0**40
    distance = np.where(far, 2**40, np.abs(np.where(far, 0, a) - np.where(far, 0, b)))
    return float(distance.max(initial=0))


def check_close(actual: Array, expected: Array, limit: float = _ULPS) -> None:
    """Raise Mismatch where arrays are more than some units of the last place apart."""
    found = ulps(actual, expected)
    if found > limit:
        raise Mismatch(f"{found:g} ulps apart: {_first(actual, expected)}")


def check_almost(actual: Array, expected: Array) -> None:
    """Raise Mismatch where numbers differ by more than 0.001."""
    wide = np.complex128 if is_complex(actual.dtype) else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    if not np.allclose(a, b, rtol=0, atol=_ALMOST, equal_nan=True):
        raise Mismatch(_first(actual, expected))


def check_equal(actual: Array, expected: Array) -> None:
    """Raise Mismatch where bits differ, but for those of NaN."""
    same = actual == expected
    if is_float(actual.dtype) or is_complex(actual.dtype):
        same |= (actual != actual) & (expected != expected)  # noqa: PLR0124  (NaN of any dtype)
    if not np.all(same):
        raise Mismatch(_first(actual, expected))


def _first(actual: Array, expected: Array) -> str:
    both = np.broadcast_arrays(actual, expected)
    wide = [x.astype(np.complex128 if is_complex(x.dtype) else np.float64) for x in both]
    different = ~np.isclose(wide[0], wide[1], rtol=0, atol=0, equal_nan=True)
    places = np.argwhere(different)
    if not len(places):
        return "equal in double precision"
    place = tuple(places[0])
    return f"{len(places)} of {actual.size}; at {list(map(int, place))} {both[0][place]}, not {both[1][place]}"


_CHECKS = {
    "expect_eq": check_equal,
    "expect_almost_eq": check_almost,
    "expect_close": check_close,
}


def _define_checks() -> None:
    for name, check in _CHECKS.items():

        @handles(f"check.{name}")
        def _(op: Operation, args: Sequence[Array], scope: Scope, check=check) -> Sequence[Array]:
            check(*args)
            return ()

        @handles(f"check.{name}_const")
        def _(op: Operation, args: Sequence[Array], scope: Scope, check=check) -> Sequence[Array]:
            check(args[0], constant_array(op.attribute("value")))
            return ()


def _custom(op: Operation, *args: Array) -> Sequence[Array]:
    name = op.properties["call_target_name"].value.partition(".")[2]  # type: ignore[attr-defined]
    limit = op.attributes.get("max_ulp_difference")
    extra = (limit.value,) if isinstance(limit, IntegerAttr) else ()
    _CHECKS[name](*args, *extra)
    return ()


CUSTOM_CALLS = {f"check.{name}": _custom for name in _CHECKS}


@handles("interpreter.run_parallel")
def _run_parallel(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    table = op.attributes["programs"]
    assert isinstance(table, ArrayAttr)
    rows = [[each.root for each in row.elements if isinstance(each, SymbolRefAttr)]
            for row in table.elements if isinstance(row, ArrayAttr)]  # fmt: skip
    names = [name for row in rows for name in row]
    given, parts = list(args), []
    for name in names:
        count = len(scope.program.function(name).body().arguments)
        parts.append(given[:count])
        del given[:count]

    def run(device: Device) -> list[Array]:
        return scope.program.on(device).call(names[device.process], parts[device.process])

    found = run_on_threads(run, len(rows), len(rows[0]))
    return [each for results in found for each in results]


_define_checks()


def generic(text: str) -> str:
    """Rewrite operations of the check dialect in MLIR's generic form."""
    text = re.sub(
        r"check\.(expect_\w+_const) (%[\w#]+),\s+(dense<.*?>)\s*:\s+(tensor<[^\n]*>)",
        r'"check.\1"(\2) {value = \3 : \4} : (\4) -> ()',
        text,
        flags=re.DOTALL,
    )
    return re.sub(
        r"check\.(expect_\w+) (%[\w#]+), (%[\w#]+)(?:, max_ulp_difference = (\d+))? : (tensor<[^,\n]*>)(?:, tensor<[^\n]*>)?",
        r'"check.\1"(\2, \3) : (\5, \5) -> ()',
        text,
    )
