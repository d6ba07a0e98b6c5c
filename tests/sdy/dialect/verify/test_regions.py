"""Manual and named computations: each rule broken once."""

from __future__ import annotations

import pytest

MANUAL = """
sdy.mesh @grid = <["u"=2, "v"=4]>
sdy.mesh @other = <["u"=4]>
sdy.mesh @void = <[]>
func.func @f(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %0 = "sdy.manual_computation"(%x) <{
    in_shardings = #sdy.sharding_per_value<[IN]>,
    out_shardings = #sdy.sharding_per_value<[OUT]>,
    manual_axes = #sdy<manual_axes{AXES}>}> ({
  ^bb0(%y: LOCAL):
    %1 = "local.op"(%y) : (LOCAL) -> RETURNED
    "sdy.return"(%1) : (RETURNED) -> ()
  }) : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
"""


def _manual(**changes: str) -> str:
    fields = {
        "IN": '<@grid, [{"u", "v":(1)2}, {}]>',
        "OUT": '<@grid, [{}, {"u"}]>',
        "AXES": '"u"',
        "LOCAL": "tensor<4x12xf32>",
        "RETURNED": "tensor<8x6xf32>",
        **changes,
    }
    text = MANUAL
    for name, value in fields.items():
        text = text.replace(name, value)
    return text


MANUALS = [
    (
        "free before manual",
        {"IN": '<@grid, [{"v", "u"}, {}]>'},
        (
            "operand sharding at index 0 must have all manual axes come before free axes in its "
            'dimension sharding at index 0. Saw manual axis "u" after free axis "v"'
        ),
    ),
    (
        "not divisible",
        {"IN": '<@grid, [{"u"}, {}]>', "OUT": '<mesh<["u"=5]>, [{}, {"u"}]>'},
        "result dimension size 12 is not divisible by the manual axes size 5",
    ),
    (
        "local shape of an argument",
        {"LOCAL": "tensor<8x12xf32>"},
        (
            "operand shape, corresponding sharding, and region operand shape at index 0 must match. "
            "Expected local shape 'tensor<4x12xf32>', actual local shape 'tensor<8x12xf32>'"
        ),
    ),
    (
        "element type of a result",
        {"RETURNED": "tensor<8x6xi32>"},
        (
            "result shape, corresponding sharding, and region result shape at index 0 must match. "
            "Expected local shape 'tensor<8x6xf32>', actual local shape 'tensor<8x6xi32>'"
        ),
    ),
    (
        "one sharding too many",
        {"OUT": '<@grid, [{}, {"u"}]>, <@grid, [{}, {"u"}]>'},
        "result shardings don't match number of values: 2 shardings vs 1 values",
    ),
    (
        "two meshes",
        {"OUT": "<@other, [{}, {}]>", "RETURNED": "tensor<8x12xf32>"},
        "all in and out shardings must be bound to the same mesh or an empty mesh.",
    ),
    (
        "an axis that the mesh has not",
        {"AXES": '"u", "w"'},
        'unknown manual axis: "w"',
    ),
    (
        "a mesh that is not there",
        {"IN": "<@nowhere, [{}, {}]>"},
        "operand - unknown mesh: @nowhere",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), [c[1:] for c in MANUALS], ids=[c[0] for c in MANUALS]
)
def test_a_manual_computation(complaints, changes, message):
    assert complaints(_manual(**changes)) == [(6, f"'sdy.manual_computation' op {message}")]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"OUT": "<@void, [{}, {}]>", "RETURNED": "tensor<8x12xf32>"},
        {
            "IN": "<@other, [{}, {}]>",
            "AXES": "",
            "LOCAL": "tensor<8x12xf32>",
            "OUT": '<@grid, [{}, {"v"}]>',
            "RETURNED": "tensor<8x12xf32>",
        },
    ],
    ids=["one mesh", "an empty mesh does not count", "two meshes without manual axes"],
)
def test_a_good_manual_computation(complaints, changes):
    assert complaints(_manual(**changes)) == []


def test_as_many_values_inside_as_outside(complaints):
    text = """
sdy.mesh @grid = <["u"=2]>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@grid, [{}]>] out_shardings=[<@grid, [{}]>]
      manual_axes={} () {
    sdy.return
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
    assert complaints(text) == [
        (
            4,
            (
                "'sdy.manual_computation' op number of op operands and region operands must match. "
                "Op has 1 op operands and 0 region operands"
            ),
        )
    ]


def test_manual_axes_are_bound_once(complaints):
    text = """
sdy.mesh @grid = <["u"=2, "v"=2]>
func.func @f(%x: tensor<8xf32>) {
  %0 = sdy.manual_computation(%x) in_shardings=[<@grid, [{"u"}]>] out_shardings=[<@grid, [{"u"}]>]
      manual_axes={"u"} (%y: tensor<4xf32>) {
    %1 = sdy.manual_computation(%y) in_shardings=[<@grid, [{}]>] out_shardings=[<@grid, [{}]>]
        manual_axes={"v", "u"} (%z: tensor<4xf32>) {
      sdy.return %z : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}
"""
    assert complaints(text) == [
        (
            6,
            (
                "'sdy.manual_computation' op operates on axis \"u\" which is already bound by a "
                "parent sdy.manual_computation op"
            ),
        ),
        (4, "parent bounding this axis as manual"),
    ]


def test_one_without_values_needs_no_mesh(complaints):
    text = """
func.func @f() {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"u"} () {
    sdy.return
  } : () -> ()
  return
}
"""
    assert complaints(text) == []


NAMED = """
sdy.mesh @grid = <["u"=2]>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "sdy.named_computation"(%x) <{name = "block"SHARDINGS}> ({
  ^bb0(ARGUMENTS):
    BODY
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def _named(arguments: str = "%y: tensor<8xf32>", body: str = "", shardings: str = "") -> str:
    body = body or '"sdy.return"(%y) : (tensor<8xf32>) -> ()'
    text = NAMED.replace("ARGUMENTS", arguments).replace("BODY", body)
    return text.replace("SHARDINGS", shardings)


def test_arguments_of_a_named_computation_are_its_operands(complaints):
    assert complaints(_named("%y: tensor<8xf32>, %z: i1")) == [
        (4, "number of block arguments must match the number of operands: 2 != 1")
    ]
    cast = '%z = "cast"(%y) : (tensor<4xf32>) -> tensor<8xf32>\n"sdy.return"(%z) : (tensor<8xf32>) -> ()'
    assert complaints(_named("%y: tensor<4xf32>", cast)) == [
        (
            4,
            (
                "expected the type of the 0'th block argument to match the type of the corresponding "
                "operand: 'tensor<4xf32>' vs 'tensor<8xf32>'"
            ),
        )
    ]


def test_results_of_a_named_computation_are_what_it_returns(complaints):
    assert complaints(_named(body='"sdy.return"() : () -> ()')) == [
        (
            4,
            (
                "'sdy.named_computation' op inferred type(s)  are incompatible with return type(s) of "
                "operation 'tensor<8xf32>'"
            ),
        ),
        (4, "'sdy.named_computation' op failed to infer returned types"),
    ]


@pytest.mark.parametrize("name", ["in_shardings", "out_shardings"])
def test_shardings_of_a_named_computation(complaints, name):
    shardings = f', {name} = #sdy.sharding_per_value<[<@grid, [{{"q"}}]>]>'
    assert complaints(_named(shardings=shardings)) == [
        (4, f"'sdy.named_computation' op {name} - unknown axis name: \"q\"")
    ]
    assert complaints(_named(shardings=shardings.replace('"q"', '"u"'))) == []
