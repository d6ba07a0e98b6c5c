"""Generated kernels go through the real compiler, which needs no GPU, and through the assembler."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from numba import cuda
from tile_cases import CASES
from tile_kernels import KERNELS

from emu.tile.cuda import CudaKernel, compile_kernel

pytestmark = pytest.mark.slow


def load(name: str, path: Path) -> Any:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


HERE = Path(__file__).parent
of_kernels = load("cuda_test_compile", HERE.parents[1] / "kernels" / "cuda" / "test_compile.py")
SM_80, SM_90 = (8, 0), (9, 0)

# Of each kind one with few operations: a case with many takes long.
CHOSEN = [
    "program_numbers",
    "joins_and_splits",
    "gathers",
    "sub-float",
    "div-int",
    "rem-float",
    "max-float",
    "shr-int",
    "mulhi-int",
    "pow-narrow",
    "sigmoid-narrow",
    "fma-float",
    "cast-f64",
    "cast-bf16",
    "casts_that_round_once",
    "bitcast-f16",
    "copy-f8e4m3fn",
    "atomic-add",
    "atomic-max",
    "atomic-xchg",
    "compare_and_swap",
    "loops_over_other_dtypes",
    "whiles",
    "ifs",
    "scans_of_affine_maps",
    "histograms",
    "order",
]
BY_NAME = {p.name: p for p in CASES if p.name in CHOSEN} | KERNELS


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    reason = of_kernels.missing()
    if reason is not None:
        pytest.skip(reason)


def to_ptx(kernel: CudaKernel, device: tuple[int, int] = SM_80) -> str:
    code, _ = cuda.compile_ptx(kernel.function.py_func, kernel.signature(), cc=device)
    of_kernels.assemble(code, device)
    return str(code)


def test_the_chosen_cases_exist() -> None:
    assert set(CHOSEN) <= set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_programs_compile(name: str) -> None:
    device = SM_90 if sorted(BY_NAME).index(name) % 2 else SM_80
    code = to_ptx(compile_kernel(BY_NAME[name].module), device)
    # A function of libdevice may be left out of line; Numba's own would be exceptions.
    assert "numba_unpickle" not in code


@pytest.mark.parametrize("device", [SM_80, SM_90], ids=["sm_80", "sm_90"])
def test_a_product_and_a_sum_are_each_rounded_and_a_dot_fuses_them(device: Any) -> None:
    code = to_ptx(compile_kernel(KERNELS["layer_norm-f32"].module), device)
    loop_free = re.findall(r"\bfma\.rn\.f32", code)
    products = re.findall(r"\bmul\.rn\.f32", code)
    assert products
    assert not re.search(r"\.ftz", code)
    dot = to_ptx(compile_kernel(KERNELS["matmul-f32"].module), device)
    assert re.search(r"\bfma\.rn\.f32", dot)
    assert len(loop_free) == 0


def test_threads_wait_between_loads_and_stores_only() -> None:
    code = to_ptx(compile_kernel(KERNELS["vector_add-f32"].module))
    assert len(re.findall(r"\bbar\.sync", code)) == 1
    assert ".local" not in code


def test_atomic_sums_are_one_instruction() -> None:
    code = to_ptx(compile_kernel(KERNELS["column_sums"].module))
    assert "atom.global.add.f32" in code
    assert "atom.global.add.u32" in code
