"""Kernels that are compiled in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime._async_compile import active_mode


class Waiting(Executor):
    """Executor that does nothing until it is told to."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def task() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - a future keeps every error
                future.set_exception(error)

        self.tasks.append(task)
        return future

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


def _make() -> Any:
    @triton.jit
    def put(p, VALUE: tl.constexpr):
        tl.static_assert(VALUE < 100, "too much")
        tl.store(p, VALUE)

    return put


def test_nothing_is_compiled_until_the_executor_does_it() -> None:
    kernel, executor, p = _make(), Waiting(), np.zeros(1, np.int32)
    with triton.AsyncCompileMode(executor):
        first = kernel.warmup(p, 1, grid=(1,))
        kernel.warmup(p, 2, grid=(1,))
        assert isinstance(first, triton.FutureKernel)
        assert kernel.warmup(p, 1, grid=(1,)) is first
        assert len(executor.tasks) == len(kernel.device_caches[0][0]) == 2
        executor.run()
        kernel[(1,)](p, 2)
        assert p[0] == 2
        first[(1,)](p)
        assert p[0] == 1
        assert first.name == "put"
        assert not executor.tasks
    assert kernel.warmup(p, 1, grid=(1,)) is first.result()
    assert active_mode.get() is None


def test_threads_compile_while_the_program_goes_on() -> None:
    kernel, p = _make(), np.zeros(1, np.int32)
    with ThreadPoolExecutor(4) as pool, triton.AsyncCompileMode(pool):
        for value in range(12):
            kernel.warmup(p, value, grid=(1,))
        for value in reversed(range(14)):  # two of them are only compiled now
            kernel[(1,)](p, value)
            assert p[0] == value
    assert all(type(k) is not triton.FutureKernel for k in kernel.device_caches[0][0].values())


def _fail(kernel: Any, others: list[Any]) -> None:
    executor, p = Waiting(), np.zeros(1, np.int32)
    with triton.AsyncCompileMode(executor):
        kernel.warmup(p, 100, grid=(1,))
        others.append(kernel.warmup(p, 3, grid=(1,)))
        executor.run()
        with pytest.raises(triton.CompilationError, match="too much"):
            kernel[(1,)](p, 100)


def test_an_error_is_raised_where_the_kernel_is_needed_and_at_the_end() -> None:
    others: list[Any] = []
    with pytest.raises(triton.CompilationError, match="too much"):
        _fail(_make(), others)
    assert others[0].kernel is not None, "the others are waited for, too"
    executor = Waiting()
    with triton.AsyncCompileMode(executor, ignore_errors=True):
        _make().warmup(np.zeros(1, np.int32), 101, grid=(1,))
        executor.run()
    assert active_mode.get() is None


def _raise_in_the_block() -> None:
    executor = Waiting()
    with triton.AsyncCompileMode(executor):
        _make().warmup(np.zeros(1, np.int32), 100, grid=(1,))
        executor.run()
        raise KeyError("mine")


def test_an_error_of_the_block_comes_first() -> None:
    with pytest.raises(KeyError, match="mine"):
        _raise_in_the_block()


def test_other_threads_are_not_in_the_mode() -> None:
    kernel, p, made = _make(), np.zeros(1, np.int32), []
    with triton.AsyncCompileMode(Waiting()):
        thread = threading.Thread(target=lambda: made.append(kernel.warmup(p, 5, grid=(1,))))
        thread.start()
        thread.join()
    assert type(made[0]).__name__ == "CompiledKernel"


def test_wrong_use() -> None:
    with pytest.raises(
        TypeError, match=r"executor must be a concurrent.futures.Executor, but got 3"
    ):
        triton.AsyncCompileMode(3)  # type: ignore[arg-type]
    inner = triton.AsyncCompileMode(Waiting())
    outer = triton.AsyncCompileMode(Waiting())
    with outer, pytest.raises(RuntimeError, match="must not be entered inside of another"):
        inner.__enter__()
