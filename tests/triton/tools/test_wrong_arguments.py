"""Wrong arguments to descriptors, profiler, tuning, knobs and helpers: an error that names the argument, or a good call."""

from __future__ import annotations

import concurrent.futures
import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Target

import emu.triton.language as tl
from emu import triton
from emu.triton import knobs, profiler
from emu.triton.compiler.errors import CompilationError
from emu.triton.language.extra import register_extern
from emu.triton.runtime import _allocation
from emu.triton.runtime.autotuner import Autotuner, Heuristics
from emu.triton.runtime.errors import AutotunerError
from emu.triton.tools import disasm, mxfp, ragged_tma
from emu.triton.tools.tensor_descriptor import TensorDescriptor

if TYPE_CHECKING:
    from pathlib import Path

ERRORS = (TypeError, ValueError, OverflowError, CompilationError, AutotunerError)


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr = 4):
    tl.store(x_ptr, n)


@triton.jit
def copies(descriptor, n):
    if n == 123456:  # never
        descriptor.store([0, 0], descriptor.load([0, 0]))


def _array() -> Any:
    whole = np.zeros(16 * 32 + 4, np.float32)
    first = -whole.ctypes.data % 16 // 4
    return whole[first : first + 16 * 32].reshape(16, 32)


class Tensor:
    """What can be wrapped: memory with a dtype."""

    dtype = tl.int8
    device = "cpu"
    shape = (4,)
    data = None

    def data_ptr(self) -> int:
        return 4096


def _changed(**attributes: Any) -> Any:
    """Launch with a descriptor whose attributes were changed after it was made, as hooks do."""
    descriptor = TensorDescriptor.from_tensor(_array(), [8, 16])
    for name, value in attributes.items():
        setattr(descriptor, name, value)
    return copies[(1,)](descriptor, 1)


def _with_scope(**given: Any) -> None:
    with profiler.scope(**given):
        pass


def _with_state(**given: Any) -> None:
    with profiler.state(**given):
        pass


def _timed(**given: Any) -> None:
    with profiler.cpu_timed_scope(**given):
        pass


def _entered(**given: Any) -> None:
    profiler.enter_scope(**given)
    profiler.exit_scope()


def _left(**given: Any) -> None:
    profiler.enter_scope("a")
    try:
        profiler.exit_scope(**given)
    finally:
        with contextlib.suppress(Exception):
            profiler.exit_scope()


def _started(**given: Any) -> None:
    session = profiler.start(**given)
    if session is not None:
        profiler.sessions._sessions.pop(session)  # without its file


def _async(**given: Any) -> None:
    with triton.AsyncCompileMode(**given):
        pass


def _knob(group: str, name: str) -> Target:
    def set_(**given: Any) -> None:
        part = getattr(knobs, group)
        with part.scope():
            setattr(part, name, given[name])
            getattr(part, name)

    good = getattr(getattr(knobs, group), name)
    return Target(name=f"knobs.{group}.{name}", function=set_, arguments=lambda: {name: good})


KNOBS = [
    ("runtime", "debug"),
    ("runtime", "interpret"),
    ("runtime", "override_arch"),
    ("runtime", "launch_enter_hook"),
    ("runtime", "kernel_load_start_hook"),
    ("runtime", "jit_cache_hook"),
    ("compilation", "override"),
    ("compilation", "always_compile"),
    ("compilation", "allow_non_constexpr_globals"),
    ("autotuning", "print"),
    ("autotuning", "cache"),
    ("cache", "dir"),
    ("cache", "home_dir"),
    ("language", "fp32_default"),
    ("language", "apply_input_precision"),
    ("language", "allow_bf16_native"),
    ("language", "default_fp_fusion"),
    ("build", "cc"),
    ("proton", "disable"),
]

TARGETS = [
    Target(
        name="TensorDescriptor",
        function=TensorDescriptor,
        arguments=lambda: {"base": _array(), "shape": [16, 32], "strides": [32, 1], "block_shape": [8, 16], "padding": "zero", "round_f32_to_tf32": False},
    ),
    Target(
        name="from_tensor",
        function=TensorDescriptor.from_tensor,
        arguments=lambda: {"tensor": _array(), "block_shape": [8, 16], "padding": "nan", "round_f32_to_tf32": True},
        also={"tensor": ("base", "strides", "shape", "rank", "padding")},
    ),
    Target(
        name="a descriptor that was changed",
        function=_changed,
        arguments=lambda: {"base": _array(), "shape": [16, 32], "strides": [32, 1], "block_shape": [8, 16], "padding": "zero", "round_f32_to_tf32": False},
        also=dict.fromkeys(("base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32"), ("descriptor", "Shape element", "rank", "Last dim")),
    ),
    Target(
        name="create_ragged_descriptor",
        function=ragged_tma.create_ragged_descriptor,
        arguments=lambda: {"T": _array(), "block_shape": [8, 16], "ragged_dim": 0},
        also={"T": ("base", "strides", "shape", "rank")},
    ),
    Target(name="MXFP4Tensor", function=mxfp.MXFP4Tensor, arguments=lambda: {"size": (2, 4)}),
    Target(name="MXScaleTensor", function=mxfp.MXScaleTensor, arguments=lambda: {"size": (2, 4)}),
    Target(name="register_extern", function=register_extern, arguments=lambda: {"symbol": "of_a_test", "function": lambda x: x}),
    Target(name="profiler.start", function=_started, arguments=lambda: {"name": "a", "context": "shadow", "data": "tree", "backend": None, "mode": None, "hook": None}),
    Target(name="profiler.activate", function=profiler.activate, arguments=lambda: {"session": None}),
    Target(name="profiler.deactivate", function=profiler.deactivate, arguments=lambda: {"session": None}),
    Target(name="profiler.finalize", function=profiler.finalize, arguments=lambda: {"session": None, "output_format": "hatchet"}),
    Target(name="profiler.scope", function=_with_scope, arguments=lambda: {"name": "a", "metrics": {"flops": 3}}),
    Target(name="profiler.state", function=_with_state, arguments=lambda: {"name": "a"}),
    Target(name="profiler.cpu_timed_scope", function=_timed, arguments=lambda: {"name": "a", "metrics": {"flops": 3}}),
    Target(name="profiler.enter_scope", function=_entered, arguments=lambda: {"name": "a", "metrics": {"flops": 3}}),
    Target(name="profiler.exit_scope", function=_left, arguments=lambda: {"name": "a", "metrics": {"flops": 3}}),
    Target(name="AsyncCompileMode", function=_async, arguments=lambda: {"executor": concurrent.futures.ThreadPoolExecutor(1), "ignore_errors": False}),
    Target(name="get_sass", function=disasm.get_sass, arguments=lambda: {"cubin_asm": b"", "fun": None}, keep=frozenset(("fun",))),
    Target(name="set_allocator", function=triton.set_allocator, arguments=lambda: {"allocator": lambda size, alignment, stream: None}),
    Target(name="set_profile_allocator", function=_allocation.set_profile_allocator, arguments=lambda: {"allocator": None}),
    Target(name="TensorWrapper", function=triton.TensorWrapper, arguments=lambda: {"base": Tensor(), "dtype": tl.float32}),
    Target(
        name="Autotuner",
        function=Autotuner,
        arguments=lambda: {
            "fn": kernel, "arg_names": ["x_ptr", "n", "BLOCK"], "configs": [triton.Config({"BLOCK": 4})], "key": ["n"], "reset_to_zero": None, "restore_value": None,
            "pre_hook": None, "post_hook": None, "prune_configs_by": None, "do_bench": None, "cache_results": False,
        },
        also={"arg_names": ("parameters of the kernel",)},
    ),
    Target(name="Heuristics", function=Heuristics, arguments=lambda: {"fn": kernel, "arg_names": ["x_ptr", "n", "BLOCK"], "values": {"BLOCK": lambda args: 4}}),
    Target(name="perf_report", function=triton.testing.perf_report, arguments=lambda: {"benchmarks": []}),
    Target(name="aggregate", function=triton.aggregate, arguments=lambda: {"cls": type("C", (), {"__annotations__": {"x": tl.tensor}})}, also={"cls": ("Aggregates",)}),
    Target(name="must_use_result", function=triton.must_use_result, arguments=lambda: {"fn": kernel, "hint": "x"}),
    *[_knob(*each) for each in KNOBS],
]  # fmt: skip


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("EMU_TRITON_BACKEND", "reference")  # compiles nothing
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_wrong_arguments_are_named(target: Target) -> None:
    Fuzzer([target], ERRORS, seed=18).run(400).check()
