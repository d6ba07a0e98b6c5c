"""Aggregates: fields, methods, inheritance, and instances in kernels, loops and branches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from language_harness import on_both

import emu.triton.language as tl
from emu import triton


@triton.aggregate
class Extremes:
    low: tl.tensor
    high: tl.tensor
    N: tl.constexpr

    @triton.jit
    def widened(self, x):
        return Extremes(tl.minimum(self.low, x), tl.maximum(self.high, x), self.N)

    @triton.constexpr_function
    def half(self):
        return self.N // 2

    def first(self):
        return self.low

    @triton.jit
    def __getitem__(self, i: tl.constexpr):
        return self.low if i == 0 else self.high

    @triton.jit
    def __sub__(self, other):
        return self.high - other.low

    @staticmethod
    @triton.jit
    def around(x, N: tl.constexpr):
        return Extremes(x, x, N)


@triton.jit
def fold(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = Extremes.around(tl.load(x + i), N)
    for row in range(1, n):
        v = tl.load(x + row * N + i)
        if row % 2 == 0:
            a = a.widened(v)
        elif row == 1:
            a = Extremes(a.low, tl.maximum(a.high, v), N)
    width: tl.constexpr = a.half()
    tl.static_assert(width == N // 2)
    tl.store(out + i, a[0])
    tl.store(out + N + i, a[1] + width)
    tl.store(out + 2 * N + i, a.first() + (a - a))


def test_instances_are_carried_through_loops_and_branches() -> None:
    x = np.random.default_rng(3).integers(-99, 99, (7, 16)).astype(np.float32)
    _, out, *_ = on_both(fold, x, np.zeros((3, 16), np.float32), 7, N=16)
    low, high = x[::2].min(axis=0), x[[0, 1, 2, 4, 6]].max(axis=0)
    np.testing.assert_array_equal(out, [low, high + 8, low + high - low])


@triton.jit
def passed(state, out):
    tl.store(out, tl.sum(state.low) + state.N)
    return tl.aggregate_replace(state, high=state.high * 2)


@triton.jit
def passes(out, N: tl.constexpr):
    i = tl.arange(0, N)
    state = Extremes(i, i + 1, N)
    changed = passed(state, out)
    tl.store(out + 1, tl.sum(changed.high))
    tl.store(out + 2, tl.sum(state.high))


def test_instances_are_arguments_and_results() -> None:
    (out,) = on_both(passes, np.zeros(3, np.int32), N=8)
    assert out.tolist() == [28 + 8, 72, 36]


@triton.aggregate
class Base:
    x: tl.constexpr
    y: tl.constexpr = 7

    @triton.constexpr_function
    def total(self):
        return self.x + self.y


@triton.aggregate
class Child(Base):
    z: tl.tuple = (1, 2)


class Pair(NamedTuple):
    a: Any
    b: Any


def test_fields_are_set_in_order_by_name_and_by_default() -> None:
    child = Child(1, z=Pair(3, 4))
    assert (child.x.value, child.y.value, child.z.b.value) == (1, 7, 4)
    assert child.total().value == 8
    assert Child(1, 2).z[1].value == 2
    other = tl.aggregate_replace(child, x=5)
    assert (other.x.value, child.x.value) == (5, 1)
    assert repr(Base(1)) == "Base(x=constexpr[1], y=constexpr[7])"


def test_an_own_init_runs_and_must_set_every_field() -> None:
    @triton.aggregate
    class Squared:
        x: tl.constexpr
        xx: tl.constexpr

        def __init__(self, x: int, complete: bool = True) -> None:
            self.x = tl.constexpr(x)
            if complete:
                self.xx = tl.constexpr(x * x)

    assert Squared(3).xx.value == 9
    with pytest.raises(AttributeError, match="__init__ of Squared must set 'xx'"):
        Squared(3, complete=False)


def test_wrong_fields_are_named() -> None:
    with pytest.raises(TypeError, match=r"Child.* has no field 'w'; its fields are x, y, z"):
        Child(1, w=2)
    with pytest.raises(TypeError, match=r"Base\(\) takes 2 fields, but got 3"):
        Base(1, 2, 3)
    with pytest.raises(TypeError, match=r"Base\(\) needs 'x'"):
        Base()
    with pytest.raises(TypeError, match=r"got 'x' twice"):
        Base(1, x=2)
    with pytest.raises(TypeError, match="low of Extremes must be a tensor, but got constexpr"):
        Extremes(1, 2, 3)
    with pytest.raises(AttributeError, match="cannot assign to field 'x' on immutable"):
        Base(1).x = tl.constexpr(2)
    with pytest.raises(AttributeError, match="Base has no field 'w'"):
        Base(1).w = tl.constexpr(2)
    with pytest.raises(TypeError, match="Base has no field 'w'"):
        tl.aggregate_replace(Base(1), w=2)
    with pytest.raises(TypeError, match="expects an aggregate instance, but got int"):
        tl.aggregate_replace(3, w=2)
    with pytest.raises(
        TypeError, match="can only inherit from other aggregates, but Bad has the bases dict"
    ):
        triton.aggregate(type("Bad", (dict,), {}))
    with pytest.raises(TypeError, match="needs a class, but got 3"):
        triton.aggregate(3)  # type: ignore[arg-type]  # what is refused


@triton.jit
def known_changes(n, N: tl.constexpr):
    a = Extremes(tl.arange(0, N), tl.arange(0, N), N)
    if n > 3:
        a = Extremes(a.low, a.high, N + 1)


@triton.jit
def assigns(n, N: tl.constexpr):
    a = Extremes(tl.arange(0, N), tl.arange(0, N), N)
    a.low = a.high


@triton.jit
def no_index(n, N: tl.constexpr):
    b = Base(1)
    b[0]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (known_changes, "the then block redefines it as Extremes"),
        (assigns, "Attribute assignment is not supported"),
        (no_index, "Base has no __getitem__"),
    ],
)
def test_misuse_in_a_kernel_is_an_error_with_its_place(kernel: Any, said: str) -> None:
    with pytest.raises(triton.CompilationError, match=said):
        kernel[(1,)](5, N=8)


def test_the_kernels_key_depends_on_the_methods() -> None:
    def make(source: str) -> Any:
        @triton.aggregate
        class Held:
            x: tl.tensor

            @triton.jit
            def value(self):
                return self.x + 1

        Held.value._unsafe_update_src(source)

        @triton.jit
        def kernel(out):
            tl.store(out, Held(tl.load(out)).value())

        return kernel

    one, two = (make(f"def value(self):\n    return self.x + {n}\n") for n in (1, 2))
    assert one.cache_key != two.cache_key
