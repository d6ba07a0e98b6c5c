"""Products that read memory where it is loaded from: the bits of the reference, whatever the strides, bounds and remainders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.cpu import native
from emu.tile.cpu.compiling import _emit
from emu.tile.cpu.depth import deep
from emu.tile.cpu.emit import emitter
from emu.tile.cpu.options import Options
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.passes import simplify
from emu.tile.types import F32, I8, I32, DType

V3 = "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+movbe"


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of how many loads of each stretch were left where they are."""
    found: list[int] = []
    original = emitter.loads_in_place

    def counting(*given: object) -> frozenset[object]:
        loads: frozenset[object] = original(*given)  # type: ignore[arg-type]  # as the emitter gives them
        found.append(len(loads))
        return loads

    monkeypatch.setattr(emitter, "loads_in_place", counting)
    return found


class Matrices(Kernel):
    """A kernel that loads matrices from arrays whose rows are a stride apart."""

    def places(self, extents: tuple[int, int], stride: int, turned: bool, modulus: int) -> Value:
        """Return the offsets of a matrix; those of its longer axis are taken modulo a number that changes nothing."""
        b, parts = self.builder, []
        for axis, extent in enumerate(extents):
            shape = (extent, 1) if axis == 0 else (1, extent)
            line = b.arange(0, extent)
            if modulus and axis == 0:
                line = b.binary(Code.REM, line, b.splat(self.argument(I32, modulus), (extent,)))
            line = b.reshape(line, shape)
            if axis == int(turned):
                line = b.binary(Code.MUL, line, b.splat(self.argument(I32, stride), shape))
            parts.append(b.broadcast(line, extents))
        return b.binary(Code.ADD, *parts)

    def matrix(
        self,
        dtype: DType,
        extents: tuple[int, int],
        gap: int,
        turned: bool = False,
        bound: int | None = None,
        modulus: int = 0,
        seed: int = 0,
    ) -> Value:
        """Load a matrix; lanes of its last axis from a bound on are 0."""
        b = self.builder
        stride = extents[0 if turned else 1] + gap
        data = values(dtype, stride * extents[1 if turned else 0], seed)
        tile = b.ptr_add(
            b.splat(self.pointer(data), extents), self.places(extents, stride, turned, modulus)
        )
        if bound is None:
            return b.load(tile)
        line = b.reshape(b.arange(0, extents[1]), (1, extents[1]))
        limit = b.splat(self.argument(I32, bound), line.shape)
        mask = b.broadcast(b.compare(Code.LT, line, limit), extents)
        return b.load(tile, mask, self.number(0, dtype, extents))


@settings(deadline=None, max_examples=20)
@given(
    dtype=st.sampled_from([F32, I8]),
    m=st.sampled_from([1, 3, 8, 17]),
    n=st.sampled_from([1, 7, 16, 32, 48, 33]),
    k=st.sampled_from([1, 4, 16, 48, 7]),
    gaps=st.tuples(*[st.sampled_from([0, 1, 5, 600])] * 2),
    turned=st.tuples(st.booleans(), st.booleans()),
    permuted=st.booleans(),
    bounds=st.tuples(*[st.sampled_from([None, 0, 3, 99])] * 2),
    moduli=st.tuples(*[st.sampled_from([0, 2, 99])] * 2),
    zero=st.booleans(),
    seed=st.integers(0, 9),
)
def check_products(dtype, m, n, k, gaps, turned, permuted, bounds, moduli, zero, seed):  # type: ignore[no-untyped-def]
    kernel = Matrices()
    b = kernel.builder
    left = kernel.matrix(dtype, (m, k), gaps[0], turned[0], bounds[0], moduli[0], seed)
    shape = (n, k) if permuted else (k, n)
    right = kernel.matrix(dtype, shape, gaps[1], turned[1], bounds[1], moduli[1], seed + 1)
    if permuted:
        right = b.permute(right, (1, 0))
    total = F32 if dtype == F32 else I32
    start = kernel.number(-0.0 if dtype == F32 else 0, total, (m, n))
    if not zero:
        start = kernel.load(values(total, m * n, seed).reshape(m, n))
    with np.errstate(all="ignore"):
        kernel.result(b.dot(left, right, start))
        kernel.program("in place").check(run)


def test_products_are_those_of_the_reference() -> None:
    check_products()


@pytest.mark.slow
@pytest.mark.skipif(not native.host_is_x86(), reason="the other CPU is an x86, too")
def test_products_for_a_cpu_without_avx512_are_those_of_the_reference() -> None:
    code = "import test_in_place as t; t.check_products(); t.check_order()"
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": V3}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, sys.path)]
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def product(store: str = "", dtype: DType = F32, k: int = 16) -> Matrices:
    """Return a kernel that multiplies, and stores to A's memory before, between, or after."""
    kernel = Matrices()
    b = kernel.builder
    right = kernel.matrix(dtype, (k, 32), 5)
    pointer = kernel.pointer(values(dtype, 8 * k, 3))
    tile = b.ptr_add(b.splat(pointer, (8, k)), kernel.places((8, k), k, False, 0))
    seven = kernel.number(7, dtype, (8, k))
    if store == "before":
        b.store(tile, seven)
    left = b.load(tile)
    if store == "between":
        b.store(tile, seven)
    total = F32 if dtype == F32 else I32
    done = b.dot(left, right, kernel.number(0, total, (8, 32)))
    if store == "after":
        b.store(tile, seven)
    kernel.result(done)
    return kernel


def check_order() -> None:
    for store in ("before", "between", "after"):
        for dtype in (F32, I8):
            product(store, dtype).program(store).check(run)


def test_stores_to_what_a_product_reads_keep_their_place() -> None:
    check_order()


def in_place(kernel: Kernel) -> None:
    kernel.builder.return_()
    with deep():
        _emit(simplify(kernel.module), Options())


@pytest.mark.parametrize(("store", "loads"), [("", 2), ("before", 1), ("between", 0), ("after", 2)])
def test_loads_are_in_place_where_nothing_is_stored_between(placed, store, loads) -> None:  # type: ignore[no-untyped-def]
    in_place(product(store))
    assert placed == [loads]


def test_a_load_that_others_read_is_not_in_place(placed) -> None:  # type: ignore[no-untyped-def]
    kernel = Matrices()
    b = kernel.builder
    left, right = kernel.matrix(F32, (8, 16), 1), kernel.matrix(F32, (16, 32), 1)
    kernel.result(b.dot(left, right, kernel.number(0, F32, (8, 32))))
    kernel.result(b.binary(Code.ADD, left, left))
    in_place(kernel)
    assert placed == [1]


def test_a_load_with_a_mask_that_is_no_bound_is_not_in_place(placed) -> None:  # type: ignore[no-untyped-def]
    kernel = Matrices()
    b = kernel.builder
    right = kernel.matrix(F32, (16, 32), 1)
    mask = kernel.load(np.arange(128).reshape(8, 16) % 3 == 0)
    tile = b.ptr_add(
        b.splat(kernel.pointer(values(F32, 128)), (8, 16)), kernel.places((8, 16), 16, False, 0)
    )
    left = b.load(tile, mask, kernel.number(0, F32, (8, 16)))
    kernel.result(b.dot(left, right, kernel.number(0, F32, (8, 32))))
    in_place(kernel)
    assert placed == [1]
