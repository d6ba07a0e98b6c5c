"""Plugin of pytest that runs every launch twice, compiled and as Python, and compares all memory bit by bit.

``pytest -p triton_interpreted FILES`` is how ``tests/triton/interpreter/test_corpus.py`` uses it. What a test does
is the same as without it: it sees the compiled kernel's results. Differences are collected, and fail the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
from typing import Any

import pytest

from emu.triton.runtime import arguments, interpreting
from emu.triton.runtime.jit import JITFunction

# Tests whose launches may not run twice: threads that write to the same array, and waits for each other.
NOT_TWICE = ("test_threads_launch", "test_spinning", "test_crashes")

COUNTS = {"launches": 0, "same": 0}
DIFFERENT: list[str] = []
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


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    global _test
    _test = request.node.nodeid


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
    terminalreporter.write_line(f"COMPARED {COUNTS['same']} of {COUNTS['launches']}")
