"""Modules, functions, calls and returns: each rule broken once."""

from __future__ import annotations

import pytest

RETURN = '({^bb0(%x: i32): "func.return"() : () -> ()})'

FUNCTIONS = [
    ("func.func @f(i32)", "'func.func' op symbol declaration cannot have public visibility"),
    ('"func.func"() <{sym_name = "f"}> ({}) : () -> ()',
     "'func.func' op requires attribute 'function_type'"),
    ('"func.func"() <{function_type = () -> ()}> ({}) : () -> ()',
     "'func.func' op requires attribute 'sym_name'"),
    ('"func.func"() <{sym_name = "f", function_type = i8}> ({}) : () -> ()',
     ("'func.func' op attribute 'function_type' failed to satisfy constraint: type attribute of "
     "function type")),
    (f'"func.func"() <{{sym_name = "f", function_type = () -> ()}}> {RETURN} : () -> ()',
     "'func.func' op entry block must have 0 arguments to match function signature"),
    (f'"func.func"() <{{sym_name = "f", function_type = (i8) -> ()}}> {RETURN} : () -> ()',
     ("'func.func' op type of entry block argument #0('i32') must match the type of the "
     "corresponding argument in function signature('i8')")),
    ((f'"func.func"() <{{sym_name = "f", function_type = (i32) -> (), arg_attrs = [{{}}, {{}}]}}> '
     f"{RETURN} : () -> ()"),
     ("'func.func' op expects argument attribute array to have the same number of elements as the "
     "number of function arguments, got 2, but expected 1")),
    ((f'"func.func"() <{{sym_name = "f", function_type = (i32) -> (), res_attrs = [{{}}]}}> '
     f"{RETURN} : () -> ()"),
     ("'func.func' op expects result attribute array to have the same number of elements as the "
     "number of function results, got 1, but expected 0")),
    ((f'"func.func"() <{{sym_name = "f", function_type = (i32) -> (), arg_attrs = [7]}}> '
     f"{RETURN} : () -> ()"),
     ("'func.func' op attribute 'arg_attrs' failed to satisfy constraint: Array of dictionary "
     "attributes")),
    ("func.func private @f(i32 {plain = 1})",
     "'func.func' op arguments may only have dialect attributes"),
    ("func.func private @f() -> (i32 {plain = 1})",
     "'func.func' op results may only have dialect attributes"),
    ('"func.return"() : () -> ()', "'func.return' op expects parent op 'func.func'"),
    ("module attributes {plain} {}",
     ("'builtin.module' op can only contain attributes with dialect-prefixed names, found: "
     "'plain'")),
    ('"builtin.module"() ({^bb0(%x: i32): }) : () -> ()',
     "'builtin.module' op region should have no arguments"),
    ('"builtin.module"() : () -> ()', "'builtin.module' op requires one region"),
    ('"builtin.module"() ({"some.op"() : () -> ()\n^bb1: "some.op"() : () -> ()}) : () -> ()',
     "'builtin.module' op expects region #0 to have 0 or 1 blocks"),
    ("func.func private @f(tensor<4xf32> {sdy.sharding = 1})",
     "'func.func' op arg 0 - should have a sharding attribute of type TensorShardingAttr"),
    ("func.func private @f(i1, tensor<4xf32> {sdy.sharding = #sdy.sharding<@nowhere, [{}]>})",
     "'func.func' op arg 1 - unknown mesh: @nowhere"),
    ("func.func private @f() -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@nowhere, [{}]>})",
     "'func.func' op result 0 - unknown mesh: @nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_a_function(complaints, text, message):
    assert complaints(text) == [(1, message)]


CALLS = [
    ("call @g(%x) : (i32) -> i32", "'func.call' op 'g' does not reference a valid function"),
    ("call @m(%x) : (i32) -> i32", "'func.call' op 'm' does not reference a valid function"),
    ("call @h() : () -> i32", "'func.call' op incorrect number of operands for callee"),
    ("call @h(%y) : (i8) -> i32",
     ("'func.call' op operand type mismatch: expected operand type 'i32', but provided 'i8' for "
     "operand number 0")),
    ("call @h(%x) : (i32) -> ()", "'func.call' op incorrect number of results for callee"),
    ('"func.call"(%x) : (i32) -> i32', "'func.call' op requires attribute 'callee'"),
]  # fmt: skip


def _caller(call: str) -> str:
    return (
        'sdy.mesh @m = <["q"=2]>\nfunc.func private @h(i32) -> i32\n'
        f"func.func @f(%x: i32, %y: i8) {{\n  {call}\n  return\n}}\n"
    )


@pytest.mark.parametrize(("call", "message"), CALLS, ids=range(len(CALLS)))
def test_a_call(complaints, call, message):
    assert complaints(_caller(call)) == [(4, message)]


def test_what_a_call_gives(complaints):
    assert complaints(_caller("%0 = call @h(%x) : (i32) -> i8")) == [
        (4, "'func.call' op result type mismatch at index 0"),
        (4, "      op result types: 'i8'"),
        (4, "function result types: 'i32'"),
    ]
    assert complaints(_caller("%0 = call @h(%x) : (i32) -> i32")) == []


def test_what_a_function_returns(complaints):
    assert complaints("func.func @f(%x: i32) -> i32 {\n  return\n}") == [
        (2, "'func.return' op has 0 operands, but enclosing function (@f) returns 1")
    ]
    assert complaints("func.func @f(%x: i32) -> i8 {\n  return %x : i32\n}") == [
        (
            2,
            (
                "type of return operand 0 ('i32') doesn't match function result type ('i8') in "
                "function @f"
            ),
        )
    ]


def test_functions_are_all_looked_at_and_each_reports_once(complaints):
    wrong = '"some.op"() {sdy.sharding = 1} : () -> ()'
    text = (
        f"func.func @f() {{\n{wrong}\n{wrong}\nreturn\n}}\nfunc.func @g() {{\n{wrong}\nreturn\n}}"
    )
    message = "'some.op' op should have a sharding attribute of type TensorShardingPerValueAttr"
    assert complaints(text) == [(2, message), (7, message)]


def test_functions_are_in_a_module(complaints):
    text = "func.func @f() {\n  func.func @g() {\n    return\n  }\n  return\n}"
    assert complaints(text) == [
        (2, "'func.func' op symbol's parent must have the SymbolTable trait")
    ]
