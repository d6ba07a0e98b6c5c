"""The verifier takes what is right and refuses each thing that is wrong, naming it and its place."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_harness import Kernel, Program
from tile_programs import programs
from tile_refusals import check_refused

from emu.tile.ir import Function, Location, Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.rules import RULES
from emu.tile.text import parse_module
from emu.tile.types import F32, I1, I32, Pointer, Tile, Type
from emu.tile.verify import VerifyError, verify


@pytest.mark.parametrize("program", CASES, ids=str)
def test_right_programs_pass(program: Program) -> None:
    verify(program.module)


@settings(max_examples=150, deadline=None)
@given(programs())
def test_random_programs_pass(program: Program) -> None:
    verify(program.module)


def test_each_code_has_a_rule() -> None:
    assert set(RULES) == set(Code)


WRONG = {
    "%r = constant {value = 1} : tile<0xi32>": "extents of a tile must be 1 or more",
    "return": "it must be the last of its region",
    "yield": "it must be the last of its region",
    "for %i, %i, %i": "the number of its regions must be 1, but got 0",
    '%r = call %i {callee = "nobody"} : i32': "there is no function nobody",
    'call {callee = "kernel"}': "the kernel kernel cannot be called",
    '%r = call %f {callee = "helper"} : i32': "arguments of helper must be (i32), but got (f32)",
    '%r = call %i {callee = "helper"} : f32': "its results must be (i32), but got (f32)",
    "%r = reduce %t {axis = 0} : tile<8xi32> (%a: i32, %b: i32) {\n%z = load %q : i32\nyield %z\n}": (
        "must compute with scalars alone, without effects"
    ),
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_operations_are_refused(line: str) -> None:
    check_refused(line, WRONG[line])


def kernel(*operations: Operation, arguments: tuple[Type, ...] = ()) -> Module:
    region = Region([Value(t) for t in arguments], [*operations, Operation(Code.RETURN)])
    return Module({"kernel": Function("kernel", region)})


def test_values_are_defined_before_they_are_used() -> None:
    one = Operation(Code.CONSTANT, (), (I32,), {"value": 1})
    two = Operation(Code.NEG, one.results, (I32,))
    verify(kernel(one, two))
    with pytest.raises(VerifyError, match="is not visible here: nothing defines it"):
        verify(kernel(two, one))


def test_values_of_a_region_are_not_visible_behind_it() -> None:
    k = Kernel()
    inner: list[Value] = []
    region = k.region(lambda: inner.append(k.number(1)) or [])
    k.builder.if_(k.number(1, I1), region, k.region(list))
    k.builder.unary(Code.NEG, inner[0])
    with pytest.raises(VerifyError, match="is not visible here: it is defined elsewhere"):
        verify(k.program("p").module)


def test_values_are_defined_once() -> None:
    one = Operation(Code.CONSTANT, (), (I32,), {"value": 1})
    with pytest.raises(VerifyError, match="is defined twice"):
        verify(kernel(one, one))
    stolen = Operation(Code.CONSTANT, (), (I32,), {"value": 1})
    stolen.results = one.results
    with pytest.raises(VerifyError, match="is not what defines it"):
        verify(kernel(stolen))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: m.functions.clear(), "a module must have a kernel"),
        (lambda m: m.kernel.body.operations.clear(), "must end with return"),
        (lambda m: m.functions.update(other=m.functions.pop("kernel")), "is listed as other"),
        (lambda m: setattr(m.kernel, "results", (I32,)), "must not return anything"),
        (lambda m: m.kernel.body.arguments.append(Value(Tile((2,), F32))), "scalars or pointers"),
    ],
)
def test_wrong_kernels_are_refused(spoil: Callable[[Module], object], message: str) -> None:
    module = kernel(arguments=(I32, Pointer(F32)))
    verify(module)
    spoil(module)
    with pytest.raises(VerifyError, match=message):
        verify(module)


def test_functions_return_what_they_say() -> None:
    text = "func @kernel() {\n return\n}\nfunc @f(%i: i32) -> (f32) {\n return %i\n}"
    with pytest.raises(VerifyError, match=re.escape("what f returns must be (f32), but got (i32)")):
        verify(parse_module(text))


def test_recursion_is_refused() -> None:
    call = '%r = call %i {callee = "NAME"} : i32'
    text = "func @kernel() {\n return\n}\n"
    for name, callee in (("f", "g"), ("g", "h"), ("h", "g")):
        text += (
            f"func @{name}(%i: i32) -> (i32) {{\n{call.replace('NAME', callee)}\nreturn %r\n}}\n"
        )
    with pytest.raises(VerifyError, match="functions call themselves: f -> g -> h -> g"):
        verify(parse_module(text))


def test_effects_in_functions_that_combine_are_refused() -> None:
    text = """
func @kernel(%q: ptr<i32>) {
  %t = constant {value = 1} : tile<8xi32>
  %r = reduce %t {axis = 0} : i32 (%a: i32, %b: i32) {
    %c = call %a, %q {callee = "put"} : i32
    yield %c
  }
  return
}
func @put(%a: i32, %q: ptr<i32>) -> (i32) {
  store %q, %a
  return %a
}
"""
    with pytest.raises(VerifyError, match="store: what combines elements must compute"):
        verify(parse_module(text))


def test_errors_show_the_operation_in_its_program_and_its_place() -> None:
    k = Kernel()
    b = k.builder
    first = k.number(1)
    b.location = Location("add.py", 12, 7, "kernel")
    wrong = b.append(Code.ADD, (first, k.number(2, F32)), (I32,))
    b.location = None
    with pytest.raises(VerifyError) as error:
        verify(k.program("p").module)
    assert error.value.operation is wrong
    assert str(error.value).splitlines() == [
        "add.py:12:7: add: its operands must be (i32, i32), but got (i32, f32)",
        "  func @kernel() {",
        "    %0 = constant {value = 1} : i32",
        "    %1 = constant {value = 2} : f32 at #0",
        ">   %2 = add %0, %1 : i32 at #0",
        "    return",
        "  }",
        '  #0 = "add.py":12:7 in "kernel"',
    ]
