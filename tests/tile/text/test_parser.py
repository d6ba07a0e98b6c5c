"""Modules survive being written and read; errors say where they are."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cases import CASES, QUICK
from tile_harness import Kernel, Program
from tile_programs import programs
from variants import thorough

from emu.tile.ir import Function, Location, Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.text import ParseError, parse_module, print_module
from emu.tile.types import F64


def bits(value: object) -> object:
    """A value with its type, floats by their bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return (type(value), value)


class Same:
    """Asserts that two modules are one but for the objects' identity."""

    def __init__(self) -> None:
        self.partner: dict[Value, Value] = {}

    def values(
        self, a: list[Value] | tuple[Value, ...], b: list[Value] | tuple[Value, ...]
    ) -> None:
        assert [(v.type, v.name) for v in a] == [(v.type, v.name) for v in b]
        self.partner.update(zip(a, b, strict=True))

    def regions(self, a: Region, b: Region) -> None:
        self.values(a.arguments, b.arguments)
        assert len(a.operations) == len(b.operations)
        for one, other in zip(a.operations, b.operations, strict=True):
            self.operations(one, other)

    def operations(self, a: Operation, b: Operation) -> None:
        assert (a.code, a.location) == (b.code, b.location)
        assert tuple(self.partner[v] for v in a.operands) == b.operands
        assert list(a.attributes) == list(b.attributes)
        for x, y in zip(a.attributes.values(), b.attributes.values(), strict=True):
            assert bits(x) == bits(y)
        assert len(a.regions) == len(b.regions)
        for one, other in zip(a.regions, b.regions, strict=True):
            self.regions(one, other)
        self.values(a.results, b.results)

    def modules(self, a: Module, b: Module) -> None:
        assert list(a.functions) == list(b.functions)
        for one, other in zip(a.functions.values(), b.functions.values(), strict=True):
            assert (one.name, one.results) == (other.name, other.results)
            self.regions(one.body, other.body)


@pytest.mark.parametrize("program", thorough(CASES, *QUICK), ids=str)
def test_modules_survive_text(program: Program) -> None:
    text = print_module(program.module)
    again = parse_module(text)
    Same().modules(program.module, again)
    assert print_module(again) == text


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_modules_survive_text(program: Program) -> None:
    Same().modules(program.module, parse_module(print_module(program.module)))


names = st.text(max_size=8)

places = st.builds(Location, names, st.integers(0, 99), st.integers(0, 99), names)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(names, st.floats(), places, places), max_size=5),
    st.integers(0, 2**51 - 1),
)
def test_names_locations_and_numbers_are_kept(
    parts: list[tuple[str, float, Location, Location]], payload: int
) -> None:
    nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48 | payload))[0]
    k = Kernel(name="a kernel" if payload % 2 else "kernel")
    for name, number, place, caller in [*parts, *parts, ("n", nan, Location("f", 1, 2), None)]:
        k.builder.location = Location(place.file, place.line, place.column, place.function, caller)
        k.builder.constant(number, F64).name = name
    module = k.program("p").module
    Same().modules(module, parse_module(print_module(module)))


BROKEN = {
    "func @f( {": (1, 10, "expected an argument, but got {"),
    "func @f() {\n  %0 = fly %1 : i32\n}": (2, 8, "there is no operation fly"),
    "func @f() {\n  yield %0\n}": (2, 9, "%0 is not defined here"),
    "func @f() {\n  %0 = constant {value = 1} : i33\n}": (2, 31, "there is no type i33"),
    "func @f(%a: i32, %a: i32) {\n}": (1, 18, "%a is defined twice"),
    "func @f() {\n  return at #3\n}\n": (2, 13, "there is no location #3"),
    "func @f() {\n  ?\n}": (2, 3, "unexpected character '?'"),
    "func @f() {\n  return": (2, 9, "expected an operation, but got the end of the text"),
    "func @f() {\n}\nfunc @f() {\n}": (3, 1, "function @f is defined twice"),
    "func @f() {\n  %0 = constant {value = } : i32\n}": (2, 26, "expected an attribute's value"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_errors_say_where(text: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_module(text)
    line, column, message = BROKEN[text]
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(f"{line}:{column}: {message}")


def test_other_nans_keep_their_bits() -> None:
    negative = math.copysign(math.nan, -1.0)
    module = Module({"f": Function("f", Region())})
    for number in (math.nan, negative, math.inf, -math.inf, 5e-324, -0.0):
        constant = Operation(Code.CONSTANT, (), (F64,), {"value": number})
        module.functions["f"].body.operations.append(constant)
    text = print_module(module)
    assert [line.split("= ")[2].split("}")[0] for line in text.splitlines()[1:-1]] == [
        "nan",
        "nan(0xfff8000000000000)",
        "inf",
        "-inf",
        "5e-324",
        "-0.0",
    ]
    Same().modules(module, parse_module(text))
