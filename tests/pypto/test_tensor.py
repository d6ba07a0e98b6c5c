"""Tensors: slices, valid parts, assembling and errors."""

from __future__ import annotations

import numpy as np
import pytest

import emu.pypto as p


def make(rows=4, columns=6):
    return p.from_numpy(np.arange(rows * columns, dtype=np.int32).reshape(rows, columns))


def test_slices_are_views():
    t = make()
    part = t[1:3, 2:]
    assert part.shape == (2, 4)
    np.testing.assert_array_equal(part.numpy(), t.numpy()[1:3, 2:])
    part[0, 0] = 99
    assert t[1, 2] == 99
    np.testing.assert_array_equal(t[-2:, :100].numpy(), t.numpy()[-2:, :100])
    np.testing.assert_array_equal(t[..., 5:].numpy(), t.numpy()[..., 5:])
    assert t[3:1].shape == (0, 6)


def test_assembling_ignores_stops():
    out = p.zeros([4, 4], p.DT_INT32)
    out[2:3, 1:] = p.ones([2, 3], p.DT_INT32)
    expected = np.zeros((4, 4), np.int32)
    expected[2:4, 1:4] = 1
    np.testing.assert_array_equal(out.numpy(), expected)
    out[0, 0:] = p.full([1, 2], 5, p.DT_INT32)
    out[:] = np.full((1, 1), 6, np.int32)
    assert out.numpy()[0].tolist() == [6, 5, 0, 0]
    p.assemble(p.full([1, 1], 8, p.DT_INT32), [3, 0], out)
    assert out[3, 0] == 8


def test_only_the_valid_part_is_assembled():
    out = p.zeros([5, 2])
    tail = p.view(p.ones([4, 2]), [4, 2], [0, 0], valid_shape=[1, 2])
    out[4:, :] = tail
    assert out.numpy().sum() == 2
    nothing = p.view(p.ones([4, 2]), [4, 2], [4, 0], valid_shape=[0, 2])
    out[9:, :] = nothing
    assert out.numpy().sum() == 2
    with pytest.raises(p.ArgumentError, match=r"offsets\[0\] \+ the valid extent of src must lie"):
        out[2:, :] = p.ones([4, 2])


def test_views_reach_beyond_the_end_where_not_valid():
    t = make(3, 2)
    tail = p.view(t, [4, 2], [2, 0], valid_shape=[1, 2])
    np.testing.assert_array_equal(tail.numpy(), [[4, 5], [0, 0], [0, 0], [0, 0]])
    inner = p.view(tail, [2, 2], [0, 0])
    assert inner.valid_shape == (1, 2)
    assert p.view(tail, [1, 2], [1, 0]).valid_shape == (0, 2)
    assert tail[2, 0] == 0
    with pytest.raises(p.ArgumentError, match="must lie in valid_shape"):
        tail[2, 0] = 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda t: p.view(t, [4, 6], [1, 0]),
            p.ArgumentError,
            "must lie between 0 and 4.*but got 1 \\+ 4",
        ),
        (lambda t: p.view(t, [1, 1], [-1, 0]), p.ArgumentError, "but got -1"),
        (lambda t: p.view(t, [4], [0]), p.ArgumentError, "one entry for each of the 2 axes"),
        (lambda t: p.view(t, [1, 1], valid_shape=[2, 1]), p.ArgumentError, "at most shape"),
        (lambda t: p.view(np.ones(2), [1]), p.ArgumentError, "must be a pypto tensor"),
        (lambda t: t[::2], p.ArgumentError, "step 1"),
        (lambda t: t[1, :], p.ArgumentError, "keeps all axes"),
        (lambda t: t[0, 0, 0], p.ArgumentError, "at most 2 entries"),
        (lambda t: t[4, 0], p.ArgumentError, "index 0 must be at least 0 and below 4, but got 4"),
        (lambda t: t.__setitem__((0, 0), 2**31), p.ArgumentError, "value must fit DT_INT32"),
        (lambda t: t.__setitem__((0, 0), 0.5), p.ArgumentError, "value must be an int"),
        (lambda t: t.__setitem__(slice(None), 1), p.ArgumentError, "only a tensor can be assigned"),
        (lambda t: t.__setitem__(slice(None), p.ones([1, 1])), p.DTypeError, "must be DT_INT32"),
        (lambda t: p.ones([1, 1])[0, 0], p.DTypeError, "integer tensor"),
        (lambda t: p.tensor([2, -1], p.DT_FP32), p.ArgumentError, r"shape\[1\] must be at least 0"),
        (lambda t: p.from_numpy([1, 2]), p.KernelError, "must be a NumPy array or a torch tensor"),
        (lambda t: p.from_numpy(np.ones(1, np.complex64)), p.DTypeError, "must be one of"),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(make())


def test_tensor_says_what_it_is():
    t = p.view(p.tensor([4, 2], p.DT_BF16, "x"), [4, 2], valid_shape=[1, 2])
    assert repr(t) == "<pypto tensor [4, 2] DT_BF16, valid_shape=[1, 2], name='x'>"
    assert (t.ndim, t.dim(), t.size) == (2, 2, 8)
    assert np.asarray(t, np.float64).dtype == np.float64


def test_a_read_only_array_is_not_written():
    array = np.zeros((2, 2), np.float32)
    array.flags.writeable = False
    t = p.from_numpy(array)
    assert p.add(t, 1.0).numpy().all()
    with pytest.raises(p.ArgumentError, match="dst must be writable, but got a read-only array"):
        t[:, :] = p.ones([2, 2])
    with pytest.raises(p.PyptoError, match="must not be masked"):
        p.from_numpy(np.ma.masked_array(np.ones(3), [1, 0, 0]))


def test_a_tensor_is_not_iterated_over():
    with pytest.raises(TypeError, match="not iterable"):
        list(p.ones([2, 2]))
