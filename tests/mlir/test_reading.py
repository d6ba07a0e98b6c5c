"""``parse``: its errors and its options."""

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import Diagnostics, MlirError


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
    with pytest.raises(MlirError, match="regions, types or attributes are nested too deeply"):
        parse('"t.a"() ({' * depth + "}) : () -> ()" * depth)
