"""Plugin of pytest that runs every launch twice, compiled and as Python, and compares all memory bit by bit.

``pytest -p triton_interpreted FILES`` is how ``tests/triton/interpreter/test_corpus.py`` uses it. What a test does
is the same as without it: it sees the compiled kernel's results. Differences are collected and printed. Functions
of the language that ``language_harness`` evaluates are compared with native code, too, at most
``EMU_INTERPRETED_EVALUATIONS`` of each test function, whatever its parameters (each is compiled for that). One test
in ``EMU_INTERPRETED_EVERY`` runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from campaigns import keep_one_in

import emu.triton.language as tl
from emu.triton.language.constants import constexpr_type
from emu.triton.language.context import Context, building
from emu.triton.runtime import arguments, interpreting
from emu.triton.runtime.jit import JITFunction

# Tests whose launches may not run twice: threads that write to the same array, and waits for each other.
NOT_TWICE = (
    *("test_threads_launch", "test_spinning", "test_crashes"),
    "test_a_loop_of_loads_sees_what_others_write",
    # Code of single threads: interpreted programs have tiles, and no branch that threads take differently.
    *("codegen/test_threads.py", "assembly/test_warps.py"),
    *("language/test_variation.py", "language/test_vectors.py"),
)

LIMIT = int(os.environ.get("EMU_INTERPRETED_EVALUATIONS", "0"))
EVERY = int(os.environ.get("EMU_INTERPRETED_EVERY", "1"))
COUNTS = {"launches": 0, "same": 0, "evaluations": 0, "equal": 0}
DIFFERENT: list[str] = []
_EVALUATED: dict[str, int] = {}
_test = "?"


def _spans(bound: dict[str, Any]) -> list[tuple[str, int, int]]:
    with arguments.torch_guard():
        found = [e for n, v in bound.items() for e in interpreting._extents(n, v)]
    return [(e.name, e.first, e.behind - e.first) for e in found if not e.read_only]


def _save(spans: list[tuple[str, int, int]]) -> list[bytes]:
    return [ctypes.string_at(address, size) for _, address, size in spans]


def _restore(spans: list[tuple[str, int, int]], saved: list[bytes]) -> None:
    for (_, address, size), data in zip(spans, saved, strict=True):
        ctypes.memmove(address, data, size)


def _twice(function: JITFunction[Any], launch: Any, grid: Any, *args: Any, **kwargs: Any) -> Any:
    plain = (
        any(n in _test for n in NOT_TWICE)
        or grid is None
        or kwargs.get("interpret")
        or function.interpret
    )
    try:
        bound = function.signature.bind(
            *args, **{k: v for k, v in kwargs.items() if k in function.arg_names}
        )
    except TypeError:
        plain = True
    if plain or interpreting.knobs.runtime.interpret:
        return launch(grid, *args, **kwargs)
    bound.apply_defaults()
    try:
        spans = _spans(bound.arguments)
    except Exception:  # noqa: BLE001 - the launch itself says what is wrong with an argument
        return launch(grid, *args, **kwargs)
    before = _save(spans)
    result = launch(grid, *args, **kwargs)
    after = _save(spans)
    _restore(spans, before)
    COUNTS["launches"] += 1
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            launch(grid, *args, **{**kwargs, "interpret": True})
        interpreted = _save(spans)
        names = [s[0] for s, a, b in zip(spans, after, interpreted, strict=True) if a != b]
        if names:
            DIFFERENT.append(f"{_test}: {function.__name__}: bits of {', '.join(names)} differ")
        else:
            COUNTS["same"] += 1
    except BaseException as error:  # noqa: BLE001 - reported with the test's name
        said = f"{type(error).__name__}: {error}"[:300]
        DIFFERENT.append(f"{_test}: {function.__name__}: {said}")
    finally:
        _restore(spans, after)
    return result


def _interpreted(harness: Any, function: Any, given: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Return what a function of the language gives for arrays, each operation evaluated at once."""
    from emu.tile import ir
    from emu.triton.interpreter.evaluation import Evaluator
    from emu.triton.interpreter.memory import Memory
    from emu.triton.interpreter.tensors import Known

    def known(type_: Any, array: Any) -> Any:
        return tl.tensor(Known(type_.to_ir(), array), type_)

    def take(x: Any) -> Any:
        if isinstance(x, harness.Pointer):
            element = tl.pointer_type(tl.dtype(harness.NAMES[x.array.dtype]))
            return known(element, np.asarray(x.array.ctypes.data, np.uint64))
        if isinstance(x, harness.Scalar):
            return known(tl.dtype(x.dtype), np.asarray(x.value, harness.DTYPES[x.dtype]))
        if not isinstance(x, np.ndarray):
            return x
        element = tl.dtype(harness.NAMES[x.dtype])
        return known(tl.block_type(element, list(x.shape)) if x.ndim else element, x)

    evaluator = Evaluator((0, 0, 0), (1, 1, 1), Memory([]), lambda *_: None)
    context = Context(evaluator, ir.Module(), lambda f, a: f(*a))
    with building(context):
        found = []
        for t in harness.tensors_of(function(*map(take, given))):
            made = t.to(tl.int64) if t.dtype.is_ptr() else t
            found.append(np.broadcast_to(made.handle.array, t.type.shape))
        return found


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Return whether arrays have the same bits, but for the bits of NaNs."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    size = f"u{a.dtype.itemsize}"
    equal = np.ascontiguousarray(a).view(size) == np.ascontiguousarray(b).view(size)
    nans = np.not_equal(a, a) & np.not_equal(b, b)
    return bool((equal | nans).all())


def _compared(harness: Any, evaluate: Any, function: Any, *given: Any, **options: Any) -> Any:
    """Evaluate as the test wants it, and compare native code with Python."""
    kept = [g.array.copy() if isinstance(g, harness.Pointer) else None for g in given]
    result = evaluate(function, *given, **options)
    function_of_test = _test.partition("[")[0]
    done = _EVALUATED.get(function_of_test, 0)
    plain = any(n in _test for n in NOT_TWICE)
    if plain or options.get("grid", (1,)) != (1,) or done >= LIMIT:
        return result
    _EVALUATED[function_of_test] = done + 1
    after = [g.array.copy() if isinstance(g, harness.Pointer) else None for g in given]

    def reset(arrays: Sequence[Any]) -> None:
        for g, array in zip(given, arrays, strict=True):
            if array is not None:
                g.array[...] = array

    COUNTS["evaluations"] += 1
    try:
        reset(kept)
        native = evaluate(function, *given, native=True)
        written = [g.array.copy() for g in given if isinstance(g, harness.Pointer)]
        reset(kept)
        mine = [*_interpreted(harness, function, given)]
        mine += [g.array.copy() for g in given if isinstance(g, harness.Pointer)]
        wanted = [*(native if isinstance(native, list) else [native]), *written]
        if len(mine) == len(wanted) and all(map(_same, mine, wanted)):
            COUNTS["equal"] += 1
        else:
            DIFFERENT.append(f"{_test}: evaluation: {mine} for {wanted}"[:400].replace("\n", " "))
    except BaseException as error:  # noqa: BLE001 - reported with the test's name
        DIFFERENT.append(f"{_test}: evaluation: {type(error).__name__}: {error}"[:300])
    finally:
        reset(after)
    return result


@contextlib.contextmanager
def compared(
    compiled: Any, arguments: Sequence[Any], grid: Sequence[int], constants: Any, given: Any
) -> Iterator[None]:
    """After the block has run a module, compare its native code with its kernel that runs as Python.

    Args:
        compiled: The kernel and its module.
        arguments: The kernel's, arrays among them.
        grid: Extents of the grid.
        constants: Its constants.
        given: The function that gives the type of an argument, and the module's arguments.
    """
    from emu.tile import cpu
    from emu.triton.interpreter import grid as programs

    (kernel, module), (type_of, flat) = compiled, given
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    yield
    kept = [a.copy() for a in arrays]
    x, y, z = (*grid, 1, 1)[:3]

    def reset(to: Sequence[Any]) -> None:
        for array, old in zip(arrays, to, strict=True):
            array[...] = old

    def packed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.ctypes.data
        return tuple(map(packed, value)) if isinstance(value, tuple) else value

    def typed(value: Any) -> Any:
        found = type_of(value)
        return constexpr_type(found.value) if isinstance(found, tl.constexpr) else found

    names = [p.name for p in kernel.params if p.name not in constants]
    types = {n: typed(a) for n, a in zip(names, arguments, strict=False)}
    types |= {n: constexpr_type(v) for n, v in constants.items()}
    types |= {p.name: constexpr_type(p.default) for p in kernel.params if p.name not in types}
    values = {n: packed(a) for n, a in zip(names, arguments, strict=False)}
    COUNTS["launches"] += 1
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            reset(before)
            cpu.compile(module).bind(1)(x, y, z, flat)
            after = [a.copy() for a in arrays]
            reset(before)
            said = programs.run(programs.Launch(kernel, types, values, (), (x, y, z)))
        if said is None and all(map(_same, arrays, after)):
            COUNTS["same"] += 1
        else:
            DIFFERENT.append(f"{_test}: {said or 'bits differ'}"[:300].replace("\n", " "))
    except BaseException as error:  # noqa: BLE001 - reported with the test's name
        DIFFERENT.append(f"{_test}: {type(error).__name__}: {error}"[:300].replace("\n", " "))
    finally:
        reset(kept)


def pytest_collect_file() -> None:
    """Compare what ``language_harness`` evaluates, once it is there."""
    harness = sys.modules.get("language_harness")
    if harness is not None and not isinstance(harness.evaluate, functools.partial):
        harness.evaluate = functools.partial(_compared, harness, harness.evaluate)  # type: ignore[attr-defined]  # of a file


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    global _test
    _test = request.node.nodeid


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep_one_in(EVERY, config, items)


def pytest_configure(config: pytest.Config) -> None:
    """Let every launch run twice."""
    made = JITFunction.__dict__["_launch"].func

    def doubled(self: JITFunction[Any]) -> Any:
        return functools.partial(_twice, self, made(self))

    patched = functools.cached_property(doubled)
    patched.__set_name__(JITFunction, "_launch")
    JITFunction._launch = patched  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was compared."""
    for line in DIFFERENT:
        terminalreporter.write_line(f"DIFFERENT {line}")
    for what, same, all_ in (
        ("launches", "same", "launches"),
        ("evaluations", "equal", "evaluations"),
    ):
        terminalreporter.write_line(f"COMPARED {what}: {COUNTS[same]} of {COUNTS[all_]}")
