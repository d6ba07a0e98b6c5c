"""Views, slices, assembling, scalars, and the order of ops on one PE."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.pypto as p
from emu.pypto.tensor import run_op


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


# --- order on one PE --------------------------------------------------------------------------------


def random_program(seed: int, steps: int):
    """Write and read rectangles of one buffer; return every value read and the end state."""
    generator = np.random.default_rng(seed)
    t, reads = p.zeros([6, 6], p.DT_INT32), []
    for step in range(1, steps):
        (r0, c0), (h, w) = generator.integers(0, 4, 2), generator.integers(1, 3, 2)
        if generator.random() < 0.5:
            t[r0:, c0:] = p.full([h, w], step, p.DT_INT32)
        else:
            reads.append(t[r0 : r0 + h, c0 : c0 + w] + 0)
    return [r.numpy().tolist() for r in reads], t.numpy().tolist()


@settings(deadline=None, max_examples=20)
@given(program=st.integers(0, 1000), seed=st.integers(0, 1000))
def test_tensor_edges_order_reads_and_writes_in_any_schedule(program, seed):
    expected = random_program(program, 25)
    with p.set_schedule("random", seed):
        assert random_program(program, 25) == expected
    p.synchronize()


def logged_order(schedule, seed):
    log = []

    @p.frontend.jit(schedule=schedule, seed=seed)
    def kernel(out):
        for i in range(6):
            run_op(f"op {i}", lambda i=i: log.append(i))

    kernel(np.zeros((2, 2), np.float32))
    return log


def test_seeds_are_orders():
    assert logged_order("program", 0) == list(range(6))
    orders = [logged_order("random", seed) for seed in range(8)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len({tuple(order) for order in orders}) > 4
    assert orders == [logged_order("random", seed) for seed in range(8)]


def test_an_error_in_an_op_names_it():
    def fail():
        raise ZeroDivisionError("mine")

    @p.frontend.jit(schedule="random")
    def kernel():
        run_op("the op", fail)

    with pytest.raises(ZeroDivisionError) as caught:
        kernel()
    assert "the op" in caught.value.__notes__[0]
    assert logged_order("random", 1) is not None  # the graph is usable


def test_unknown_schedule():
    with pytest.raises(p.ArgumentError, match='schedule must be "program" or "random"'):
        p.set_schedule("fifo")


# --- symbolic scalars -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(a=st.integers(-50, 50), b=st.integers(-50, 50).filter(bool))
def test_symbolic_scalars_are_integers(a, b):
    s = p.SymbolicScalar(a)
    results = [s + b, s - b, s * b, s // b, s % b, b + s, b - s, b * s, -s, abs(s), +s]
    expected = [a + b, a - b, a * b, a // b, a % b, b + a, b - a, b * a, -a, abs(a), a]
    assert results == expected
    assert all(isinstance(r, p.SymbolicScalar) for r in results)
    assert (s < b, s == b, s >= b) == (a < b, a == b, a >= b)
    assert (s.min(b), s.max(b)) == (min(a, b), max(a, b))
    assert (s * b) / b == a
    if a:
        assert b // s == b // a
        assert b % s == b % a
        assert (s * b) / s == b
    if a % b:
        with pytest.raises(p.ArgumentError, match="use //"):
            s / b


def test_loops():
    assert list(p.loop(3, name="l", idx_name="i")) == [0, 1, 2]
    assert list(p.loop(2, 8, 3)) == [2, 5]
    assert isinstance(next(p.loop(1)), p.SymbolicScalar)
    for bounds, message in (((), "1 to 3 bounds"), ((0, 3, 0), "step"), ((1.5,), "bound 0")):
        with pytest.raises(p.ArgumentError, match=message):
            p.loop(*bounds)
    assert p.cond(p.SymbolicScalar(1) == 1)


def test_tiles_walk_last_axis_fastest_with_smaller_tails():
    from emu.pypto.tiles import count_tiles, tile_starts

    walk = tile_starts((5, 3), (2, 2))
    assert [start for start, _ in walk] == [(0, 0), (0, 2), (2, 0), (2, 2), (4, 0), (4, 2)]
    assert walk[-1][1] == (slice(4, 5), slice(2, 3))
    assert count_tiles((5, 3), (2, 2)) == 6
    assert tile_starts((0, 3), (2, 2)) == ()
    p.set_vec_tile_shapes(2, 3)
    assert p.get_vec_tile_shapes() == [2, 3]
    p.set_cube_tile_shapes([1, 2], [3, 4], [5, 6])
    assert p.get_cube_tile_shapes() == ([1, 2], [3, 4], [5, 6])


def test_a_symbolic_scalar_times_a_tensor_is_a_tensor():
    t = p.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3))
    for product in (p.SymbolicScalar(2) * t, t * p.SymbolicScalar(2)):
        assert isinstance(product, p.tensor([1], p.DT_INT32).__class__)
        assert (product.numpy() == t.numpy() * 2).all()
    assert (p.SymbolicScalar(2) * np.arange(3) == [0, 2, 4]).all()
    assert [None] * p.SymbolicScalar(2) == p.SymbolicScalar(2) * [None] == [None, None]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: p.SymbolicScalar(6) * 0.5,
            r"combined with an int or a SymbolicScalar, but got 6 \* 0.5",
        ),
        (lambda: "x" - p.SymbolicScalar(6), "but got 'x' - 6"),
        (
            lambda: p.SymbolicScalar(6) // 0,
            "divisor of a symbolic scalar must not be 0, but got 6 // 0",
        ),
        (
            lambda: 6 % p.SymbolicScalar(0),
            "divisor of a symbolic scalar must not be 0, but got 6 % 0",
        ),
    ],
)
def test_symbolic_scalars_refuse(call, message):
    with pytest.raises(p.ArgumentError, match=message):
        call()


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
