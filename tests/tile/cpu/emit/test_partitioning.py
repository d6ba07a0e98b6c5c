"""Sorting by partition: every kind of row, for wide and for narrow vectors; nothing outside of the row is written."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from emu.tile import cpu
from emu.tile.cpu import native
from emu.tile.cpu.emit import partitioning, sorting
from emu.tile.text import parse_module

Sort = Callable[[np.ndarray, int, bool], np.ndarray]
GUARD = 64

pytestmark = pytest.mark.skipif(
    partitioning.lanes(4) is None, reason="the CPU has no instructions that pack lanes"
)


def rows(dtype: Any, count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Generate rows of each kind that a partition may find hard."""
    rng = np.random.default_rng(count)
    most = np.iinfo(dtype).max
    even = rng.integers(0, most, count, dtype=dtype, endpoint=True)
    yield "any", even
    yield "ascending", np.sort(even)
    yield "descending", np.sort(even)[::-1].copy()
    yield "equal", np.full(count, most, dtype)
    yield "zeros", np.zeros(count, dtype)
    yield "two", np.where(even & 1, most, 0).astype(dtype)
    yield "few", (even % 5).astype(dtype)
    yield "one differs", np.where(np.arange(count) == count // 3, 0, most).astype(dtype)
    yield "powers", (dtype(1) << (even % dtype(np.iinfo(dtype).bits))).astype(dtype)
    yield "narrow", (even % 1000 + most // 2).astype(dtype)
    yield "saw", (np.arange(count) % 37).astype(dtype)
    shifts = rng.integers(0, np.iinfo(dtype).bits, count).astype(dtype)
    yield "skewed", even >> shifts


@pytest.fixture(scope="module", params=["widest", "avx2"])
def narrow(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "avx2")


def only_avx2(name: str) -> bool:
    return name == "avx2"


@pytest.fixture(scope="module", params=[4, 8], ids=["u32", "u64"])
def sort(request: pytest.FixtureRequest, narrow: bool) -> Sort:
    """Return a call of the compiled function that checks what is around the row."""
    size = request.param
    with pytest.MonkeyPatch.context() as patch:
        if narrow:
            patch.setattr(partitioning, "has_feature", only_avx2)
        module = ir.Module("sort")
        function = partitioning.declare_sort(module, size)
        assert partitioning.declare_sort(module, size) is function
        width = partitioning.lanes(size)
    assert width is not None
    function.linkage = "external"
    function.name = name = native.new_name("sort")
    address = native.load(native.to_object(str(module)), name)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = [pointer, pointer, pointer, number, number, pointer, ctypes.c_bool]
    native_sort = ctypes.CFUNCTYPE(None, *kinds)(address)

    def call(row: np.ndarray, first: int, in_place: bool) -> np.ndarray:
        count = len(row)
        found = np.full(count + 2 * GUARD, 77, row.dtype)
        target = found[GUARD : GUARD + count]
        if in_place:
            target[:] = row
        buffer = np.full(count + width + GUARD, 99, row.dtype)
        source = target if in_place else row.copy()
        end = target.ctypes.data + target.nbytes
        native_sort(
            source.ctypes.data, target.ctypes.data, buffer.ctypes.data, count, first, end, False
        )
        assert (found[:GUARD] == 77).all()
        assert (found[GUARD + count :] == 77).all()
        assert (buffer[count + width :] == 99).all()
        if not in_place:
            np.testing.assert_array_equal(source, row)
        return target

    call.dtype = {4: np.uint32, 8: np.uint64}[size]  # type: ignore[attr-defined]  # what it sorts
    return call


COUNTS = [1, 2, 15, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 511, 513, 1000, 4096, 20_011]


@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
@pytest.mark.parametrize("count", COUNTS)
def test_rows_of_every_kind(sort: Any, count: int, in_place: bool) -> None:
    for kind, row in rows(sort.dtype, count):
        np.testing.assert_array_equal(sort(row, count, in_place), np.sort(row), kind)


@pytest.mark.parametrize("count", [100, 257, 1000, 5000])
def test_the_first_elements_of_a_row(sort: Any, count: int) -> None:
    for kind, row in rows(sort.dtype, count):
        for first in (1, 16, count // 2, count - 1):
            found = sort(row, first, False)
            np.testing.assert_array_equal(found[:first], np.sort(row)[:first], kind)


def test_random_counts(sort: Any) -> None:
    rng = np.random.default_rng(4)
    for count in rng.integers(1, 3000, 150):
        row = rng.integers(0, 1 << int(rng.integers(1, 32)), count).astype(sort.dtype)
        np.testing.assert_array_equal(sort(row, count, bool(count % 2)), np.sort(row))


SORT = """
func @sort(%x: ptr<u32>, %y: ptr<u32>) {{
  %0 = arange {{start = 0, end = {total}}} : tile<{total}xi32>
  %1 = splat %x : tile<{total}xptr<u32>>
  %2 = ptr_add %1, %0 : tile<{total}xptr<u32>>
  %3 = load %2 : tile<{total}xu32>
  %4 = reshape %3 : tile<{rows}x{extent}xu32>
  %5 = sort %4 : tile<{rows}x{extent}xu32>
  %6 = reshape %5 : tile<{total}xu32>
  %7 = splat %y : tile<{total}xptr<u32>>
  %8 = ptr_add %7, %0 : tile<{total}xptr<u32>>
  store %8, %6
  return
}}
"""


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitions", "bytes"])
@pytest.mark.parametrize("extent", [3, 65, 300, 2049])
def test_rows_of_a_tile(extent: int, partitioned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting by bytes is for CPUs without such vectors, and gives the same."""
    if not partitioned:
        monkeypatch.setattr(sorting.partitioning, "lanes", lambda size: None)
    module = parse_module(SORT.format(total=5 * extent, rows=5, extent=extent))
    kernel = cpu.compile(module)
    x = np.random.default_rng(2).integers(0, 1 << 32, (5, extent), dtype=np.uint32)
    y = np.zeros_like(x)
    packed = bytearray(struct.pack(kernel.format, x.ctypes.data, y.ctypes.data))
    kernel.launch(np.frombuffer(packed, np.uint8).ctypes.data, 1)
    np.testing.assert_array_equal(y, np.sort(x, -1))


TOP = """
func @top(%x: ptr<u32>, %y: ptr<u32>) {{
  %0 = arange {{start = 0, end = {extent}}} : tile<{extent}xi32>
  %1 = splat %x : tile<{extent}xptr<u32>>
  %2 = ptr_add %1, %0 : tile<{extent}xptr<u32>>
  %3 = load %2 : tile<{extent}xu32>
  %4 = sort %3 : tile<{extent}xu32>
  %5 = arange {{start = 0, end = {first}}} : tile<{first}xi32>
  %6 = gather %4, %5 {{axis = 0}} : tile<{first}xu32>
  %7 = splat %y : tile<{first}xptr<u32>>
  %8 = ptr_add %7, %5 : tile<{first}xptr<u32>>
  store %8, %6
  return
}}
"""


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitions", "bytes"])
@pytest.mark.parametrize("extent", [128, 1000, 4099])
def test_the_first_of_a_tile(
    extent: int, partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not partitioned:
        monkeypatch.setattr(sorting.partitioning, "lanes", lambda size: None)
    kernel = cpu.compile(parse_module(TOP.format(extent=extent, first=20)))
    x = np.random.default_rng(2).integers(0, 1 << 32, extent, dtype=np.uint32)
    y = np.zeros(20, np.uint32)
    packed = bytearray(struct.pack(kernel.format, x.ctypes.data, y.ctypes.data))
    kernel.launch(np.frombuffer(packed, np.uint8).ctypes.data, 1)
    np.testing.assert_array_equal(y, np.sort(x)[:20])
