"""Branches: variables that both sides assign, and sides that are never visited."""

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit


@jit
def branches(x, out):
    v = tl.load(x)
    y = 0
    if v > 10:
        y = 1
        z = v * 2
    elif v > 5:
        y = 2
        z = v * 3
        unused = 1
    else:
        z = v
    if v == 7:
        pass
    elif v == 8:
        y = -y
    if v:
        z += 100
    tl.store(out, y)
    tl.store(out + 1, z)


@pytest.mark.parametrize("value", [0, 5, 6, 7, 8, 10, 11])
def test_branches_merge_their_variables(launch, value):
    out = ints(0, 0)
    launch(branches, ints(value), out)
    y, z = (1, value * 2) if value > 10 else (2, value * 3) if value > 5 else (0, value)
    assert out.tolist() == [-y if value == 8 else y, z + 100 if value else z]


@jit
def static_branch(x, out, FLAG: tl.constexpr, other=None):
    if FLAG == "double":
        y = tl.load(x) * 2
    elif other is not None:
        y = tl.load(other)
    else:
        y = nowhere_defined(x)  # noqa: F821
    if FLAG == "double" and other is None:
        y += 1
    tl.store(out, y)


def test_only_the_live_branch_of_a_known_condition_is_visited(launch):
    out = ints(0)
    launch(static_branch, ints(4), out, FLAG="double")
    assert out[0] == 9
    launch(static_branch, ints(4), out, ints(6), FLAG="")
    assert out[0] == 6


@jit
def specialised(n, out, m):
    if m > 5:
        n = n + 1
    tl.store(out, n)


def test_a_known_integer_that_a_branch_reassigns_becomes_a_tensor(launch):
    out = ints(0)
    for m, expected in ((3, 1), (9, 2)):
        launch(specialised, out, m, n=1)
        assert out[0] == expected
