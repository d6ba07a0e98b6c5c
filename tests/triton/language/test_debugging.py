"""Assertions, printing and hints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import Kernel, Scalar, emit, value

import emu.triton.language as tl
from emu.tile import reference
from emu.tile.ops import Code
from emu.triton.language.context import building


def test_static_assertions() -> None:
    tl.static_assert(tl.constexpr(3) > 2, "never")
    with pytest.raises(tl.StaticAssertionError, match="BLOCK is 3"):
        tl.static_assert(tl.constexpr(3) == 4, tl.constexpr("BLOCK is 3"))
    with pytest.raises(TypeError, match="must be known at compile time, but got int1"):
        tl.static_assert(value("int1"))


def test_static_print(capsys: Any) -> None:
    emit(lambda x: tl.static_print("x:", x, tl.constexpr(3), sep="|"), value("fp32", (4,)))
    assert capsys.readouterr().out == "x:|fp32[4]|3\n"
    lines = []
    emit(lambda: tl.static_print("a", flush=True), print_=lambda *v, **k: lines.append(v))
    assert lines == [("a",)]


def _codes(function: Any, *given: Any, **options: Any) -> list[Code]:
    _, module = emit(function, *given, **options)
    return [o.code for o in module.kernel.body.walk()]


def test_device_assertions_have_an_effect_only_where_they_are_asked_for() -> None:
    def check(x: Any) -> None:
        tl.device_assert(x > 0, "x must be positive", mask=x < 100)

    assert Code.ASSERT not in _codes(check, value("int32", (4,)))
    assert _codes(check, value("int32", (4,)), debug=True)[-1] is Code.ASSERT


def test_an_assertion_that_does_not_hold_stops_the_program() -> None:
    for limit, holds in ((5, True), (100, False)):
        kernel = Kernel(debug=True)
        with building(kernel.context):
            x = kernel.take(np.array([1, 2, 50, 3], np.int32))
            tl.device_assert(x < 10, "x is too large", mask=x < limit)
            if holds:
                kernel.run()
                continue
            with pytest.raises(reference.ExecutionError, match="x is too large"):
                kernel.run()


@pytest.mark.parametrize(
    ("given", "shown"),
    [("x", " x: "), ("x: ", " x: "), ("x:", " x: "), (" x ", " x: "), ("", ": ")],
)
def test_the_prefix_of_what_is_printed(given: str, shown: str) -> None:
    _, module = emit(lambda x: tl.device_print(given, x, 3, hex=True), value("int32", (4,)))
    (operation,) = [o for o in module.kernel.body.walk() if o.code is Code.PRINT]
    assert operation.attributes == {"prefix": shown, "hex": True}
    assert [str(v.type) for v in operation.operands] == ["tile<4xi32>", "i32"]


def test_a_text_alone_is_printed_as_it_is() -> None:
    _, module = emit(lambda: tl.device_print(tl.constexpr("done")))
    (operation,) = module.kernel.body.walk()
    assert operation.attributes["prefix"] == " done"
    with pytest.raises(TypeError, match="prefix must be a text"):
        emit(lambda: tl.device_print(3))
    with pytest.raises(ValueError, match="prefix must be printable ASCII"):
        emit(lambda: tl.device_print("größe"))


def test_hints_give_their_input() -> None:
    x, s = value("int32", (4, 8)), value("int32")
    for function in (tl.multiple_of, tl.max_contiguous, tl.max_constancy):
        assert emit(function, x, (tl.constexpr(4), 8))[0] is x
        assert emit(function, s, tl.constexpr(16))[0] is s
        assert emit(function, s, 16)[0] is s
        with pytest.raises(ValueError, match=f"values of {function.__name__} must be 2 ints"):
            emit(function, x, 4)
        with pytest.raises(ValueError, match=f"values of {function.__name__} must be 1 ints"):
            emit(function, s, 1.5)
    assert emit(tl.assume, True)[0] is None
    assert emit(tl.expect_zero, x, value("int1", (4, 8)))[0] is x


def test_a_barrier_is_one_operation() -> None:
    assert _codes(tl.debug_barrier) == [Code.BARRIER]


def test_what_a_gpu_only_can_do_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="assembly of a GPU"):
        emit(lambda: tl.inline_asm_elementwise("mov", "=r", [], tl.int32, True, 1))


def test_printing_at_run_time() -> None:
    lines: list[str] = []
    kernel = Kernel()
    with building(kernel.context):
        tl.device_print("n", kernel.take(Scalar(7, "int32")))
        kernel.run(write=lines.append)
    assert "".join(lines).split() == ["pid", "(0,", "0,", "0)", "idx", "()", "n:", "7"]
