"""Dtypes of results: every pair of dtypes, and every dtype with every kind of number."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from language_harness import DTYPES, emit, value

import emu.triton.language as tl

NAMES = list(DTYPES)
INTEGERS = NAMES[:9]

# What dtypes give with each other, written down pair by pair: row and column in the order of NAMES.
# b int1, c/s/i/l int8 to int64, C/S/I/L unsigned, 4/5 fp8e4nv and fp8e5, h fp16, n bf16, f fp32, d fp64,
# - is refused.
LETTERS = dict(zip("bcsilCSIL45hnfd", NAMES, strict=True))
TABLE = """
b c s i l C S I L - - h f f d
c c s i l C S I L - - h f f d
s s s i l s S I L - - h f f d
i i i i l i i I L - - h f f d
l l l l l l l l L - - h f f d
C C s i l C S I L - - h f f d
S S S i l S S I L - - h f f d
I I I I l I I I L - - h f f d
L L L L L L L L L - - h f f d
- - - - - - - - - 4 h h f f d
- - - - - - - - - h 5 h f f d
h h h h h h h h h h h h h f d
f f f f f f f f f f f h n f d
f f f f f f f f f f f f f f d
d d d d d d d d d d d d d d d
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
PAIRS = [(a, b, LETTERS.get(ROWS[i][j])) for i, a in enumerate(NAMES) for j, b in enumerate(NAMES)]
COMMON = {(a, b): wanted for a, b, wanted in PAIRS}


@pytest.mark.parametrize("operation", [operator.add, operator.mul, operator.sub, tl.maximum])
def test_arithmetic_of_two_tensors_gives_the_dtype_of_the_table(operation: Any) -> None:
    for a, b, wanted in PAIRS:
        if wanted is None:
            with pytest.raises(TypeError, match=rf"{a}.* and .*{b}"):
                emit(operation, value(a, (4,)), value(b, (4,)))
        else:
            result, _ = emit(operation, value(a, (4,)), value(b, (4,)))
            assert (a, b, result.dtype.name) == (a, b, wanted)


def test_a_scalar_tensor_promotes_like_any_tensor() -> None:
    for a, b, wanted in PAIRS:
        if wanted is not None:
            result, _ = emit(operator.add, value(a, (4,)), value(b))
            assert (a, b, str(result)) == (a, b, f"{wanted}[4]")


def test_division_of_floats_is_in_fp32_at_least() -> None:
    for a, b, wanted in PAIRS:
        integers = a in INTEGERS and b in INTEGERS
        if integers:
            continue
        for operation in (operator.truediv, operator.mod):
            result, _ = emit(operation, value(a, (4,)), value(b, (4,)))
            assert result.dtype.name == ("fp64" if wanted == "fp64" else "fp32")
        with pytest.raises(TypeError, match="// must have integers"):
            emit(operator.floordiv, value(a, (4,)), value(b, (4,)))


def test_division_of_integers_wants_one_signedness() -> None:
    signed = ["int8", "int16", "int32", "int64"]
    for a in INTEGERS:
        for b in INTEGERS:
            for operation in (operator.truediv, operator.floordiv, operator.mod):
                pair = value(a, (4,)), value(b, (4,))
                if (a in signed) != (b in signed):
                    with pytest.raises(
                        TypeError,
                        match=f"Cannot use .* with {a} and {b} because they have different signedness",
                    ):
                        emit(operation, *pair)
                    continue
                wanted = COMMON[a, b]
                result, _ = emit(operation, *pair)
                assert result.dtype.name == ("fp32" if operation is operator.truediv else wanted)


NUMBERS: dict[Any, str] = {
    True: "int1",
    3: "int32",
    2**31: "uint32",
    2**40: "int64",
    2**63: "uint64",
    1.5: "fp32",
    float("inf"): "fp32",
    1e-40: "fp64",
    1e300: "fp64",
}


@pytest.mark.parametrize("number", list(NUMBERS), ids=repr)
@pytest.mark.parametrize("wrap", [lambda x: x, tl.constexpr], ids=["number", "constexpr"])
def test_a_number_alone_gets_the_smallest_dtype(number: Any, wrap: Any) -> None:
    result, _ = emit(tl.to_tensor, wrap(number))
    assert result.dtype.name == NUMBERS[number]


def _with_number(name: str, number: Any) -> str | None:
    """The dtype of ``tensor + number``, or None where it is refused."""
    dtype = DTYPES[name]
    kind = {"b": 0, "i": 1, "u": 1}.get(dtype.kind, 2)
    number_kind = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2
    if number_kind > kind:
        return COMMON[name, NUMBERS[number]]
    if kind == 1 and number_kind == 1:
        bits = 8 * dtype.itemsize - (dtype.kind == "i")
        return name if number < 2**bits else None
    return name


@pytest.mark.parametrize("number", list(NUMBERS), ids=repr)
def test_a_number_promotes_only_by_its_kind(number: Any) -> None:
    for name in NAMES:
        wanted = _with_number(name, number)
        for given in (number, tl.constexpr(number)):
            for swapped in (False, True):
                tensor = value(name, (4,))
                pair = (given, tensor) if swapped else (tensor, given)
                if wanted is None:
                    with pytest.raises(ValueError, match=f"{number}"):
                        emit(operator.add, *pair)
                else:
                    result, _ = emit(operator.add, *pair)
                    assert (name, result.dtype.name) == (name, wanted)


def test_comparisons_give_int1() -> None:
    for operation in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        for a, b, wanted in PAIRS:
            if wanted is not None:
                result, _ = emit(operation, value(a, (4,)), value(b, (4,)))
                assert str(result) == "int1[4]"


def test_bits_are_of_integers_only() -> None:
    for operation in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        for a, b, wanted in PAIRS:
            if wanted in INTEGERS:
                result, _ = emit(operation, value(a, (4,)), value(b, (4,)))
                assert result.dtype.name == wanted
            else:
                with pytest.raises(TypeError, match=r"cannot|invalid operands of type"):
                    emit(operation, value(a, (4,)), value(b, (4,)))


def test_a_negative_number_and_an_unsigned_tensor_are_refused() -> None:
    with pytest.raises(ValueError, match="negative number cannot be combined with unsigned uint32"):
        emit(operator.add, value("uint32", (4,)), -1)


def test_numbers_that_no_dtype_holds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be in \[-2\*\*63, 2\*\*64\)"):
        emit(tl.to_tensor, 2**64)
    with pytest.raises(TypeError, match="cannot convert 'x' of type str"):
        emit(tl.to_tensor, "x")


def test_three_operands_take_the_numbers_last() -> None:
    result, _ = emit(tl.clamp, value("fp16", (4,)), 0.1, value("bf16", (4,)))
    assert result.dtype.name == "fp16"
    result, _ = emit(tl.clamp, value("int8", (4,)), 0, 100)
    assert result.dtype.name == "int8"
    result, _ = emit(tl.clamp, value("int8", (4,)), 0.5, 1)
    assert result.dtype.name == "fp32"
