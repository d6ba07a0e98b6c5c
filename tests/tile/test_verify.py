"""The verifier takes what is right and refuses each thing that is wrong, naming it and its place."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_harness import Kernel, Program
from tile_programs import programs

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
    "%r = add %i, %f : i32": "its operands must be (i32, i32), but got (i32, f32)",
    "%r = add %i : i32": "it must have 2 operands, but got 1",
    "%r = add %i, %i : i64": "its results must be (i32), but got (i64)",
    "%r = add %p, %p : ptr<f32>": "it takes numbers, but got ptr<f32>",
    "%r = add %i, %i {exact = true} : i32": "it has no attribute exact",
    "%r = div %c, %c : i1": "it does not take i1",
    "%r = shl %f, %f : f32": "it takes integers or i1, but got f32",
    "%r = pow %i, %i : i32": "it takes floating-point values, but got i32",
    "%r = exp %t : tile<4x8xi32>": "it takes floating-point values",
    "%r = not %f : f32": "it takes integers or i1",
    "%r = neg %c : i1": "it takes integers or floating-point values",
    "%r = max %f, %f {propagate_nan = 1} : f32": "propagate_nan must be a bool, but got 1",
    "%r = lt %t, %t : tile<4x8xi32>": "its results must be (tile<4x8xi1>)",
    "%r = select %i, %f, %f : f32": "its operands must be (i1, f32, f32)",
    "%r = fma %i, %i, %i : i32": "it takes floating-point values",
    "%r = cast %p : i32": "no cast ptr<f32> to i32",
    '%r = cast %f {rounding = "up"} : i32': 'rounding must be "rtne" or "rtz"',
    "%r = cast %t : tile<8x4xf32>": "its results must be (tile<4x8xf32>)",
    "%r = bitcast %f : i64": "widths must be equal, but got f32 and i64",
    "%r = constant : i32": "it must have the attribute value",
    "%r = constant {value = 1.5} : i32": "a value of i32 must be an int, but got 1.5",
    "%r = constant {value = 2147483648} : i32": "a value of i32 must be -2147483648 to 2147483647",
    "%r = constant {value = 2} : i1": "a value of i1 must be 0 to 1, but got 2",
    '%r = constant {value = "1"} : i32': "value must be a number",
    "%r = constant {value = 1} : tile<0xi32>": "extents of a tile must be 1 or more",
    "%r = program_id {axis = 3} : i32": "axis must be 0 to 2, but got 3",
    "%r = program_id {axis = 0} : i64": "its results must be (i32)",
    "%r = arange {start = 3, end = 3} : tile<1xi32>": "start must be less than end",
    "%r = arange {start = 0, end = 8} : tile<4xi32>": "its results must be (tile<8xi32>)",
    "%r = splat %t : tile<8xi32>": "its operand must be a scalar",
    "%r = splat %i : i32": "its result must be a tile",
    "%r = broadcast %t : tile<8x8xi32>": "cannot be broadcast",
    "%r = reshape %t : tile<33xi32>": "cannot be reshaped",
    "%r = reshape %t : tile<32xf32>": "its results must be (tile<32xi32>)",
    "%r = permute %t {order = (0, 0)} : tile<4x8xi32>": "order must permute 2 axes",
    "%r = permute %t {order = (1, 0)} : tile<4x8xi32>": "its results must be (tile<8x4xi32>)",
    "%r = join %t, %i : tile<4x8x2xi32>": "its operands must be",
    "%r, %s = split %t : i32, i32": "the last axis must have extent 2",
    "%r = cat %t, %t {axis = 2} : tile<4x8xi32>": "axis must be 0 to 1, but got 2",
    "%r = cat %t, %t {axis = 1} : tile<8x8xi32>": "its results must be (tile<4x16xi32>)",
    "%r = gather %t, %x {axis = 0} : tile<4x8xi32>": "it takes integers as indices",
    "%r = flip %t {axis = -1} : tile<4x8xi32>": "axis must be 0 to 1, but got -1",
    "%r = ptr_add %p, %f : ptr<f32>": "it takes integers as offsets",
    "%r = ptr_add %p, %t : ptr<f32>": "its operands must be (ptr<f32>, i32)",
    "%r = load %i : i32": "its first operand must be a pointer",
    "%r = load %p, %i : f32": "its operands must be (ptr<f32>, i1)",
    "%r = load %p, %c, %i : f32": "its operands must be (ptr<f32>, i1, f32)",
    "store %p, %i": "its operands must be (ptr<f32>, f32)",
    '%r = atomic_rmw %p, %f {kind = "nand"} : f32': "there is no kind 'nand'",
    '%r = atomic_rmw %p, %f {kind = "xor"} : f32': "xor takes integers, but got f32",
    "%r = atomic_cas %p, %f, %i : f32": "its operands must be (ptr<f32>, f32, f32)",
    "return": "it must be the last of its region",
    "yield": "it must be the last of its region",
    "%r = for %i, %i, %f, %i : i32 (%a: i32, %b: i32) {\nyield %b\n}": "its bounds must be",
    "%r = for %f, %f, %f, %i : i32 (%a: f32, %b: i32) {\nyield %b\n}": "bounds must be integers",
    "%r = for %i, %i, %i, %i : i32 (%a: i32) {\nyield %a\n}": "the region's arguments must be",
    "%r = for %i, %i, %i, %i : i32 (%a: i32, %b: i32) {\nyield\n}": "what the region yields must",
    "for %i, %i, %i (%a: i32) {\n}": "its region must end with yield",
    "for %i, %i, %i": "the number of its regions must be 1, but got 0",
    "while () {\nyield\n} () {\nyield\n}": "the first region must yield a condition",
    "while %i (%a: i32) {\nyield %i, %i\n} (%b: i32) {\nyield %b\n}": "the condition must be i1",
    "if %i () {\nyield\n} () {\nyield\n}": "the condition must be i1, but got i32",
    "%r = if %c : i32 () {\nyield %i\n} () {\nyield\n}": "what the region yields must be (i32)",
    '%r = call %i {callee = "nobody"} : i32': "there is no function nobody",
    'call {callee = "kernel"}': "the kernel kernel cannot be called",
    '%r = call %f {callee = "helper"} : i32': "arguments of helper must be (i32), but got (f32)",
    '%r = call %i {callee = "helper"} : f32': "its results must be (i32), but got (f32)",
    "%r = reduce %i {axis = 0} : i32 (%a: i32, %b: i32) {\nyield %a\n}": "must be a tile",
    "%r = reduce %t {axis = 0} : tile<8xi32> (%a: i32, %b: f32) {\nyield %a\n}": "arguments must",
    "%r = reduce %t {axis = 0} : tile<4xi32> (%a: i32, %b: i32) {\nyield %a\n}": "its results must",
    "%r = scan %t {axis = 0} : tile<8xi32> (%a: i32, %b: i32) {\nyield %a\n}": "its results must",
    "%r = reduce %t {axis = 0} : tile<8xi32> (%a: i32, %b: i32) {\n%z = load %q : i32\nyield %z\n}": (
        "must compute with scalars alone, without effects"
    ),
    "%r = histogram %t {bins = 4} : tile<4xi32>": "its operand must have one axis",
    "%r = dot %x, %x, %x : tile<4x8xf32>": "it cannot multiply",
    "%r = dot %x, %y, %t : tile<4x8xi32>": "it cannot multiply",
    "barrier %i": "it must have 0 operands, but got 1",
    "%k = join_tokens %i : token\n%r = add %k, %k : token": "its operands must not be tokens",
    "%r = after %i, %i : i32": "its operands must be (i32, token)",
    'assert %i {message = "m"}': "it takes i1, but got i32",
    "assert %c": "it must have the attribute message",
    'print {prefix = "p", hex = 1}': "hex must be a bool",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_operations_are_refused(line: str) -> None:
    text = f"""
func @kernel(%i: i32, %f: f32, %c: i1, %p: ptr<f32>, %q: ptr<i32>) {{
  %t = constant {{value = 1}} : tile<4x8xi32>
  %x = constant {{value = 1}} : tile<4x8xf32>
  %y = constant {{value = 1}} : tile<8x4xf32>
  {line}
  return
}}
func @helper(%i: i32) -> (i32) {{
  return %i
}}
"""
    with pytest.raises(VerifyError, match=re.escape(WRONG[line])):
        verify(parse_module(text))


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
