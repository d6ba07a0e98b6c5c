"""Kernels as objects: one build per combination of types and constants, hooks, pickling, threads."""

import pickle
import threading
from copy import deepcopy

import numpy as np
import pytest
from triton_kernels import copy, place, tell

import emu.triton.language as tl
from emu import triton


def test_a_read_only_array_is_read_but_not_written():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    x.flags.writeable = y.flags.writeable = False
    target = np.zeros(4, np.float32)
    copy[(1,)](x, target, 4)
    assert target.tolist() == x.tolist()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"y_ptr of kernel copy must be writable"):
            copy[(1,)](x, y, 4)
    assert not y.any()


def test_each_constant_makes_its_own_kernel():
    y = np.zeros(1, np.int32)
    made = [tell[(1,)](y, 3, c) for c in (1, True, 1.0, "1", None, 0.0, -0.0, (1, 2), [1, 2])]
    assert len({id(k) for k in made}) == len(made)
    assert tell[(1,)](y, 3, "1") is made[3]


def test_a_kernel_cannot_be_called():
    with pytest.raises(RuntimeError, match=r"copy must be launched as copy\[grid\]"):
        copy(1, 2, 3)


def test_a_kernel_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(copy)) is copy
    assert deepcopy({"kernel": copy})["kernel"] is copy


def test_compilation_is_told_once():
    told = []
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.jit_post_compile_hook = lambda **facts: told.append(facts["repr"])

        @triton.jit
        def fresh(y_ptr, value):
            tl.store(y_ptr, value)

        for value in (2, 3, 1):
            fresh[(1,)](np.zeros(1, np.int32), value)
    assert told == ["fresh(y_ptr: *i32, value: i32)", "fresh(y_ptr: *i32, value: constexpr)"]


def test_threads_launch_one_kernel_at_a_time_each_with_its_own_arguments():
    results = np.zeros((8, 50), np.int32)

    def work(i):
        for j in range(50):
            place[(1,)](results[i, j:], 100 * i + j + 2)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = 100 * np.arange(8)[:, None] + np.arange(50) + 2
    np.testing.assert_array_equal(results, expected)


def test_threads_launch_a_kernel_that_none_has_launched_before() -> None:
    import threading
    from concurrent.futures import ThreadPoolExecutor

    @triton.jit
    def squares(out_ptr, FROM: tl.constexpr):
        x = tl.arange(0, 64) + FROM
        tl.store(out_ptr + tl.arange(0, 64), x * x)

    @triton.jit
    def cubes(out_ptr, FROM: tl.constexpr):
        x = tl.arange(0, 64) + FROM
        tl.store(out_ptr + tl.arange(0, 64), x * x * x)

    together = threading.Barrier(4)

    def work(number: int) -> bool:
        kernel, power = (squares, 2) if number % 2 else (cubes, 3)
        together.wait(30)
        for first in (number // 2, 7):
            out = np.zeros(64, np.int32)
            kernel[(3,)](out, FROM=first)
            if not (out == (np.arange(64, dtype=np.int32) + first) ** power).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4
