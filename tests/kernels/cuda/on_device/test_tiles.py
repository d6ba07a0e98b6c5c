"""SET and ADD of tiles in device memory, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from campaigns import TIMES
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.core.dtypes import DTYPES
from emu.kernels.cuda.arrays import empty, to_device
from emu.kernels.cuda.device import CudaUnavailableError
from emu.kernels.cuda.geometry import walks
from emu.kernels.cuda.tiles import UNITS, add_tile, set_tile
from emu.kernels.errors import ArgumentError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def atomic_add_tile(target, source):
    add_tile(target, source, atomic=True)


SIXTEEN = (np.dtype(np.float16), BFLOAT16)


def any_bits(shape, dtype, seed):
    """Every kind of number: the bits are arbitrary, so there are NaN, infinities, subnormals."""
    n = int(np.prod(shape)) * dtype.itemsize
    bits = np.random.default_rng(seed).integers(0, 256, n, np.uint8)
    if dtype == bool:
        bits &= 1
    return bits.view(dtype).reshape(shape)


def total(a, b):
    """The reference of ADD."""
    if a.dtype == bool:
        return a | b
    with np.errstate(all="ignore"):
        if a.dtype in SIXTEEN:
            return (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
        return a + b


def assert_same(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    with np.errstate(all="ignore"):  # ml_dtypes warns of signalling NaN
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(found), nan)
    bits = f"u{found.itemsize}"
    np.testing.assert_array_equal(
        np.where(nan, 0, found.view(bits)), np.where(nan, 0, expected.view(bits))
    )


OPERATIONS = {
    "set": (set_tile, lambda a, b: b),
    "add": (add_tile, total),
    "atomic": (atomic_add_tile, total),
}


@st.composite
def layouts(draw):
    """An array's shape, how a tile lies in it, and how its source lies in another."""
    rank = draw(st.integers(1, 8))
    room = 256
    shape, target, source = [], [], []
    for _ in range(rank):
        extent = draw(st.integers(1, max(1, min(9, room))))
        room //= extent
        shape.append(extent)
        for slices in (target, source):
            step = draw(st.sampled_from([1, 1, 1, 2, -1, -2]))
            skip = draw(st.integers(0, 2))
            slices.append((skip, step))
    orders = [draw(st.permutations(range(rank))) for _ in range(2)]
    return tuple(shape), (target, orders[0]), (source, orders[1])


def laid_out(shape, layout, dtype, seed):
    """Return an array and the index and axes by which a tile of the shape is seen in it."""
    slices, order = layout
    extents = [skip + abs(step) * n for (skip, step), n in zip(slices, shape, strict=True)]
    base = any_bits([extents[axis] for axis in order], dtype, seed)
    index = []
    for axis in order:
        (skip, step), n = slices[axis], shape[axis]
        first = skip if step > 0 else skip + (n - 1) * -step
        stop = first + n * step
        index.append(slice(first, stop if stop >= 0 else None, step))
    return base, tuple(index), np.argsort(order).tolist()


@settings(deadline=None, max_examples=60 * TIMES)
@given(
    layout=layouts(),
    dtype=st.sampled_from(DTYPES),
    operation=st.sampled_from(sorted(OPERATIONS)),
    seed=st.integers(0, 1000),
)
def test_a_tile_of_any_layout(layout, dtype, operation, seed):
    shape, target, source = layout
    base, index, axes = laid_out(shape, target, dtype, seed)
    other, other_index, other_axes = laid_out(shape, source, dtype, seed + 1)
    call, meaning = OPERATIONS[operation]
    device, what = to_device(base), to_device(other)
    call(device[index].transpose(*axes), what[other_index].transpose(*other_axes))
    tile, value = base[index].transpose(axes), other[other_index].transpose(other_axes)
    tile[...] = meaning(tile, value)
    assert_same(device.copy_to_host(), base)
    assert_same(what.copy_to_host(), other)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("skip", [0, 3], ids=["aligned", "shifted"])
def test_a_long_row(dtype, operation, skip):
    # Long enough for edges of their own, and for several turns of the unrolled loops.
    n = 5000 // dtype.itemsize + 1
    base, other = any_bits(n + 6, dtype, 1), any_bits(n + 6, dtype, 2)
    call, meaning = OPERATIONS[operation]
    device = to_device(base)
    call(device[skip : skip + n], to_device(other)[skip : skip + n])
    base[skip : skip + n] = meaning(base[skip : skip + n], other[skip : skip + n])
    assert_same(device.copy_to_host(), base)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_a_rectangle_with_ragged_rows(operation):
    base, other = any_bits((3, 4800), BFLOAT16, 3), any_bits((3, 4800), BFLOAT16, 4)
    call, meaning = OPERATIONS[operation]
    device, box = to_device(base), (slice(1, 3), slice(5, 4000))
    call(device[box], to_device(other)[box])
    base[box] = meaning(base[box], other[box])
    assert_same(device.copy_to_host(), base)


@pytest.mark.parametrize("skip", [0, 3, 8])
def test_a_long_row_is_walked_in_units_of_sixteen_bytes_but_for_its_ends(skip):
    a, b = empty(6000, np.uint16), empty(6000, np.uint16)
    found = list(walks(a[skip:5001], b[skip:5001], UNITS))
    wide = [walk for walk in found if walk.unit == 16]
    assert sum(walk.inner[0] * walk.unit for walk in found) == 2 * (5001 - skip)
    assert len(wide) == 1
    assert wide[0].target == a.address + -(-2 * skip // 16) * 16
    assert wide[0].inner[0] == 10000 // 16 - -(-2 * skip // 16)
    # Where the two sides differ in alignment, no unit is wider than both allow.
    assert {walk.unit for walk in walks(a[4:4004], b[6:4006], UNITS)} == {4}
    assert {walk.unit for walk in walks(a[3:4003], b[6:4006], (2, 16))} == {2}


def test_sums_of_sixteen_bits_are_rounded_once_to_even():
    ulp = 2.0**-8
    a = np.array([1, 1, 1 + 2 * ulp, -1, 3e38, 1e-40], BFLOAT16)
    b = np.array([ulp, 1.5 * ulp, ulp, -ulp, 3e38, 1e-40], BFLOAT16)
    expected = [1, 1 + 2 * ulp, 1 + 4 * ulp, -1, np.inf, float(np.float32(a[5]) * 2)]
    for atomic in (False, True):
        device = to_device(a)
        add_tile(device, to_device(b), atomic=atomic)
        assert_same(device.copy_to_host(), np.array(expected, BFLOAT16))


def test_eight_bit_floats_are_set():
    host = any_bits((5, 7), np.dtype(ml_dtypes.float8_e5m2), 1)
    device = empty((5, 7), host.dtype)
    set_tile(device, to_device(host))
    assert device.copy_to_host().tobytes() == host.tobytes()


def test_a_broadcast_source_and_an_empty_tile():
    device = to_device(np.zeros((3, 4), np.float32))
    row = to_device(np.arange(4, dtype=np.float32))
    spread = type(row)(row.address, (3, 4), (0, 4), row.dtype, row)
    set_tile(device, spread)
    add_tile(device, spread)
    assert np.array_equal(device.copy_to_host(), np.broadcast_to(2 * np.arange(4), (3, 4)))
    set_tile(device[:0], row[None][:0])
    add_tile(device[:, :0], device[:, 2:2])
    assert np.array_equal(device.copy_to_host()[1], 2 * np.arange(4))


def refused(match, target, source, call=set_tile):
    before = target.copy_to_host() if hasattr(target, "copy_to_host") else None
    with pytest.raises(ArgumentError, match=match):
        call(target, source)
    if before is not None:
        assert_same(target.copy_to_host(), before)


@pytest.mark.parametrize("call", [set_tile, add_tile, atomic_add_tile])
def test_arguments_that_are_not_so_are_refused(call):
    a, b = to_device(np.ones((3, 4), np.float32)), to_device(np.ones((3, 4), np.float32))
    host = np.ones((3, 4), np.float32)
    refused("^target must be in device memory", host, b, call)
    refused("^source must be in device memory", a, host, call)
    refused(r"^source must have target's shape \(3, 4\), but got \(4, 3\)", a, b.T, call)
    refused(
        "^source must have target's dtype float32, but got int32",
        a,
        to_device(host.astype("i4")),
        call,
    )
    refused("^target must have rank 1 to 8, but got rank 0", a[0, 0], b[0, 0], call)
    deep = a[(None,) * 7]
    refused("^target must have rank 1 to 8, but got rank 9", deep, deep, call)
    refused("^source must share no memory with target", a[:2], a[1:], call)
    spread = type(a)(a.address, (3, 4), (0, 4), a.dtype, a)
    refused("^target must not overlap itself", spread, b, call)
    byte = to_device(np.zeros(1, np.int8))
    spread = type(a)(byte.address, (3,), (0,), byte.dtype, byte)
    refused("^target must not overlap itself", spread, to_device(np.ones(3, np.int8)), call)
    shifted = type(a)(a.address + 2, (2, 2), (16, 4), a.dtype, a)
    refused("^target must have an address and strides that are multiples", shifted, b[:2, :2], call)
    fixed = type(a)(a.address, a.shape, a.strides, a.dtype, a, read_only=True)
    refused("^target must be writable", fixed, b, call)
    swapped = type(a)(a.address, a.shape, a.strides, np.dtype(">f4"), a)
    refused("^target must have dtype bool, .* in native byte order", swapped, b, call)


def test_eight_bit_floats_are_not_added():
    tile = to_device(np.ones(3, ml_dtypes.float8_e4m3fn))
    refused("^target must have dtype bool", tile, tile, add_tile)


def test_interleaved_tiles_are_no_overlap():
    device = to_device(np.zeros(12, np.int32))
    set_tile(device[::2], device[1::2])
    woven = type(device)(device.address, (3, 2), (8, 12), device.dtype, device)
    set_tile(woven, to_device(np.arange(1, 7, dtype=np.int32).reshape(3, 2)))
    expected = np.zeros(12, np.int32)
    expected[[0, 3, 2, 5, 4, 7]] = range(1, 7)
    assert np.array_equal(device.copy_to_host(), expected)


def test_the_error_of_no_device_is_no_argument_error():
    assert not issubclass(CudaUnavailableError, ValueError)
