"""What is said about wrong texts and wrong modules."""

import pytest

from emu.mlir import parse
from emu.mlir.attributes import StringAttr, TypeAttr
from emu.mlir.diagnostics import Diagnostics, MlirError
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.types import FunctionType, IntegerType
from emu.mlir.verify import verify


def errors(text: str) -> list[str]:
    with pytest.raises(MlirError) as caught:
        parse(text)
    found = []
    for each in caught.value.diagnostics:
        found.append(f"{str(each.location)[2:]}: {each.message}")
        found += [f"{str(note.location)[2:]}: note: {note.message}" for note in each.notes]
    return found


PARSING = [
    ("func.func @f( {", "1:14: expected non-function type"),
    (
        "func.func @f() return",
        "1:16: custom op 'return' is unknown (tried 'builtin.return' as well)",
    ),
    (
        "func.func f() { return }",
        "1:11: custom op 'func.func' expected valid '@'-identifier for symbol name",
    ),
    ("func.func @f() {}", "1:16: custom op 'func.func' expected non-empty function body"),
    ("func.func @f() { foo }", "1:18: custom op 'foo' is unknown (tried 'func.foo' as well)"),
    ("func.func @f() { func.foo }", "1:18: custom op 'func.foo' is unknown"),
    ("x.y %0", "1:1: Dialect `x' not found for custom op 'x.y' "),
    ('"t.a"() : i32', "1:11: expected function type"),
    ('"t.a"()', "1:7: expected ':' followed by operation type"),
    ('"t.a"(%0) : (i32, i32) -> ()', "1:13: expected 1 operand type but had 2"),
    ('"t.a"(%0, %0) : (i32) -> ()', "1:17: expected 2 operand types but had 1"),
    ('"t.a"(%0, ) : () -> ()', "1:10: expected SSA operand"),
    ('"t.a"(%0) : (i32) -> ()', "1:7: use of undeclared SSA value name"),
    ('%0:2 = "t.a"() : () -> i32', "1:1: operation defines 1 results but was provided 2 to bind"),
    ('%0 = "t.a"() : () -> ()', "1:1: cannot name an operation with no results"),
    ('%0:0 = "t.a"() : () -> i32', "1:4: expected named operation to have at least 1 result"),
    ('""() : () -> ()', "1:1: empty operation name is invalid"),
    ('"t.a"() {a = 1 b} : () -> ()', "1:15: expected '}' in attribute dictionary"),
    ('"t.a"() ({ ^bb0: ^bb0: }) : () -> ()', "1:18: redefinition of block '^bb0'"),
    ('"t.a"() ({ "t.b"()[^bb7] : () -> () }) : () -> ()', "1:20: reference to an undefined block"),
    ('"t.a"() : () -> () loc(#l)', "1:24: operation location alias was never defined"),
    ('"t.a"() : () -> () loc(here)', "1:24: expected location instance"),
    ("#a = 1\n#a = 2", "2:1: redefinition of attribute alias id 'a'"),
    ("!t = i32\n!t = i8", "2:1: redefinition of type alias id 't'"),
    ("module {\n\n", "1:9: expected operation name in quotes"),
    ("module }", "1:7: expected '{' to begin a region"),
    (
        "func.func @f(%a: i32) {\n  // nothing\n  return %a : i32, i8\n}",
        (
            "3:10: custom op 'func.return' number of operands and types do not match: "
            "got 1 operands and 2 types"
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), PARSING)
def test_one_error(text: str, expected: str) -> None:
    assert errors(text) == [expected]


def test_errors_with_notes() -> None:
    assert errors('%0 = "t.a"() : () -> i32\n%0 = "t.a"() : () -> i32') == [
        "2:1: redefinition of SSA value '%0'",
        "1:1: note: previously defined here",
    ]
    assert errors('%0 = "t.a"() : () -> i32\n"t.b"(%0) : (f32) -> ()') == [
        "2:7: use of value '%0' expects different type than prior uses: 'f32' vs 'i32'",
        "1:1: note: prior use here",
    ]
    assert errors('"t.b"(%0) : (f32) -> ()\n%0 = "t.a"() : () -> i32') == [
        "2:1: definition of SSA value '%0#0' has type 'i32'",
        "1:7: note: previously used here with type 'f32'",
    ]
    assert errors("func.func @f(%a: i32, %a: i32) { return }") == [
        "1:23: region entry argument '%a' is already in use",
        "1:14: note: previously referenced here",
    ]


def test_all_undeclared_values_are_reported() -> None:
    assert errors('"t.a"(%x) : (i32) -> ()\n"t.a"(%y, %x) : (i8, i32) -> ()') == [
        "1:7: use of undeclared SSA value name",
        "2:7: use of undeclared SSA value name",
    ]


def test_the_line_and_a_caret_are_shown() -> None:
    with pytest.raises(MlirError) as caught:
        parse('// ä\n\t"t.é"() {a = x} : () -> ()', file="net.mlir")
    assert str(caught.value) == (
        'net.mlir:2:15: error: expected attribute value\n\t"t.é"() {a = x} : () -> ()\n\t            ^'
    )
    with pytest.raises(MlirError) as caught:
        parse('%0 = "t.a"() : () -> i32\n%0 = "t.a"() : () -> i32')
    assert str(caught.value) == (
        "-:2:1: error: redefinition of SSA value '%0'\n"
        '%0 = "t.a"() : () -> i32\n'
        "^\n"
        "-:1:1: note: previously defined here\n"
        '%0 = "t.a"() : () -> i32\n'
        "^"
    )


def test_errors_are_told_to_who_listens() -> None:
    took = Diagnostics()
    with pytest.raises(MlirError):
        parse("x", diagnostics=took)
    assert [d.message for d in took.errors] == [
        "custom op 'x' is unknown (tried 'builtin.x' as well)"
    ]


def test_unregistered_dialects_can_be_refused() -> None:
    text = '"t.a"() : () -> ()'
    with pytest.raises(MlirError, match="operation being parsed with an unregistered dialect"):
        parse(text, allow_unregistered=False)
    assert parse(text).body().first is not None


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    depth = 5000
    with pytest.raises(MlirError, match="regions are nested too deeply"):
        parse('"t.a"() ({' * depth + "}) : () -> ()" * depth)


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
