"""Kernels as objects: one build per combination of types and constants, hooks, pickling, threads."""

import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from triton_kernels import copy, place, tell

import emu.triton.language as tl
from emu import triton
from emu.triton import knobs


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
    assert [text.rpartition("]")[2] for text in told] == [
        "(y_ptr: *i32, value: i32)",
        "(y_ptr: *i32, value: constexpr)",
    ]
    assert "fresh[num_warps=4, num_ctas=1" in told[0]


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


@triton.jit
def halved(x_ptr, n: tl.constexpr, of: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(x_ptr + i, (tl.load(x_ptr + i) // 2).to(of))


def test_a_kernel_is_compiled_ahead_from_the_text_that_a_hook_got():
    told = []
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.jit_cache_hook = lambda **facts: told.append(facts)
        x = np.arange(4, dtype=np.int32)
        first = halved[(1,)](x, 4, tl.int32)
        assert told[0]["key"] in halved.device_caches[0][0]
        assert told[0]["fn"].jit_function is halved
        assert told[0]["compile"]["num_warps"] == 4
        text = told[0]["compile"]["specialization_data"]
        halved.device_caches.clear()
        assert len(halved.device_caches[0][0]) == 0
        assert halved.preload(text).hash == first.hash
        told.clear()
        halved[(1,)](x, 4, tl.int32)
        assert told == []
        assert len(halved.device_caches[0][0]) == 1
    assert x.tolist() == [0, 0, 0, 0]
    with pytest.raises(
        RuntimeError, match=r"data is for .*halved but trying to preload for .*fresh"
    ):
        fresh.preload(text)
    with pytest.raises(RuntimeError, match=r"Specialization data is for .*toaster"):
        halved.preload(text.replace('"backend": "', '"backend": "toaster'))


@triton.jit
def fresh(x_ptr):
    tl.store(x_ptr, 1)


def test_a_cleared_table_compiles_again_and_the_listener_hears_of_it():
    heard = []
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True
        triton.knobs.compilation.listener = lambda **facts: heard.append(facts)
        fresh[(1,)](np.zeros(1))
        fresh[(1,)](np.zeros(1), num_warps=2)  # the same code
        assert len(heard) == 1
        triton.knobs.compilation.always_compile = False
        fresh.device_caches.clear()
        fresh[(1,)](np.zeros(1))
    built, loaded = heard
    assert (built["cache_hit"], loaded["cache_hit"]) == (False, True)
    assert built["times"].ir_initialization > 0
    assert built["times"].total_lowering > 0
    assert built["times"].store_results > 0
    assert loaded["times"].total == loaded["times"].ir_initialization > 0
    assert built["metadata"]["hash"] == loaded["metadata"]["hash"]
    assert built["src"].fn is fresh


def test_an_option_does_not_switch_the_environments_assertions_off(monkeypatch):
    @triton.jit
    def asserting(x_ptr):
        tl.device_assert(tl.load(x_ptr) == 1)

    monkeypatch.setenv("TRITON_DEBUG", "1")
    with pytest.raises(RuntimeError, match=r"program \(0, 0, 0\)"):
        asserting[(1,)](np.zeros(1), debug=False)


@pytest.fixture
def _hooks() -> Iterator[None]:
    with knobs.runtime.scope():
        yield


@pytest.mark.usefixtures("_hooks")
def test_a_cache_hook_that_returns_true_stops_the_launch() -> None:
    @triton.jit
    def put(p, VALUE: tl.constexpr):
        tl.store(p, VALUE)

    p, told = np.zeros(1, np.int32), []
    knobs.runtime.jit_cache_hook = lambda **facts: told.append(facts) or True
    assert put[(1,)](p, 7) is None
    assert put.warmup(p, 7, grid=(1,)) is None
    assert p[0] == 0
    assert len(told) == 2
    assert not put.device_caches[0][0]
    knobs.runtime.jit_cache_hook = lambda **facts: False
    assert put[(1,)](p, 7) is not None
    assert p[0] == 7


def test_multiples_of_sixteen_are_entries_of_their_own_with_the_same_code() -> None:
    def body(p, n):
        tl.store(p, n)

    p = np.zeros(1, np.int32)
    for settings, entries in (
        ({}, 3),
        ({"do_not_specialize": ["n"]}, 1),
        ({"do_not_specialize_on_alignment": ["n"]}, 2),
    ):
        kernel = triton.jit(body, **settings)
        for n in (1, 2, 3, 16, 32, -16, 0, 17):
            kernel[(1,)](p, n)
            assert p[0] == n
        table = kernel.device_caches[0][0]
        assert len(table) == entries
        assert len(kernel._builds) == min(entries, 2)


def test_annotated_integers_have_the_same_entries() -> None:
    @triton.jit
    def put(p, n: tl.int64):
        tl.store(p, n)

    p = np.zeros(1, np.int64)
    for n in (1, 8, 16, 17, 2**40, 2**40 + 1):
        put[(1,)](p, n)
        assert p[0] == n
    assert len(put.device_caches[0][0]) == 3
    assert len(put._builds) == 1


@pytest.mark.usefixtures("_hooks")
def test_the_setting_debug_is_part_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    @triton.jit
    def check(n):
        tl.device_assert(n < 5, "n is too large")

    check[(1,)](7)
    knobs.runtime.debug = True
    with pytest.raises(RuntimeError, match="n is too large"):
        check[(1,)](7)
    knobs.runtime.debug = False
    check[(1,)](7)
    del knobs.runtime.debug
    monkeypatch.setenv("TRITON_DEBUG", "1")
    with pytest.raises(RuntimeError, match="n is too large"):
        check[(1,)](7)
    monkeypatch.delenv("TRITON_DEBUG")
    check[(1,)](7)


def test_a_closure_whose_variable_changes_is_noticed() -> None:
    def make(cst: Any) -> tuple[Any, Callable[[Any], None]]:
        @triton.jit
        def put(p):
            tl.store(p, cst)

        def change(value: Any) -> None:
            nonlocal cst
            cst = value

        return put, change

    p = np.zeros(1, np.int32)
    first = tl.constexpr(42)
    put, change = make(first)
    put[(1,)](p)
    change(tl.constexpr(42))
    put[(1,)](p)  # an equal one
    change(tl.constexpr(43))
    with pytest.raises(
        RuntimeError,
        match=r"cst has changed since we compiled this kernel, from constexpr\[42\] to constexpr\[43\]",
    ):
        put[(1,)](p)
    change(first)
    put[(1,)](p)
    first.value = 44
    with pytest.raises(
        RuntimeError, match=r"cst has changed .* from constexpr\[42\] to constexpr\[44\]"
    ):
        put[(1,)](p)


def test_the_signature_of_jit_names_its_settings() -> None:
    def nothing() -> None:
        pass

    found = inspect.signature(triton.jit).parameters
    assert next(iter(found)) == "fn"
    assert {"do_not_specialize", "do_not_specialize_on_alignment", "repr", "debug"} < set(found)
    settings = {name: p.default for name, p in found.items() if p.kind is p.KEYWORD_ONLY}
    assert isinstance(triton.jit(**settings)(nothing), triton.JITFunction)
