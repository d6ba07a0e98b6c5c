"""What is said about wrong texts and wrong modules."""

import pytest
from mlir_reading import errors

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
