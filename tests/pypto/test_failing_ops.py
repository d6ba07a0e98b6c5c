"""What an op that fails takes with it, and what does not count as a hang."""

from __future__ import annotations

import time

import numpy as np
import pytest
from pypto_kernels import d

import emu
import emu.pypto as p
from emu.comm.errors import DeadlockError
from emu.pypto import local
from emu.pypto.elementwise import ADD, NEG
from emu.pypto.operation import Operation


def fail(inputs, outputs, attributes) -> None:
    raise MemoryError("no room")


FAILING = Operation("failing", "map", fail)


def rows(t, begin, end):
    return p.view(t, [end - begin, t.shape[1]], [begin, 0])


def test_what_fails_takes_only_those_with_it_that_touch_the_same_elements():
    x = p.from_numpy(np.ones((6, 4), np.float32))
    shared, apart = (p.from_numpy(np.zeros((6, 4), np.float32)) for _ in range(2))
    ops = [
        (FAILING, (rows(x, 0, 2),), (rows(shared, 0, 2),), ()),
        (NEG, (rows(x, 2, 4),), (rows(shared, 2, 4),), ()),  # other rows of what is not computed
        (ADD, (rows(shared, 2, 4), rows(x, 2, 4)), (rows(apart, 2, 4),), ()),
        (NEG, (rows(shared, 1, 3),), (rows(apart, 0, 2),), ()),  # reads a row that is missing
        (ADD, (rows(apart, 0, 1), rows(x, 0, 1)), (rows(shared, 4, 5),), ()),  # behind the last one
        (NEG, (rows(x, 0, 1),), (rows(apart, 5, 6),), ()),
    ]
    with pytest.raises(MemoryError, match="no room"):
        local.run_ops(ops)
    np.testing.assert_array_equal(shared.numpy()[:, 0], [0, 0, -1, -1, 0, 0])
    np.testing.assert_array_equal(apart.numpy()[:, 0], [0, 0, 0, 0, 0, -1])


def compile_slowly(announced: bool) -> None:
    """PE 1 compiles for longer than the time-out while PE 0 waits for what it computes."""
    from emu.tile.fusion import cache

    compiled = cache.compile_recipe

    def slow(*args):
        time.sleep(3.0)
        return compiled(*args)

    cache.compile_recipe = slow
    cache._load = lambda *args: None
    if not announced:
        cache.cache_files._listeners.clear()
    me = emu.world().my_pe
    p.set_vec_tile_shapes(64, 64)
    data = d.create_shmem_tensor("tp", 2, p.DT_FP32, [128, 64])
    if me == 1:
        x = p.full([128, 64], 3.0, p.DT_FP32)

        @p.frontend.jit
        def kernel(x):
            d.shmem_signal(data, 1, 1, target_pe=0, pred=[d.shmem_put(x * 2.0, [0, 0], data, 0)])

        kernel(x.numpy())
    else:
        arrived = d.shmem_wait_until(data, 1, 1)
        assert (d.shmem_get(data, 0, pred=[arrived]).numpy() == 6).all()


def test_compiling_is_progress():
    emu.launch(compile_slowly, 2, args=(True,), timeout=1.0)


def test_the_same_pause_is_a_hang_if_nobody_says_that_it_compiles():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(compile_slowly, 2, args=(False,), timeout=1.0)
    assert caught.value.split(DeadlockError)[0] is not None
