"""Statements of kernels do what the same Python does."""

import pytest
from triton_kernels import ints

from emu.tile.reference import ExecutionError
from emu.triton import language as tl
from emu.triton.source import JITCallable as jit

# ---- assignments


@jit
def augments(x, out):
    a = tl.load(x)
    a += 3
    a -= 1
    a *= 5
    a //= 2
    a %= 13
    a <<= 2
    a >>= 1
    a |= 64
    a ^= 5
    a &= 127
    tl.store(out, a)


@pytest.mark.parametrize("value", [0, 1, 7, 100])
def test_augmented_assignments_are_operators(launch, value):
    out = ints(0)
    launch(augments, ints(value), out)
    a = (value + 3 - 1) * 5 // 2 % 13
    assert out[0] == ((a << 2 >> 1 | 64) ^ 5) & 127


# ---- if


# ---- loops


# ---- leaving early


# ---- diagnosis


@jit
def asserts(x, out):
    """Docstrings are allowed."""
    v = tl.load(x)
    assert v > 3, f"too small in {tl.constexpr(5)}"
    tl.store(out, v)


def test_assert_is_checked_while_a_debugged_program_runs(launch):
    out = ints(0)
    launch(asserts, ints(2), out)
    assert out[0] == 2
    launch(asserts, ints(5), out, debug=True)
    assert out[0] == 5
    with pytest.raises(ExecutionError, match=r"test_statements.py:\d+:5: .*: too small in 5"):
        launch(asserts, ints(3), out, debug=True)


@jit
def prints(n):
    print("n is", n)
    tl.static_print("width", tl.constexpr(4))


def test_print_prints_while_the_program_runs_static_print_while_it_is_compiled(launch, capsys):
    printed = launch(prints, 42)
    assert "42" in "".join(printed)
    assert capsys.readouterr().out == "width 4\n"
