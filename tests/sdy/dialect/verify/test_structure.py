"""What operations are made of: each rule broken once."""

from __future__ import annotations

import pytest

SHARDING = "#sdy.sharding<@grid, [{}]>"
PER_VALUE = "#sdy.sharding_per_value<[<@grid, [{}]>]>"
BODY = '({^bb0(%y: tensor<8xf32>): "sdy.return"(%y) : (tensor<8xf32>) -> ()})'
T = "tensor<8xf32>"

STRUCTURE = [
    (f'"sdy.reshard"(%x, %x) <{{sharding = {SHARDING}}}> : ({T}, {T}) -> {T}',
     "'sdy.reshard' op requires a single operand"),
    (f'"sdy.reshard"(%x) <{{sharding = {SHARDING}}}> : ({T}) -> ()',
     "'sdy.reshard' op requires one result"),
    (f'"sdy.reshard"(%x) <{{sharding = {SHARDING}}}> ({{}}) : ({T}) -> {T}',
     "'sdy.reshard' op requires zero regions"),
    (f'"sdy.reshard"(%x) : ({T}) -> {T}', "'sdy.reshard' op requires attribute 'sharding'"),
    (f'"sdy.reshard"(%x) <{{sharding = 7 : i8}}> : ({T}) -> {T}',
     ("invalid properties {sharding = 7 : i8} for op sdy.reshard: Invalid attribute `sharding` in "
     "property conversion: 7 : i8")),
    (f'"sdy.reshard"(%x) <{{sharding = {SHARDING}}}> : ({T}) -> tensor<8xi32>',
     "'sdy.reshard' op requires the same type for all operands and results"),
    (f'"sdy.data_flow_edge"(%x) : ({T}) -> tensor<8xf32, "dense">',
     "'sdy.data_flow_edge' op requires the same encoding for all operands and results"),
    ('"sdy.data_flow_edge"(%n) : (i32) -> i32',
     ("'sdy.data_flow_edge' op operand #0 must be shaped of any non-token type values, but got "
     "'i32'")),
    ('"sdy.sharding_group"(%n) <{group_id = 1 : i64}> : (i32) -> ()',
     ("'sdy.sharding_group' op operand #0 must be ranked tensor of any non-token type values, but "
     "got 'i32'")),
    (f'"sdy.sharding_group"(%x) <{{group_id = 1 : i64}}> : ({T}) -> {T}',
     "'sdy.sharding_group' op requires zero results"),
    (f'"sdy.constant"(%x) <{{value = dense<1.0> : {T}}}> : ({T}) -> {T}',
     "'sdy.constant' op requires zero operands"),
    (f'"sdy.named_computation"(%x) <{{name = "g"}}> : ({T}) -> {T}',
     "'sdy.named_computation' op requires one region"),
    (f'"sdy.named_computation"(%x) <{{name = "g"}}> ({{}}) : ({T}) -> {T}',
     ("'sdy.named_computation' op region #0 ('body') failed to verify constraint: region with 1 "
     "blocks")),
    (f'"sdy.named_computation"(%x) {BODY} : ({T}) -> {T}',
     "'sdy.named_computation' op requires attribute 'name'"),
    ((f'"sdy.manual_computation"(%x) <{{manual_axes = #sdy<manual_axes{{}}>, out_shardings = '
     f'{PER_VALUE}}}> {BODY} : ({T}) -> {T}'),
     "'sdy.manual_computation' op requires attribute 'in_shardings'"),
    ('"sdy.mesh"() <{sym_name = "m", mesh = #sdy.mesh<["q"=2]>}> : () -> ()',
     "'sdy.mesh' op expects parent op 'builtin.module'"),
    (f'"sdy.return"(%x) : ({T}) -> ()',
     "'sdy.return' op must be the last operation in the parent block"),
    (f'"sdy.all_reduce"(%x) <{{out_sharding = {SHARDING}}}> : ({T}) -> {T}',
     "'sdy.all_reduce' op requires attribute 'reduction_axes'"),
    ((f'"sdy.all_gather"(%x) <{{gathering_axes = #sdy<list_of_axis_ref_lists[{{}}]>}}> : '
     f"({T}) -> {T}"), "'sdy.all_gather' op requires attribute 'out_sharding'"),
]  # fmt: skip


def _function(op: str) -> str:
    return (
        'sdy.mesh @grid = <["u"=2]>\n'
        f"func.func @f(%x: tensor<8xf32>, %n: i32) {{\n  {op}\n  return\n}}\n"
    )


@pytest.mark.parametrize(("op", "message"), STRUCTURE, ids=range(len(STRUCTURE)))
def test_an_operation(complaints, op, message):
    assert complaints(_function(op)) == [(3, message)]


def test_the_result_has_exactly_the_operands_type(complaints):
    op = f'"sdy.reshard"(%y) <{{sharding = {SHARDING}}}> : (tensor<?xf32>) -> tensor<4xf32>'
    text = _function(op).replace("%x: tensor<8xf32>", "%y: tensor<?xf32>")
    assert complaints(text) == [
        (
            3,
            (
                "'sdy.reshard' op inferred type(s) 'tensor<?xf32>' are incompatible with return "
                "type(s) of operation 'tensor<4xf32>'"
            ),
        ),
        (3, "'sdy.reshard' op failed to infer returned types"),
    ]


def test_what_ends_a_body(complaints):
    body = BODY.replace("sdy.return", "func.return")
    op = f'"sdy.named_computation"(%x) <{{name = "g"}}> {body} : ({T}) -> {T}'
    assert complaints(_function(op)) == [(3, "'func.return' op expects parent op 'func.func'")]
    body = BODY.replace("sdy.return", "stablehlo.return")
    op = f'"sdy.named_computation"(%x) <{{name = "g"}}> {body} : ({T}) -> {T}'
    assert complaints(_function(op)) == [
        (
            3,
            (
                "'sdy.named_computation' op expects regions to end with 'sdy.return', found "
                "'stablehlo.return'"
            ),
        ),
        (3, "in custom textual format, the absence of terminator implies 'sdy.return'"),
    ]


def test_a_body_is_one_block_that_is_not_empty(complaints):
    two = "({^bb0(%y: tensor<8xf32>): cf.br ^bb1\n^bb1: cf.br ^bb1})".replace(
        "cf.br ^bb1", '"sdy.return"(%y) : (tensor<8xf32>) -> ()'
    )
    op = f'"sdy.named_computation"(%x) <{{name = "g"}}> {two} : ({T}) -> {T}'
    assert complaints(_function(op)) == [
        (3, "'sdy.named_computation' op expects region #0 to have 0 or 1 blocks")
    ]
    op = f'"sdy.named_computation"(%x) <{{name = "g"}}> ({{^bb0(%y: {T}):}}) : ({T}) -> {T}'
    assert complaints(_function(op)) == [
        (3, "'sdy.named_computation' op expects a non-empty block")
    ]


def test_an_isolated_body_uses_nothing_from_outside(complaints):
    text = _function("""%0 = sdy.named_computation<"g">(%x) (%y: tensor<8xf32>) {
    %1 = "some.loop"() ({
      "some.end"(%x) : (tensor<8xf32>) -> ()
    }) : () -> tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>""")
    assert complaints(text) == [
        (5, "'some.end' op using value defined outside the region"),
        (3, "required by region isolation constraints"),
    ]


@pytest.mark.parametrize(
    ("visibility", "message"),
    [
        (
            '"hidden"',
            'visibility expected to be one of ["public", "private", "nested"], but got "hidden"',
        ),
        (
            "1 : i1",
            "requires visibility attribute 'sym_visibility' to be a string attribute, but got true",
        ),
    ],
)
def test_visibility_of_a_mesh(complaints, visibility, message):
    text = (
        '"sdy.mesh"() <{sym_name = "m", mesh = #sdy.mesh<["q"=2]>}> '
        f"{{sym_visibility = {visibility}}} : () -> ()"
    )
    assert complaints(text) == [(1, f"'sdy.mesh' op {message}")]


def test_quantized_constants_are_stored_as_integers(complaints):
    text = _function(
        '%0 = "sdy.constant"() <{value = dense<1> : tensor<4xi8>}> : () -> '
        "tensor<4x!quant.uniform<i8:f32, 2.0:3>>"
    )
    assert complaints(text) == []


def test_of_several_wrong_symbol_users_the_last_functions_is_reported(complaints):
    text = """
func.func @f(%x: tensor<8xf32>) {
  %0 = sdy.reshard %x <@one, [{}]> : tensor<8xf32>
  return
}
func.func @g(%x: tensor<8xf32>) {
  %0 = sdy.reshard %x <@two, [{}]> : tensor<8xf32>
  %1 = sdy.reshard %x <@three, [{}]> : tensor<8xf32>
  return
}
"""
    assert complaints(text) == [(7, "'sdy.reshard' op unknown mesh: @two")]
