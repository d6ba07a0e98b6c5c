"""``tl.target_info``: the target of the driver in use, on the host and in kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from emulated_devices import check_on_devices

from emu import triton
from emu.triton import language as tl
from emu.triton.language import target_info
from emu.triton.runtime.driver import Driver, GPUTarget


@pytest.fixture
def use() -> Iterator[Any]:
    """Give a function that puts a driver with a target in use."""

    def put(backend: str, arch: Any) -> None:
        class Other(Driver):
            def get_current_target(self) -> GPUTarget:
                return GPUTarget(backend, arch, 32)

        triton.runtime.driver.set_active(Other())

    yield put
    triton.runtime.driver.reset_active()


def _answers() -> set[str]:
    return {
        name
        for name in ("cuda", "hip", "hip_cdna3", "hip_cdna4", "hip_gfx1250", "xpu", "xpu_cri")
        if getattr(target_info, f"is_{name}")()
    }


@pytest.mark.parametrize(
    ("backend", "arch", "answers"),
    [
        ("cpu", "znver4", set()),
        ("npu", "znver4", set()),
        ("cuda", 80, {"cuda"}),
        ("hip", "gfx942", {"hip", "hip_cdna3"}),
        ("hip", "gfx950", {"hip", "hip_cdna4"}),
        ("hip", "gfx1250", {"hip", "hip_gfx1250"}),
        ("xpu", {"arch": "cri"}, {"xpu", "xpu_cri"}),
    ],
)
def test_the_target_is_that_of_the_driver(
    use: Any, backend: str, arch: Any, answers: set[str]
) -> None:
    use(backend, arch)
    assert _answers() == answers
    assert target_info.current_target() == GPUTarget(backend, arch, 32)


def test_capabilities_are_compared(use: Any) -> None:
    use("cuda", 90)
    assert tl.target_info.cuda_capability_geq(8, 6) is True
    assert tl.target_info.cuda_capability_geq(9) is True
    assert tl.target_info.cuda_capability_geq(10, 0) is False
    use("cpu", "znver4")
    assert tl.target_info.cuda_capability_geq(1) is False


def test_without_a_driver_there_is_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.runtime.driver, "default", None)
    assert target_info.current_target() is None
    assert _answers() == set()


@triton.constexpr_function
def _architecture() -> int:
    target = tl.target_info.current_target()
    return target.arch if target.backend == "cuda" else 0


@triton.jit
def _answer(p):
    if tl.target_info.is_cuda():
        tl.store(p, _architecture())
    else:
        tl.store(p, -1)
    at_least: tl.constexpr = tl.target_info.cuda_capability_geq(8, 6)
    tl.store(p + 1, 1 if at_least else 0)


@pytest.mark.parametrize(
    ("backend", "arch", "wanted"),
    [("cuda", 80, [80, 0]), ("cuda", 90, [90, 1]), ("cpu", "znver4", [-1, 0])],
)
def test_kernels_choose_their_code_by_the_target(
    use: Any, backend: str, arch: Any, wanted: list[int]
) -> None:
    # One cache, in memory and on disk, for all: a kernel of another target must not be found there.
    use(backend, arch)
    found = np.zeros(2, np.int32)
    triton.jit(_answer.fn)[(1,)](found)
    assert found.tolist() == wanted


@triton.jit
def _tells_capability(out_ptr, N: tl.constexpr):
    if tl.target_info.cuda_capability_geq(9, 0):
        found = 90
    elif tl.target_info.is_cuda():
        found = 80
    else:
        found = 0
    i = tl.arange(0, N)
    tl.store(out_ptr + i, i * 0 + found)


def _ask_on_a_device() -> None:
    import torch

    def told(size: int) -> int:
        out = torch.full((size,), -1, dtype=torch.int32, device="cuda")
        _tells_capability[(1,)](out, N=size)
        assert (out == out[0]).all()
        return int(out[0])

    assert told(2) == 80
    os.environ["EMU_CUDA_CAPABILITY"] = "9.0"
    assert tl.target_info.cuda_capability_geq(9)
    assert told(4) == 90


@pytest.mark.slow
def test_kernels_see_the_emulated_gpu() -> None:
    pytest.importorskip("torch")
    check_on_devices(_ask_on_a_device)
