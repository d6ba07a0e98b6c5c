"""The check and interpreter dialects of StableHLO's tests, for our reference."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

import emu.sdy
from emu.mlir.attributes import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, SymbolRefAttr
from emu.mlir.floats import value_of
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


def check_almost(actual: Array, expected: Array, tolerance: float = _ALMOST) -> None:
    """Raise Mismatch where numbers differ by more than a tolerance."""
    wide = np.complex128 if is_complex(actual.dtype) else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    if not np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True):
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
            check(*args, *_limits(op))
            return ()

        @handles(f"check.{name}_const")
        def _(op: Operation, args: Sequence[Array], scope: Scope, check=check) -> Sequence[Array]:
            check(args[0], constant_array(op.attribute("value")), *_limits(op))
            return ()


def _limits(op: Operation) -> list[float]:
    """Return the tolerance that a check names, if it names one."""
    found = op.attributes.get("tolerance")
    return [float(value_of(found.bits, str(found.type)))] if isinstance(found, FloatAttr) else []


def _custom(op: Operation, *args: Array) -> Sequence[Array]:
    name = op.properties["call_target_name"].value.partition(".")[2]  # type: ignore[attr-defined]
    limit = op.attributes.get("max_ulp_difference")
    extra = (limit.value,) if isinstance(limit, IntegerAttr) else ()
    _CHECKS[name](*args, *extra)
    return ()


CUSTOM_CALLS = {f"check.{name}": _custom for name in _CHECKS}


@handles("interpreter.run_parallel")
def _run_parallel(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    queue = op.attributes.get("infeed")
    for each in queue.elements if isinstance(queue, ArrayAttr) else ():
        assert isinstance(each, SymbolRefAttr)
        scope.program.streams.infeed.append(scope.program.call(each.root, []))
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


# Values that a program shows


@handles("interpreter.print")
def _print(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    # What is printed is FileCheck's matter; here the program must only get so far.
    return ()


_probed: dict[str, list[Array]] = {}
"""Values by the name of their probe, one per time that it was reached."""


def _text(op: Operation, name: str) -> str:
    found = op.attributes[name]
    assert isinstance(found, StringAttr)
    return found.value


@handles("interpreter.probe")
def _probe(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    # A copy: a compiled program uses its buffers again.
    _probed.setdefault(_text(op, "probe_id"), []).append(args[0].copy())
    return args


@handles("check.expect_serialized_eq")
def _serialized(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    time = op.attributes.get("iter")
    values = _probed.get(_text(op, "probe_id"), [])
    index = time.value if isinstance(time, IntegerAttr) else 0
    if index >= len(values):
        raise Mismatch(f"probe {_text(op, 'probe_id')} was reached {len(values)} times")
    check_equal(args[0], values[index])
    return ()


_define_checks()


_TYPE = r"(tensor<[^,\n]*>)"
_LIMIT = r"(?:, max_ulp_difference = \d+)?(?:, (tolerance = \S+))?"
_FORMS = (
    # A constant's type may hold more brackets; it ends the line, but for a tolerance.
    (
        r"check\.(expect_\w+_const) (%[\w#]+),\s+(dense<.*?>)\s*:\s+(tensor<[^\n{]*>)(?: \{(tolerance = [^}]*)\})?",
        r'"check.\1"(\2) {value = \3 : \4, \5} : (\4) -> ()',
    ),
    (
        rf"check\.expect_serialized_eq (%[\w#]+), (probe_id = [^:]*?) : {_TYPE}",
        r'"check.expect_serialized_eq"(\1) {\2} : (\3) -> ()',
    ),
    (
        rf"check\.(expect_\w+) (%[\w#]+), (%[\w#]+){_LIMIT} : {_TYPE}(?:, tensor<[^\n]*>)?",
        r'"check.\1"(\2, \3) {\4} : (\5, \5) -> ()',
    ),
    (
        rf"interpreter\.probe (%[\w#]+), (probe_id = \"[^\"]*\") : {_TYPE}",
        r'"interpreter.probe"(\1) {\2} : (\3) -> \3',
    ),
    (rf"interpreter\.print (%[\w#]+) : {_TYPE}", r'"interpreter.print"(\1) : (\2) -> ()'),
)


def generic(text: str) -> str:
    """Rewrite operations of the check and interpreter dialects in MLIR's generic form."""
    for pattern, form in _FORMS:
        text = re.sub(pattern, form, text, flags=re.DOTALL)
    return text.replace(", } :", "} :")


def inputs_of(text: str) -> list[Array]:
    """Return the arguments that a file's first command line gives to its main function."""
    found = re.search(r'^// RUN: stablehlo-translate .*--args="\[(.*?)\]"', text, re.MULTILINE)
    if found is None:
        return []
    values = re.findall(r"dense<[^>]*> : tensor<[^>]*>", found[1])
    lines = [f"%{i} = stablehlo.constant {value}" for i, value in enumerate(values)]
    body = emu.sdy.parse("func.func @f() {\n" + "\n".join(lines) + "\nreturn\n}").body()
    constants = body.operations[0].body().operations[:-1]
    return [np.array(constant_array(op.properties["value"])) for op in constants]
