"""A seeded fuzzer for public functions: wrong arguments must end in errors that help, and change nothing.

A `Target` says how a function is called well. The fuzzer takes such a call, replaces one or two of its
arguments by values that are wrong, or nearly right, and makes the call. What may happen:

* The call returns: the new value was good after all.
* It raises one of the room's errors, whose text names an argument that was replaced, and the state (memory,
  signals, counters: whatever `state` returns, and arrays among the arguments) is bit for bit what it was.
* Python itself refuses the call because the arguments do not fit the signature.

All else is a `Finding`. Calls are a pure function of the seed: a finding can be made again alone.
"""

from __future__ import annotations

import inspect
import random
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, kw_only=True)
class Target:
    """A public function, and how to call it well.

    Attributes:
        name: What findings call it.
        function: The function, or a bound method.
        arguments: Makes the keyword arguments of a good call, fresh each time.
        positional: The arguments that are passed by position, in order.
        also: Words that an error may use instead of an argument's name: ``{"value": ("sig_op",)}``.
        keep: Arguments that are never replaced.
    """

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    positional: tuple[str, ...] = ()
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Finding:
    """A call that ended as it must not."""

    target: str
    problem: str
    call: str
    where: str

    def __str__(self) -> str:
        return f"{self.target}: {self.problem}\n    {self.call}\n    {self.where}"


@dataclass
class Report:
    """How the calls ended."""

    calls: int = 0
    returned: int = 0
    refused: int = 0
    findings: list[Finding] = field(default_factory=list)

    def check(self) -> None:
        """Fail with the findings, one of each kind, if there are any."""
        kinds = {(f.target, f.problem.split(":")[0], f.where): f for f in self.findings}
        text = "\n".join(str(finding) for finding in list(kinds.values())[:25])
        assert not self.findings, f"{len(self.findings)} of {self.calls} calls:\n{text}"
        assert self.refused, "no call was refused: the fuzzer does not reach the checks"


class Opaque:
    """An object that supports nothing."""

    def __repr__(self) -> str:
        return "Opaque()"


def wrong_values() -> list[Any]:
    """Return values of every kind, fresh: most are wrong wherever they are put."""
    ragged: list[Any] = [[1], [2, 3]]
    return [
        None, True, False, 0, 1, -1, 2, 3, 7, 64, 1 << 31, -(1 << 31), 1 << 40, 1 << 63, 1 << 64, -(1 << 70),
        0.0, 0.5, -1.5, float("nan"), float("inf"), -float("inf"), 1e300, 1 + 2j,
        "", "1", "sum", "float32", "nonsense", "é\0", "\udc80", "x" * 5000, b"", b"bytes", bytearray(3),
        (), [], {}, set(), (1,), [1, 2], (-1, 0), (1 << 40, 1 << 40), [None], ["a"], ragged, {"a": 1}, range(3),
        np.int8(3), np.int64(-2), np.uint64(1 << 63), np.float32(2.5), np.bool_(True), np.str_("x"),
        np.zeros(0), np.zeros(()), np.zeros((2, 3), np.int32), np.ones(4, np.float16), np.zeros(3, np.complex64),
        np.array(["a", "b"]), np.array([None, {}], object), np.zeros(2, "datetime64[s]"),
        np.zeros(2, [("a", "i4")]), np.zeros(3, ml_dtypes.bfloat16), np.zeros((1,) * 12, np.int8),
        np.float32, np.dtype(np.float64), np.dtype("V3"), int, Opaque(), Opaque, object(), len, lambda: None,
        iter([1, 2]), slice(0, 2), Ellipsis, NotImplemented, ValueError("x"), Path("/nowhere/at/all"), memoryview(b"ab"),
    ]  # fmt: skip


def _neighbours(value: Any, rng: random.Random) -> list[Any]:
    """Return values that look like ``value`` and are nearly right."""
    if isinstance(value, bool):
        return [not value, int(value), str(value)]
    if isinstance(value, (int, np.integer)):
        number = int(value)
        return [
            number + 1,
            number - 1,
            -number - 1,
            float(number),
            str(number),
            [number],
            np.int32(number & 0xFF),
        ]
    if isinstance(value, float):
        return [-value, value * 1e30, int(value), str(value), np.float32(value), [value]]
    if isinstance(value, str):
        return [value.upper() + "_", value + " ", value[:-1], value.encode(), [value], list(value)]
    if isinstance(value, np.ndarray):
        return _near_arrays(value, rng)
    if isinstance(value, (tuple, list)):
        items = list(value)
        return [items[:-1], [*items, *items[:1]], [items], [str(i) for i in items], [None] * len(items), iter(items), None,
                [i + 0.5 if isinstance(i, int) else i for i in items], [-i - 1 if isinstance(i, int) else i for i in items]]  # fmt: skip
    if isinstance(value, dict):
        return [list(value), {**value, "unknown": 1}, {1: 2}]
    return []


def _near_arrays(array: np.ndarray[Any, Any], rng: random.Random) -> list[Any]:
    other = rng.choice(
        [
            np.int8,
            np.uint16,
            np.int64,
            np.float16,
            np.float64,
            np.complex128,
            np.bool_,
            object,
            "U3",
            "M8[s]",
        ]
    )
    frozen = array.copy()
    frozen.flags.writeable = False
    with np.errstate(all="ignore"):
        try:
            cast: Any = array.astype(other)
        except (TypeError, ValueError):
            cast = np.full(array.shape, "text")
    near = [
        cast, frozen, array.tolist(), array[None], array[..., None], array[:0] if array.ndim else array[None],
        array.T, np.concatenate([array, array]) if array.ndim else array, array.astype(array.dtype, order="F"),
        np.ma.masked_array(array.astype(np.float64) if array.dtype.kind in "biu" else np.zeros(array.shape)),
    ]  # fmt: skip
    if array.dtype.itemsize > 1 and array.dtype.kind in "iuf":
        near.append(array.astype(array.dtype.newbyteorder()))
    if array.ndim and array.shape[-1] > 1:
        near += [array[..., ::-1], array[..., :-1], array[..., ::2]]
    return near


class Fuzzer:
    """Calls targets with wrong arguments.

    Args:
        targets: What is called.
        errors: The errors that the room may raise for bad arguments.
        seed: Of all choices.
        state: Returns what an error must leave as it was, as bytes or anything that compares equal.
        extra: Makes more values to put in the place of arguments, for the room's own types.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        errors: tuple[type[BaseException], ...],
        *,
        seed: int,
        state: Callable[[], Any] | None = None,
        extra: Callable[[], Iterable[Any]] | None = None,
    ) -> None:
        self.targets = list(targets)
        self.errors = errors
        self.rng = random.Random(seed)
        self.state = state
        self.extra = extra
        self.report = Report()

    def run(self, calls: int) -> Report:
        """Make ``calls`` calls, each target in its turn, and return how they ended."""
        for number in range(calls):
            self.call(self.targets[number % len(self.targets)])
        return self.report

    def call(self, target: Target) -> None:
        """Make one call with one or two arguments replaced."""
        arguments = target.arguments()
        names = [name for name in arguments if name not in target.keep]
        replaced = self.rng.sample(names, min(len(names), 1 if self.rng.random() < 0.8 else 2))
        for name in replaced:
            near = _neighbours(arguments[name], self.rng) if self.rng.random() < 0.5 else []
            pool = near or [*wrong_values(), *(self.extra() if self.extra is not None else ())]
            arguments[name] = self.rng.choice(pool)
        text = f"{target.name}({', '.join(f'{n}={_short(v)}' for n, v in arguments.items())})"
        positional = [arguments.pop(name) for name in target.positional]
        arrays = [
            (value, value.tobytes())
            for value in (*positional, *arguments.values())
            if isinstance(value, np.ndarray) and not value.dtype.hasobject
        ]
        before = self.state() if self.state is not None else None
        self.report.calls += 1
        try:
            target.function(*positional, **arguments)
        except self.errors as error:
            self.report.refused += 1
            words = [word for name in replaced for word in (name, *target.also.get(name, ()))]
            if not any(word in str(error) for word in words):
                self._find(target, f"names none of {words}: {_short(error)}", text, error)
            same = all(value.tobytes() == content for value, content in arrays)
            if not same or (self.state is not None and self.state() != before):
                self._find(target, "the state changed, and then it raised", text, error)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            if not _refused_by_python(target, positional, arguments):
                self._find(target, f"raw {type(error).__name__}: {error}"[:300], text, error)
        else:
            self.report.returned += 1

    def _find(self, target: Target, problem: str, call: str, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        self.report.findings.append(Finding(target.name, problem, call, where))


def _refused_by_python(target: Target, positional: list[Any], arguments: dict[str, Any]) -> bool:
    try:
        inspect.signature(target.function).bind(*positional, **arguments)
    except TypeError:
        return True
    except ValueError:  # it has no signature
        return False
    return False


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot be shown is still a value
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:150]}… ({len(text)} characters)"


__all__ = ["Finding", "Fuzzer", "Opaque", "Report", "Target", "wrong_values"]
