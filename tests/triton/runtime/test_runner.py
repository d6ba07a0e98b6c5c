"""Launches as Triton's own launchers make them: ``kernel.run`` with all arguments, and kernels sent to another process."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.compiler import ASTSource, CompiledKernel
from emu.triton.errors import OutOfBoundsError
from emu.triton.runtime import jit


@triton.jit
def scale(x_ptr, y_ptr, factor, n, offset, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask) * factor + offset, mask)


SIGNATURE = {
    "x_ptr": "*fp32",
    "y_ptr": "*fp32",
    "factor": "fp32",
    "n": "i32",
    "offset": "i32",
    "BLOCK": "constexpr",
}
HEAD = (0, None, None, None, None, None)  # stream, function, what the kernel says of itself, hooks


def compiled(**constants: object) -> CompiledKernel:
    signature = SIGNATURE | dict.fromkeys(constants, "constexpr")
    kernel = triton.compile(ASTSource(scale, signature, {"BLOCK": 64, **constants}))
    kernel._init_handles()
    return kernel


def arrays(n: int = 100) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(n, dtype=np.float32), np.full(n, -1, np.float32)


def test_all_arguments_are_given_constants_included() -> None:
    torch = pytest.importorskip("torch")
    x, y = arrays()
    for given, result in (((x, y), y), (tuple(map(torch.from_numpy, (x, y))), y)):
        result[:] = -1
        compiled().run(2, 1, 1, *HEAD, *given, 0.5, 100, 3, 64)
        np.testing.assert_array_equal(result, x * np.float32(0.5) + 3)


def test_a_value_that_became_part_of_the_kernel_is_not_passed() -> None:
    x, y = arrays()
    compiled(offset=7).run(2, 1, 1, *HEAD, x, y, 2.0, 100, 12345, 64)
    np.testing.assert_array_equal(y, x * 2 + 7)


def test_a_grid_without_programs_launches_nothing() -> None:
    x, y = arrays()
    for grid in ((0, 1, 1), (1, 0, 1), (2, 1, 0)):
        compiled().run(*grid, *HEAD, x, y, 2.0, 100, 0, 64)
    assert (y == -1).all()
    with pytest.raises(ValueError, match=r"extents of the grid must be in \[0, 2\*\*31\)"):
        compiled().run(-1, 1, 1, *HEAD, x, y, 2.0, 100, 0, 64)


@pytest.mark.parametrize(
    ("at", "value", "error", "text"),
    [
        (0, 1.5, TypeError, r"x_ptr of kernel scale must be \*fp32"),
        (0, "x", TypeError, "str"),
        (
            3,
            2**31,
            OverflowError,
            "n of kernel scale must fit into its type, i32, but got 2147483648",
        ),
        (
            3,
            "many",
            TypeError,
            "n of kernel scale must be an integer, as its type is i32, but got str",
        ),
        (3, 1.5, TypeError, "n of kernel scale must be an integer"),
        (2, "much", TypeError, "factor of kernel scale must be a number, but got str"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    at: int, value: object, error: type[Exception], text: str
) -> None:
    torch = pytest.importorskip("torch")
    x, y = arrays()
    for made in ((x, y), tuple(map(torch.from_numpy, (x, y)))):
        given: list[object] = [*made, 2.0, 100, 0, 64]
        given[at] = value
        with pytest.raises(error, match=text):
            compiled().run(2, 1, 1, *HEAD, *given)
    assert (y == -1).all()


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"scale\.run\(\) missing .*BLOCK"):
        compiled().run(2, 1, 1, *HEAD, *arrays(), 2.0, 100, 0)


def test_hooks_of_the_call_and_of_the_knobs_are_each_called_once() -> None:
    told: list[object] = []
    x, y = arrays()

    def entered(metadata: object) -> None:
        told.append(("enter", metadata))

    def left(metadata: object) -> None:
        told.append(("exit", metadata))

    compiled().run(2, 1, 1, 0, None, None, "facts", entered, left, x, y, 2.0, 100, 0, 64)
    assert told == [("enter", "facts"), ("exit", "facts")]
    told.clear()
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.launch_enter_hook = entered
        hook = triton.knobs.runtime.launch_enter_hook
        compiled().run(2, 1, 1, 0, None, None, "facts", hook, None, x, y, 2.0, 100, 0, 64)
    assert len(told) == 1


@pytest.fixture
def bounds_are_checked() -> Iterator[None]:
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.check = "bounds"
        yield


@pytest.mark.usefixtures("bounds_are_checked")
def test_kernels_are_checked_where_the_knob_says_so() -> None:
    x, y = arrays()
    compiled().run(2, 1, 1, *HEAD, x, y, 2.0, 100, 0, 64)
    with pytest.raises(OutOfBoundsError, match="x_ptr"):
        compiled().run(2, 1, 1, *HEAD, x, y, 2.0, 128, 0, 64)


def test_a_check_of_races_needs_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.check = "race"
        kernel = compiled()
    monkeypatch.setattr(scale, "fn", None)  # as of a kernel that another process has sent
    x, y = arrays()
    with pytest.raises(ValueError, match=r"kernel scale must have its function .* check='race'"):
        kernel.run(2, 1, 1, *HEAD, x, y, 2.0, 100, 0, 64)
    assert (y == -1).all()


def test_a_kernel_goes_to_another_process_as_its_content(tmp_path: Path) -> None:
    kernel = compiled()
    sent = {**kernel.__dict__, "module": None, "function": None, "run": None}
    parts = (scale.fn, scale.__globals__, scale.used_global_vals)
    try:  # what Inductor does before it sends a kernel
        scale.fn = scale.__globals__ = scale.used_global_vals = None  # type: ignore[assignment]
        text = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL)
    finally:
        scale.fn, scale.__globals__, scale.used_global_vals = parts
    Path(tmp_path, "kernel").write_bytes(text)
    program = """
        import pickle, sys
        import numpy as np
        from emu.triton.compiler import CompiledKernel
        kernel = CompiledKernel.__new__(CompiledKernel)
        kernel.__dict__.update(pickle.load(open(sys.argv[1], "rb")))
        kernel._init_handles()
        assert kernel.src.fn.arg_names[-1] == "BLOCK" and kernel.from_disk
        x, y = np.arange(100, dtype=np.float32), np.empty(100, np.float32)
        kernel.run(2, 1, 1, 0, None, None, None, None, None, x, y, 0.5, 100, 3, 64)
        assert (y == x * 0.5 + 3).all()
        print("the same")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "kernel")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "the same", done.stderr


def test_a_kernel_that_was_only_unpickled_is_loaded_by_its_first_launch() -> None:
    kernel = compiled()
    sent = {**kernel.__dict__, "module": None, "function": None, "run": None}
    again = CompiledKernel.__new__(CompiledKernel)
    again.__dict__.update(sent)
    x, y = arrays()
    again[(2,)](x, y, 2.0, 100, 0)
    np.testing.assert_array_equal(y, x * 2)
    assert again.module is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = again.nothing
    with pytest.raises(AttributeError, match="launch"):
        _ = CompiledKernel.__new__(CompiledKernel).launch


def test_a_kernel_without_its_function_keeps_what_launches_need() -> None:
    described = jit._described({n: v for n, v in vars(scale).items() if n in jit._SENT})
    assert described.arg_names == scale.arg_names
    assert [p.is_constexpr for p in described.params] == [p.is_constexpr for p in scale.params]
    assert described.src == scale.src
