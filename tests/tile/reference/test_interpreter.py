"""Programs, loops, errors and arguments in the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tile_harness import Kernel

from emu.tile import reference
from emu.tile.ir import Location, Module
from emu.tile.ops import Code, Rmw
from emu.tile.reference import ExecutionError
from emu.tile.types import (
    F32,
    I8,
    I32,
    I64,
    U8,
)


def test_programs_run_with_x_fastest() -> None:
    k = Kernel()
    b = k.builder
    place = b.atomic_rmw(Rmw.ADD, k.pointer(np.zeros(1, np.int32)), k.number(1))
    out = k.pointer(np.zeros(12, np.int32))
    digits = k.number(0)
    for axis in (2, 1, 0):
        digits = b.binary(Code.ADD, b.binary(Code.MUL, digits, k.number(10)), b.program_id(axis))
    b.store(b.ptr_add(out, place), digits)
    got = k.program("p", (3, 2, 2)).run_reference()[-1]
    assert got.tolist() == [0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112]


def failing(
    build: Callable[[Kernel], object], grid: tuple[int, int, int] = (1, 1, 1)
) -> ExecutionError:
    k = Kernel()
    k.builder.location = Location("kernel.py", 4, 9)
    build(k)
    with pytest.raises(ExecutionError) as error:
        k.program("p", grid).run_reference()
    return error.value


def test_assertions_say_program_and_place() -> None:
    def build(k: Kernel) -> None:
        b = k.builder
        below = b.compare(Code.LT, b.program_id(0), k.number(2))
        b.assert_(below, "too far")  # noqa: PT009 - the builder's

    error = failing(build, (4, 1, 1))
    assert error.program == (2, 0, 0)
    assert error.location == Location("kernel.py", 4, 9)
    assert str(error) == "kernel.py:4:9: assertion failed: too far (program (2, 0, 0))"


def test_bad_indices_addresses_and_steps_are_errors() -> None:
    def gather(k: Kernel) -> None:
        k.result(k.builder.gather(k.builder.arange(0, 4), k.number(4, I32, (2,)), 0))

    def null(k: Kernel) -> None:
        pointer = k.pointer(np.ones(1, np.float32))
        k.builder.load(k.builder.cast(k.number(0, I64), pointer.type))

    def loop(k: Kernel) -> None:
        zero = k.number(0)
        with k.builder.for_(zero, k.number(3), zero, []):
            k.builder.yield_()

    assert "an index of gather must be 0 to 3, but got 4" in str(failing(gather))
    assert "a pointer must not be null" in str(failing(null))
    assert "the step of a loop must not be 0" in str(failing(loop))


def test_printing_names_program_and_element() -> None:
    k = Kernel()
    b = k.builder
    b.print_(" x: ", [b.arange(5, 15)])
    b.print_(" both: ", [b.program_id(0), k.number(1.5, F32)])
    b.print_(": ", [k.number(-1, I8), k.number(0.3, F32)], hex_=True)
    b.print_(" here", [])
    lines: list[str] = []
    module = k.program("p").module
    reference.run(module, [], (1, 1, 1), write=lines.append)
    assert lines == [
        *(f"pid (0, 0, 0) idx ({i}) x: {5 + i}\n" for i in range(10)),
        "pid (0, 0, 0) idx () both: (operand 0) 0\n",
        "pid (0, 0, 0) idx () both: (operand 1) 1.500000\n",
        "pid (0, 0, 0) idx (): (operand 0) 0xff\n",
        "pid (0, 0, 0) idx (): (operand 1) 0x1.333334p-2\n",
        "pid (0, 0, 0) here\n",
    ]


def test_arguments_are_checked() -> None:
    k = Kernel()
    k.argument(I32, 0)
    k.argument(U8, 0)
    module: Module = k.program("p").module
    for arguments, message in [
        ((1,), "arguments must be 2 numbers, but got 1"),
        ((2**31, 1), "an argument of type i32 must be -2147483648 to 2147483647"),
        ((0, -1), "an argument of type u8 must be 0 to 255, but got -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            reference.run(module, arguments)


def test_loops_near_the_limit_of_their_dtype_end() -> None:
    k = Kernel()
    bounds = [k.number(n, I8) for n in (100, 127, 20)]
    with k.builder.for_(*bounds, [k.number(0)]) as loop:
        k.builder.yield_(k.builder.binary(Code.ADD, loop.carried[0], k.number(1)))
    k.result(loop.results[0])
    assert k.program("p").run_reference()[-1].tolist() == [2]
