"""Wrong arguments to functions of the language: an error of ours, or a call that was good; never one from inside."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import random
import re
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import emu.triton.language as tl
from emu.tile import ir
from emu.triton.language.context import Context, building
from emu.triton.language.debugging import StaticAssertionError
from emu.triton.language.extra import libdevice

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "6000"))
OURS = (TypeError, ValueError, NotImplementedError, StaticAssertionError)
FROM_INSIDE = re.compile(
    r"object is not|unsupported operand|not iterable|has no len|object of type|real number|cannot be interpreted|"
    r"unhashable|not subscriptable|can only concatenate|not supported between|indices must|not callable|cannot unpack|"
    r"truth value|bad operand|invalid literal|could not convert|must be str|math domain|nan to integer|__index__"
)
"""How Python words errors of expressions."""
DTYPES = ["int1", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "float8e4nv", "float8e5", "float8e4b15"]  # fmt: skip
SHAPES = [(), (8,), (16,), (4, 8), (16, 16), (32, 32), (2, 4, 8), (1,), (1, 16)]
WORDS = [None, "", "abc", ".ca", "nan", "zero", "relaxed", "gpu", "tf32", "rtne", "all", "add", b"x"]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 4, 8, 16, -1, 1 << 40, 1 << 70, True, False, 0.5, float("nan"), float("inf"), 1e300, 1j]  # fmt: skip
SEQUENCES = [(), (8,), [16], (4, 8), (16, 16), [0, 1], (1, 0), (3,), ("a",), (None,), [[1]], tl.tuple((1, 2))]  # fmt: skip
TYPES = [tl.float32, tl.int8, tl.float8e5, tl.void, tl.pointer_type(tl.int32), tl.int1, int, float, tl.block_type(tl.float32, [8])]  # fmt: skip
OBJECTS = [object(), lambda a, b: a, lambda a: a, max, min, {}, {1: 2}, Ellipsis, slice(0, 2), tl.arange, tl.PropagateNan.ALL, len]  # fmt: skip
METHODS = [
    *("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__and__", "__or__", "__lshift__"),
    *("__rshift__", "__lt__", "__eq__", "__getitem__", "__neg__", "__invert__"),
]  # fmt: skip
PLAIN = {"unflatten", "get_int_dtype", "static_print", "device_print"}
"""Functions that kernels do not call, and those that print."""


def _tensor(rng: random.Random) -> tl.tensor:
    scalar: Any = getattr(tl, rng.choice(DTYPES))
    scalar = tl.pointer_type(scalar) if rng.random() < 0.2 else scalar
    shape = rng.choice(SHAPES)
    type_ = tl.block_type(scalar, list(shape)) if shape else scalar
    return tl.tensor(ir.Value(type_.to_ir()), type_)


def _value(rng: random.Random) -> Any:
    if rng.random() < 0.5:
        return _tensor(rng)
    value = rng.choice(rng.choice([WORDS, NUMBERS, SEQUENCES, TYPES, OBJECTS]))
    return tl.constexpr(value) if rng.random() < 0.2 else value


def _functions() -> dict[str, Any]:
    named = {f"tl.{n}": getattr(tl, n) for n in tl.__all__ if n not in PLAIN}
    named |= {f"libdevice.{n}": getattr(libdevice, n) for n in libdevice.__all__}
    return {n: f for n, f in named.items() if callable(f) and not inspect.isclass(f)}


def _arguments(function: Any, rng: random.Random) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [_value(rng) for _ in range(rng.randrange(3))]
        elif parameter.kind is parameter.VAR_KEYWORD or parameter.name.startswith("_"):
            continue
        elif parameter.default is parameter.empty:
            positional.append(_value(rng))
        elif rng.random() < 0.35:
            keywords[parameter.name] = _value(rng)
    return positional, keywords


def _problem(call: Any) -> str | None:
    """Return what is wrong with how a call ends."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            call()
    except OURS as error:
        if not FROM_INSIDE.search(str(error)):
            return None
        found: Exception = error
    except Exception as error:  # noqa: BLE001 - whatever comes is a finding
        found = error
    else:
        return None
    place = traceback.extract_tb(found.__traceback__)[-1]
    return f"{type(found).__name__}: {found!s:.200} ({place.filename}:{place.lineno})"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_functions_refuse_wrong_arguments_in_their_own_words() -> None:
    rng, functions = random.Random(18), _functions()
    names, problems = sorted(functions), {}
    for _ in range(CALLS):
        name = rng.choice(names)
        positional, keywords = _arguments(functions[name], rng)
        with building(Context(ir.Builder(), ir.Module())):
            problem = _problem(lambda n=name, p=positional, k=keywords: functions[n](*p, **k))
        if problem is not None:
            problems[f"{name} {problem}"] = f"{[str(p) for p in positional]} {keywords}"
    assert not problems, "\n".join(f"{k}\n    {v:.300}" for k, v in problems.items())


@pytest.mark.parametrize("method", METHODS)
def test_operators_refuse_wrong_operands_in_their_own_words(method: str) -> None:
    rng, problems = random.Random(18), set()
    for _ in range(max(100, CALLS // 20)):
        x, other = _tensor(rng), _value(rng)
        operands = [] if method in ("__neg__", "__invert__") else [other]
        with building(Context(ir.Builder(), ir.Module())):
            problem = _problem(lambda x=x, o=operands: getattr(x, method)(*o))
        problems |= {f"{problem}: {x}, {other!r:.60}"} if problem else set()
    assert not problems, "\n".join(sorted(problems)[:20])
