"""Kernels as parts of others: what a callee computes, when it is compiled for Python, and what it costs."""

import numba
import numpy as np
import pytest
from numba import literally, types

from emu.kernels.core import linking
from emu.kernels.core.jit import jit


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path / "cache"))


def library(function, *arguments):
    return function.overloads[arguments].library


def test_a_callee_has_no_machine_code_of_its_own():
    @jit()
    def callee(x):
        return x + 1

    @jit()
    def caller(x):
        return 2 * callee(x)

    assert caller(3) == 8
    assert isinstance(library(callee, types.int64), linking.Library)
    assert not library(callee, types.int64)._finalized
    assert library(caller, types.int64)._finalized


def test_a_callee_is_compiled_for_python_when_it_is_called():
    @jit()
    def callee(x):
        return x + 1

    @jit()
    def caller(x):
        return 2 * callee(x)

    @jit()
    def later(x):
        return 3 * callee(x)

    assert [caller(3), callee(3), later(3)] == [8, 4, 12]
    assert len(callee.overloads) == 1
    assert library(callee, types.int64)._finalized


def test_a_callee_reached_on_two_ways_is_linked_once():
    @jit()
    def bottom(x):
        return x + 1

    @jit()
    def left(x):
        return bottom(x) * 2

    @jit()
    def right(x):
        return bottom(x) * 3

    @jit()
    def top(x):
        return left(x) + right(x) + bottom(x)

    assert top(1) == 12


def test_a_callee_of_a_callee_may_be_linked_before_what_refers_to_it():
    @jit(inline="always")
    def inlined(x):
        return np.zeros(3, np.int8)[x] + x

    @jit()
    def callee(x):
        return inlined(x) + np.zeros(3, np.int8)[x]

    @jit()
    def caller(x, deep):
        return callee(x) if deep else inlined(x)

    assert caller(2, True) == 2


def test_an_error_raised_in_a_callee_reaches_python_with_its_arguments():
    @jit()
    def callee(x):
        if x < 0:
            raise ValueError("negative", x)
        return x

    @jit()
    def caller(x):
        return callee(x) + 1

    assert caller(1) == 2
    with pytest.raises(ValueError, match="negative") as caught:
        caller(-7)
    assert caught.value.args == ("negative", -7)


def test_a_callee_that_needs_its_environment_has_it(capfd):
    @jit()
    def callee(x):
        print("from the callee", x)
        return x

    @jit()
    def caller(x):
        return callee(x)

    assert caller(5) == 5
    assert capfd.readouterr().out == "from the callee 5\n"


def test_functions_may_call_themselves_and_each_other():
    @jit()
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    @jit()
    def is_even(n):
        if n == 0:
            return True
        return is_odd(n - 1)

    @jit()
    def is_odd(n):
        if n == 0:
            return False
        return is_even(n - 1)

    @jit()
    def caller(n):
        return factorial(n) + (1000 if is_even(n) else 0)

    assert [caller(4), caller(5)] == [1024, 120]


def test_numba_functions_of_users_call_kernels():
    @jit()
    def kernel(x):
        return x + 1

    @numba.njit
    def of_a_user(x):
        return kernel(x) * 10

    assert of_a_user(1) == 20
    assert not isinstance(library(of_a_user, types.int64), linking.Library)


def test_a_parallel_loop_calls_a_kernel():
    @jit()
    def square(x):
        return x * x

    @jit(parallel=True)
    def squares(values):
        for i in numba.prange(values.size):
            values[i] = square(values[i])

    values = np.arange(10.0)
    squares(values)
    np.testing.assert_array_equal(values, np.arange(10.0) ** 2)


def test_a_callee_may_ask_for_literals():
    @jit()
    def callee(x, n):
        return x + literally(n)

    @jit()
    def caller(x):
        return callee(x, 2)

    assert caller(1) == 3


@pytest.mark.parametrize("optimize_first", [False, True])
def test_optimizing_a_callee_first_changes_no_result(optimize_first):
    @jit(optimize_first=optimize_first)
    def total(values):
        found = 0.0
        for value in values:
            found += value
        return found

    @jit()
    def mean(values):
        return total(values) / values.size

    assert mean(np.array([0.1, 0.2, 0.7])) == (0.1 + 0.2 + 0.7) / 3


def test_the_garbage_collector_and_numba_are_left_as_they_were():
    import gc

    from numba.core.registry import cpu_target

    generator = cpu_target.target_context.codegen()
    before = gc.get_threshold(), generator._library_class

    @jit()
    def broken(x):
        return x.no_such_attribute

    with pytest.raises(numba.TypingError):
        broken(1)
    assert (gc.get_threshold(), generator._library_class) == before
