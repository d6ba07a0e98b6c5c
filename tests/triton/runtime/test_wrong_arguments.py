"""Wrong arguments to launches, decorators and helpers: an error that names the argument, or a call that was good."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Target

import emu.triton.language as tl
from emu import triton
from emu.tile import reference, text
from emu.tile.cpu import Options
from emu.triton.compiler.errors import CompilationError
from emu.triton.runtime import cache
from emu.triton.runtime.errors import AutotunerError
from emu.triton.runtime.extensions import compile_so_from_src

ERRORS = (TypeError, ValueError, OverflowError, CompilationError, AutotunerError)
"""What Triton itself raises for arguments: Python's own classes. The texts must still name the argument."""


@triton.jit
def kernel(x_ptr, n, wide: tl.int64, scale, pair, BLOCK: tl.constexpr = 4):
    if n == 123456:  # never: no launch of these tests touches memory
        tl.store(x_ptr + tl.arange(0, 4), scale + wide + pair[0])


def _launch(**arguments: Any) -> Any:
    return kernel[arguments.pop("grid")](**arguments)


def _warmup(**arguments: Any) -> Any:
    return kernel.warmup(**arguments)


def _good() -> dict[str, Any]:
    return {
        "grid": (3, 2),
        "x_ptr": np.zeros(64, np.float32),
        "n": 17,
        "wide": 5,
        "scale": 0.5,
        "pair": (3, 4),
        "BLOCK": 4,
    }


def _with_options() -> dict[str, Any]:
    return {
        "grid": 2,
        "x_ptr": np.zeros(64, np.float32),
        "n": 17,
        "wide": 5,
        "scale": 0.5,
        "pair": (3, 4),
        "num_threads": 2,
        "num_warps": 4,
        "num_stages": 2,
        "debug": True,
        "backend": "reference",
        "enable_fp_fusion": True,
    }


def _tuned(**arguments: Any) -> Any:
    return triton.autotune(**arguments)(kernel)


def _config(kwargs: Any, **options: Any) -> Any:
    return triton.Config(kwargs, **options)


def _heuristics(values: Any) -> Any:
    return triton.heuristics(values)(kernel)


def _source(**arguments: Any) -> Any:
    return triton.compiler.ASTSource(**arguments)


class Tensor:
    """What reinterpret takes: memory with a dtype."""

    dtype = tl.int8
    device = "cpu"
    shape = (4,)

    @property
    def data(self) -> Tensor:
        return self

    def data_ptr(self) -> int:
        return 4096


MODULE = """\
func @kernel(%x: ptr<f32>, %n: i32) {
  return
}
"""
SIGNATURE = {
    "x_ptr": "*fp32", "n": "i32", "wide": "i64", "scale": "fp32", "pair": ("i32", "i32"), "BLOCK": "constexpr",
}  # fmt: skip


def _run_reference(arguments: Any, grid: Any) -> None:
    reference.run(text.parse_module(MODULE), arguments, grid)


def _do_bench(**arguments: Any) -> Any:
    return triton.testing.do_bench(lambda: None, **arguments)


def _assert_close(**arguments: Any) -> None:
    with contextlib.suppress(AssertionError):  # they are not close: that is its answer
        triton.testing.assert_close(**arguments)


def _benchmark() -> dict[str, Any]:
    return {
        "x_names": ["n"],
        "x_vals": [1, 2],
        "line_arg": "which",
        "line_vals": ["a", "b"],
        "line_names": ["A", "B"],
        "plot_name": "times",
        "args": {"m": 1},
        "xlabel": "",
        "x_log": True,
        "styles": [("blue", "-"), ("green", "-")],
    }


TARGETS = [
    # A grid that is a function of the wrong arity says so itself.
    Target(name="kernel[grid]", function=_launch, arguments=_good, also={"grid": ("argument",)}),
    Target(
        name="kernel[grid] with options",
        function=_launch,
        arguments=_with_options,
        also={"grid": ("argument",)},
    ),
    Target(name="warmup", function=_warmup, arguments=_good),
    Target(name="cdiv", function=triton.cdiv, arguments=lambda: {"x": 7, "y": 2}),
    Target(name="next_power_of_2", function=triton.next_power_of_2, arguments=lambda: {"n": 7}),
    Target(
        name="reinterpret",
        function=triton.reinterpret,
        arguments=lambda: {"tensor": Tensor(), "dtype": tl.float8e5},
    ),
    Target(name="MockTensor", function=triton.MockTensor, arguments=lambda: {"dtype": tl.float16, "shape": [1]}),
    Target(
        name="do_bench",
        function=_do_bench,
        arguments=lambda: {"warmup": 0, "rep": 0.01, "quantiles": [0.5, 0.2], "return_mode": "mean", "grad_to_none": None},
        keep=frozenset(("warmup", "rep")),  # long is not wrong
    ),
    Target(
        name="assert_close",
        function=_assert_close,
        arguments=lambda: {"x": np.zeros(3), "y": np.zeros(3), "atol": 0.1, "rtol": 0.0, "err_msg": ""},
    ),
    Target(name="Benchmark", function=triton.testing.Benchmark, arguments=_benchmark),
    Target(
        name="Config",
        function=_config,
        arguments=lambda: {"kwargs": {"BLOCK": 4}, "num_warps": 4, "num_stages": 2, "num_ctas": 1, "maxnreg": None, "pre_hook": None},
    ),
    Target(
        name="autotune",
        function=_tuned,
        arguments=lambda: {
            "configs": [triton.Config({"BLOCK": 4})],
            "key": ["n"],
            "prune_configs_by": {"top_k": 2, "perf_model": None, "early_config_prune": None},
            "reset_to_zero": ["x_ptr"],
            "restore_value": ["x_ptr"],
            "pre_hook": None,
            "post_hook": None,
            "do_bench": None,
            "cache_results": False,
        },
    ),
    Target(name="heuristics", function=_heuristics, arguments=lambda: {"values": {"BLOCK": lambda args: 4}}),
    Target(
        name="ASTSource",
        function=_source,
        arguments=lambda: {"fn": kernel, "signature": dict(SIGNATURE), "constexprs": {"BLOCK": 4}},
    ),
    Target(name="reference.run", function=_run_reference, arguments=lambda: {"arguments": [4096, 3], "grid": (2, 2)}),
    Target(name="Options", function=Options, arguments=lambda: {"contract": True}),
    Target(name="jit", function=triton.jit, arguments=lambda: {"fn": kernel.fn}, positional=("fn",)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EMU_TRITON_BACKEND", "reference")  # compiles nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_wrong_arguments_are_named(target: Target) -> None:
    Fuzzer([target], ERRORS, seed=15).run(500).check()


def test_the_compiled_backend_refuses_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_TRITON_BACKEND", "cpu")
    Fuzzer(TARGETS[:1], ERRORS, seed=4).run(40).check()


def test_missing_and_unknown_arguments_are_named() -> None:
    good = _good()
    for missing in ("x_ptr", "n", "wide"):
        with pytest.raises(TypeError, match=f"kernel.*missing.*{missing}"):
            _launch(**{name: value for name, value in good.items() if name != missing})
    with pytest.raises(TypeError, match=r"kernel\(\) got an unexpected keyword argument 'm'"):
        _launch(**good, m=3)
    with pytest.raises(TypeError, match=r"kernel\(\) (takes|got multiple)"):
        kernel[(1,)](*range(9))


def test_how_long_to_measure_must_be_a_number() -> None:
    for name in ("warmup", "rep"):
        for wrong in (-1, None, "1", float("nan"), float("inf"), [1], np.zeros(2)):
            with pytest.raises(ValueError, match=f"{name} must be a number of at least 0"):
                triton.testing.do_bench(lambda: None, **{name: wrong})


def test_arrays_of_dtypes_that_kernels_do_not_know_are_refused() -> None:
    for dtype in ("c8", "O", "M8[s]", "U3", [("a", "i4")], ">f4", "g"):
        array = np.zeros(4, dtype)
        if array.dtype.isnative and array.dtype == np.float64:
            continue  # a platform whose long double is a double
        with pytest.raises(TypeError, match="x_ptr of kernel kernel: dtype must be one"):
            _launch(**{**_good(), "x_ptr": array})


def _kernel(n: int) -> None:
    pass


WRONG: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: triton.jit(_kernel, do_not_specialize=3),
        TypeError,
        "do_not_specialize must be a list",
    ),
    (
        lambda: triton.jit(_kernel, do_not_specialize=[1.5]),
        TypeError,
        "do_not_specialize must be a list of names",
    ),
    (
        lambda: triton.jit(_kernel, do_not_specialize_on_alignment=np.ones(2)),
        TypeError,
        "do_not_specialize_on_alignment must be a list of names",
    ),
    (lambda: triton.jit(_kernel, interpret=np.ones(2)), TypeError, "interpret must be a bool"),
    (lambda: triton.jit(_kernel, noinline="no"), TypeError, "noinline must be a bool"),
    (lambda: triton.jit(_kernel, debug="no"), TypeError, "debug must be a bool"),
    (lambda: triton.jit(_kernel, check=np.ones(2)), ValueError, "must be a string"),
    (
        lambda: triton.jit(_kernel).add_pre_run_hook(None),
        TypeError,
        "hook must be a function, but got None",
    ),  # type: ignore[arg-type]
    (lambda: triton.autotune([triton.Config({})], [])(None), TypeError, "fn must be decorated"),  # type: ignore[arg-type]
    (
        lambda: triton.heuristics({})(3),
        TypeError,
        "fn must be decorated with @triton.jit, but got 3",
    ),  # type: ignore[arg-type]
    (lambda: triton.constexpr_function(3), TypeError, "fn must be a function written with def"),  # type: ignore[arg-type]
    (lambda: triton.must_use_result(None), TypeError, "fn must be a function, or a text"),
    (
        lambda: triton.compile(
            _source(fn=kernel, signature=_SIGNATURE, constexprs={"BLOCK": 4}), options=3
        ),
        TypeError,
        "options must be a dict",
    ),  # type: ignore[arg-type]
    (
        lambda: _source(fn=kernel, signature={**_SIGNATURE, "x_ptr": 3}),
        TypeError,
        "signature must spell the type of x_ptr as a text",
    ),
    (
        lambda: _source(fn=kernel, signature={**_SIGNATURE, "n": "constexpr"}),
        ValueError,
        "constexprs must have the value of n",
    ),
    (lambda: cache.get_cache_manager("no digest"), ValueError, "key must be a digest in base 16"),
    (lambda: cache.get_cache_manager(None), TypeError, "key must be a text, but got None"),  # type: ignore[arg-type]
    (lambda: _manager().put(b"", 3), TypeError, "filename must be a text, but got 3"),  # type: ignore[arg-type]
    (lambda: _manager().get_file(None), TypeError, "filename must be a text"),  # type: ignore[arg-type]
    (lambda: _manager().get_group(None), TypeError, "filename must be a text"),  # type: ignore[arg-type]
    (lambda: _manager().put_group("g", 3), TypeError, "group must be a dict by name"),  # type: ignore[arg-type]
    (lambda: _manager().put_group("g", {"a": 3}), TypeError, "a path of group must be a text"),  # type: ignore[dict-item]
    (lambda: compile_so_from_src(3, "m"), TypeError, "src must be a text, but got 3"),  # type: ignore[arg-type]
    (lambda: compile_so_from_src("", 3), TypeError, "name must be a text, but got 3"),  # type: ignore[arg-type]
    (lambda: compile_so_from_src("", "m", libraries=3), TypeError, "libraries must be a list"),  # type: ignore[arg-type]
    (lambda: _set("debug", np.ones(2)), TypeError, "knobs: debug must be a bool"),
    (
        lambda: _compiled()[(1,)](3, 1),
        TypeError,
        r"x_ptr of kernel stores must be \*fp32, .* but got 3",
    ),
    (
        lambda: _compiled()[(1,)](np.zeros(1, np.float32), None),
        TypeError,
        "n of kernel stores must be i32",
    ),
]

_SIGNATURE: dict[str, Any] = {
    "x_ptr": "*fp32",
    "n": "i32",
    "wide": "i64",
    "scale": "fp32",
    "pair": ("i32", "i32"),
    "BLOCK": "constexpr",
}


@triton.jit
def stores(x_ptr, n):
    tl.store(x_ptr, n)


def _compiled() -> Any:
    return stores.warmup(np.zeros(1, np.float32), 2, grid=(1,))


def _manager() -> Any:
    return cache.get_cache_manager("ab12")


def _set(name: str, value: object) -> None:
    setattr(triton.knobs.runtime, name, value)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_settings_of_decorators_and_helpers_are_named(
    number: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    call, kind, text_ = WRONG[number]
    with pytest.raises(kind, match=text_):
        call()
