"""A right operand of several products is laid out once, and never when its values may have changed."""

from __future__ import annotations

import weakref

import ml_dtypes
import numpy as np
import pytest

import emu
import emu.pypto as p
from emu.kernels import matmul as kernel
from emu.pypto import right_operands

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


@pytest.fixture
def packs(monkeypatch):
    """What is laid out, as a list of shapes; nothing is laid out before."""
    found = []
    pack = kernel.pack

    def noted(b, **options):
        found.append(b.shape)
        return pack(b, **options)

    monkeypatch.setattr(right_operands.kernel, "pack", noted)
    monkeypatch.setattr("emu.pypto.product.RIGHT_OPERANDS", right_operands.RightOperands())
    return found


def random(seed, shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


@p.frontend.jit
def parts(x, w, out):
    """Multiply row by row of 8."""
    for row in range(0, x.shape[0], 8):
        out[row:, :] = p.matmul(x[row : row + 8, :], w)


@p.frontend.jit
def changed(x, w, out):
    """Multiply, change the operand, multiply again."""
    for row in range(0, x.shape[0], 8):
        out[row:, :] = p.matmul(x[row : row + 8, :], w)
        w[0:, 0:] = p.add(w, 1)


def whole(x, w):
    return kernel.matmul(x, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_laid_out_once_and_the_bits_are_the_same(packs, dtype):
    x, w = random(1, (32, 200), dtype), random(2, (200, 130), dtype)
    out = np.zeros((32, 130), dtype)
    for call in range(3):
        w += w.dtype.type(1)  # each call sees the values that there are
        parts(x, w, out)
        np.testing.assert_array_equal(out, whole(x, w))
        assert packs == [(200, 130)] * (call + 1)


def test_one_product_lays_out_nothing(packs):
    x, w, out = random(1, (8, 200)), random(2, (200, 130)), np.zeros((8, 130), np.float32)
    parts(x, w, out)
    parts(x, w, out)
    assert packs == []


def test_what_was_not_worth_it_is_not_laid_out_again(packs):
    many, few, w = random(1, (32, 200)), random(1, (8, 200)), random(2, (200, 130))
    parts(many, w, np.zeros((32, 130), np.float32))
    for _ in range(3):
        parts(few, w, np.zeros((8, 130), np.float32))
    assert len(packs) == 2


def test_an_operand_that_the_kernel_writes_is_multiplied_as_it_is(packs):
    x, w = random(1, (32, 200)), random(2, (200, 130))
    expected, now = [], w.copy()
    for row in range(0, 32, 8):
        expected.append(whole(x[row : row + 8], now))
        now = now + np.float32(1)
    out = np.zeros((32, 130), np.float32)
    changed(x, w, out)
    np.testing.assert_array_equal(out, np.concatenate(expected))
    assert packs == []


def test_two_operands_of_one_form_are_both_laid_out(packs):
    @p.frontend.jit
    def both(x, v, w, out):
        for row in range(0, 32, 8):
            part = x[row : row + 8, :]
            out[row:, :] = p.add(p.matmul(part, v), p.matmul(part, w))

    x, v, w = random(1, (32, 200)), random(2, (200, 130)), random(3, (200, 130))
    out = np.zeros((32, 130), np.float32)
    for call in range(2):
        both(x, v, w, out)
        np.testing.assert_array_equal(out, whole(x, v) + whole(x, w))
        assert len(packs) == 2 * (call + 1)


def test_no_array_of_the_program_is_kept(packs):
    x, w = random(1, (32, 200)), random(2, (200, 130))
    gone = weakref.ref(w)
    parts(x, w, np.zeros((32, 130), np.float32))
    assert packs
    del w
    assert gone() is None


def multiply_by_symmetric_memory():
    world = emu.world()
    w = world.alloc((200, 130), np.float32)
    found = []
    pack = kernel.pack
    right_operands.kernel.pack = lambda b, **options: (found.append(b.shape), pack(b, **options))[1]
    parts(random(1, (32, 200)), w.local, np.zeros((32, 130), np.float32))
    symmetric = list(found)
    parts(random(1, (32, 200)), w.local.copy(), np.zeros((32, 130), np.float32))
    return symmetric, found


def test_memory_that_other_pes_can_write_is_multiplied_as_it_is():
    ((symmetric, found),) = emu.launch(multiply_by_symmetric_memory, 1)
    assert symmetric == []
    assert found == [(200, 130)]


@pytest.mark.parametrize(
    ("a_valid", "b_valid"),
    [((3, 200), (200, 130)), ((3, 150), (200, 130)), ((8, 200), (160, 7)), ((0, 200), (200, 130))],
)
def test_operands_that_are_valid_in_part(a_valid, b_valid):
    a, b = random(1, (8, 200)), random(2, (200, 130))
    left, right = np.zeros_like(a), np.zeros_like(b)
    left[: a_valid[0], : a_valid[1]] = a[: a_valid[0], : a_valid[1]]
    right[: b_valid[0], : b_valid[1]] = b[: b_valid[0], : b_valid[1]]

    @p.frontend.jit
    def kernel_of(x, w, out):
        part = p.view(x, [8, 200], [0, 0], valid_shape=list(a_valid))
        out[:, :] = p.zeros([8, 130])
        found = p.matmul(part, p.view(w, [200, 130], [0, 0], valid_shape=list(b_valid)))
        assert found.valid_shape == (a_valid[0], b_valid[1])
        out[0:, 0:] = found

    out = np.full((8, 130), np.nan, np.float32)
    kernel_of(a, b, out)
    np.testing.assert_array_equal(out, whole(left, right))
