"""The graph of ops: order, schedules and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.pypto as p
from emu.pypto.submission import run_op

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
