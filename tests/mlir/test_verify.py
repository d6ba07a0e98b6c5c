"""The verifier: structure, dominance, symbols."""

from collections.abc import Callable

import pytest
from mlir_reading import errors

from emu.mlir import parse
from emu.mlir.attributes import StringAttr, TypeAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.types import FunctionType, IntegerType
from emu.mlir.verify import verified_state, verify

VERIFYING = [
    (
        'func.func @f() {\n  "t.b"(%0) : (i32) -> ()\n  %0 = "t.a"() : () -> i32\n  return\n}',
        [
            "2:3: operand #0 does not dominate this use",
            "3:8: note: operand defined here (op in the same block)",
        ],
    ),
    (
        (
            'func.func @f() {\n  "t.b"() ({\n    %0 = "t.a"() : () -> i32\n    "t.e"() : () -> ()\n  }, {\n'
            '    %1 = "t.a"(%2) : (i8) -> i32\n  }) : () -> ()\n  %2 = "t.a"() : () -> i8\n  return\n}'
        ),
        [
            "6:10: operand #0 does not dominate this use",
            "8:8: note: operand defined here (op in a parent region)",
        ],
    ),
    (
        (
            'func.func @f() {\n  "t.b"()[^bb1, ^bb2] : () -> ()\n^bb1:\n  %0 = "t.a"() : () -> i8\n'
            '  "t.b"()[^bb2] : () -> ()\n^bb2:\n  "t.c"(%0) : (i8) -> ()\n}'
        ),
        [
            "7:3: operand #0 does not dominate this use",
            "4:8: note: operand defined here (op in the same region)",
        ],
    ),
    (
        (
            'func.func @f() {\n  "t.b"()[^bb2] : () -> ()\n^bb1(%a: i8):\n'
            '  "t.b"()[^bb2] : () -> ()\n^bb2:\n  "t.c"(%a) : (i8) -> ()\n}'
        ),
        [
            "6:3: operand #0 does not dominate this use",
            "1:1: note: operand defined as a block argument (block #1 in the same region)",
        ],
    ),
    (
        "func.func @f() { return }\nfunc.func private @f()",
        [
            "2:1: redefinition of symbol named 'f'",
            "1:1: note: see existing symbol definition here",
        ],
    ),
    (
        'func.func @f() {\n  %0 = "func.constant"() <{value = @f}> : () -> (() -> ())\n}',
        [
            '2:8: block with no terminator, has %0 = "func.constant"() <{value = @f}> : () -> (() -> ())'
        ],
    ),
    (
        'func.func @f() {\n  "t.b"()[^bb1] : () -> ()\n^bb1:\n}',
        ["1:1: empty block: expect at least a terminator"],
    ),
    (
        'func.func @f() {\n  "t.b"()[^bb1] : () -> ()\n  return\n^bb1:\n  return\n}',
        ["2:3: operation with block successors must terminate its parent block"],
    ),
    (
        '"func.foo"() : () -> ()',
        [
            (
                "1:1: unregistered operation 'func.foo' found in dialect ('func') "
                "that does not allow unknown operations"
            )
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), VERIFYING)
def test_the_verifier(text: str, expected: list[str]) -> None:
    assert errors(text) == expected


def test_every_function_reports_its_first_error() -> None:
    wrong = 'func.func @{} () {{ "t.b"(%0) : (i8) -> ()  "t.b"(%0) : (i8) -> ()  %0 = "t.a"() : () -> i8  return }}'
    found = errors("\n".join(wrong.format(name) for name in "gh"))
    assert [line for line in found if "note" not in line] == [
        "1:19: operand #0 does not dominate this use",
        "2:19: operand #0 does not dominate this use",
    ]


GOOD = [
    # The order of operations in a module says nothing.
    '%0 = "t.a"(%1) : (i8) -> i8\n%1 = "t.a"() : () -> i8',
    # What cannot be reached is not looked at.
    'func.func @f() {\n  return\n^bb1:\n  "t.c"(%0) : (i8) -> ()\n  %0 = "t.a"() : () -> i8\n  "t.e"() : () -> ()\n}',
    # A loop: the entry dominates all, the header its body.
    (
        'func.func @f(%a: i8) {\n  "t.b"()[^bb1] : () -> ()\n^bb1:\n  %0 = "t.a"(%a) : (i8) -> i8\n'
        '  "t.b"()[^bb2, ^bb3] : () -> ()\n^bb2:\n  "t.b"(%0)[^bb1] : (i8) -> ()\n^bb3:\n  "t.c"(%0) : (i8) -> ()\n}'
    ),
    'func.func @f(%a: i8) {\n  "t.b"() ({\n    "t.c"(%a) : (i8) -> ()\n  }) : () -> ()\n  return\n}',
]


@pytest.mark.parametrize("text", GOOD)
def test_what_is_well_formed(text: str) -> None:
    assert verify(parse(text), Diagnostics())


def test_modules_built_in_memory_are_verified_too() -> None:
    func = Operation(
        "func.func",
        properties={
            "sym_name": StringAttr("f"),
            "function_type": TypeAttr(FunctionType((), ())),
        },
        regions=[Region([Block()])],
    )
    module = Operation("builtin.module", regions=[Region([Block()])])
    module.body().append(func)
    outside = Operation("t.a", result_types=[IntegerType(8)])
    func.body().append(Operation("t.b", [outside.result]))
    diagnostics = Diagnostics()
    assert not verify(module, diagnostics)
    (found,) = diagnostics.errors
    assert found.message == "'t.b' op using value defined outside the region"


PROGRAM = """
func.func @f(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x {t.note = 1 : i32} : tensor<8xf32>
  %1 = "stablehlo.if"(%p) ({
    %3 = stablehlo.sine %0 : tensor<8xf32>
    stablehlo.return %3 : tensor<8xf32>
  }, {
    stablehlo.return %x : tensor<8xf32>
  }) : (tensor<i1>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""


def named(module: Operation, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def set_name(module: Operation) -> None:
    named(module, "stablehlo.sine").name = "stablehlo.cosine"


def set_operand(module: Operation) -> None:
    x = named(module, "func.func").body().arguments[0]
    named(module, "stablehlo.sine").set_operand(0, x)


def set_result_type(module: Operation) -> None:
    named(module, "stablehlo.sine").result.type = IntegerType(8)


def set_argument_type(module: Operation) -> None:
    named(module, "func.func").body().arguments[0].type = IntegerType(8)


def set_property(module: Operation) -> None:
    named(module, "func.func").properties["sym_name"] = StringAttr("g")


def remove_attribute(module: Operation) -> None:
    del named(module, "stablehlo.tanh").attributes["t.note"]


def move_out_of_its_region(module: Operation) -> None:
    # The order of a walk stays: only the blocks change.
    last = named(module, "stablehlo.if").body(1).terminator
    block = named(module, "func.func").body()
    block.insert_before(block.last, last.detach())


def move_up(module: Operation) -> None:
    func = named(module, "func.func")
    func.body().insert_before(func.body().first, named(module, "stablehlo.if").detach())


def erase(module: Operation) -> None:
    tanh = named(module, "stablehlo.tanh")
    tanh.replace_with(tanh.operands)


def use_outside(module: Operation) -> None:
    Operation("t.detached", named(module, "stablehlo.sine").results)


def add_argument(module: Operation) -> None:
    named(module, "stablehlo.if").body().add_argument(IntegerType(8))


def add_block(module: Operation) -> None:
    named(module, "stablehlo.if").regions[1].add_block()


def add_region(module: Operation) -> None:
    named(module, "stablehlo.sine").add_region()


def add_successor(module: Operation) -> None:
    named(module, "stablehlo.sine").successors = (module.body(),)


CHANGES: list[Callable[[Operation], None]] = [
    *(set_name, set_operand, set_result_type, set_argument_type, set_property, remove_attribute),
    *(move_out_of_its_region, move_up, erase, use_outside),
    *(add_argument, add_block, add_region, add_successor),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_no_change_goes_unnoticed(change: Callable[[Operation], None]) -> None:
    module = parse(PROGRAM)
    before = verified_state(module)
    assert verify(module, Diagnostics())
    assert verified_state(module) == before
    change(module)
    assert verified_state(module) != before
