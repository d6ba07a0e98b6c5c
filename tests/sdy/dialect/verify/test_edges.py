"""Data-flow edges, barriers, groups and constants: each rule broken once."""

from __future__ import annotations

import pytest

HEAD = 'sdy.mesh @grid = <["u"=2]>\n'


def _function(body: str, arguments: str = "%x: tensor<8xf32>") -> str:
    return f"{HEAD}func.func @f({arguments}) {{\n{body}\n  return\n}}\n"


EDGE = "'sdy.data_flow_edge' op "
EDGES = [
    (
        "two users",
        _function(
            "  %0 = sdy.data_flow_edge %x : tensor<8xf32>\n  %1 = stablehlo.tanh %x : tensor<8xf32>"
        ),
        [(3, EDGE + "expected input of sdy.data_flow_edge to have a single user")],
    ),
    (
        "dynamic",
        _function("  %0 = sdy.data_flow_edge %x : tensor<?xf32>", "%x: tensor<?xf32>"),
        [
            (
                3,
                EDGE + "expected sdy.data_flow_edge to have a static-shaped result. "
                "type: 'tensor<?xf32>'",
            )
        ],
    ),
    (
        "made by the dialect",
        _function(
            "  %0 = sdy.reshard %x <@grid, [{}]> : tensor<8xf32>\n"
            "  %1 = sdy.data_flow_edge %0 : tensor<8xf32>"
        ),
        [
            (
                4,
                EDGE + "expected input of sdy.data_flow_edge to not be defined by an SdyDialect "
                "op (other than an sdy.named_computation).",
            ),
            (3, "sdy op defining the input of the sdy.data_flow_edge"),
        ],
    ),
    (
        "sharding",
        _function('  %0 = sdy.data_flow_edge %x sharding=<@grid, [{"w"}]> : tensor<8xf32>'),
        [(3, EDGE + 'unknown axis name: "w"')],
    ),
]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in EDGES], ids=[c[0] for c in EDGES])
def test_a_data_flow_edge(complaints, text, expected):
    assert complaints(text) == expected


def test_an_edge_of_a_named_computation(complaints):
    text = _function("""
  %0 = sdy.named_computation<"g">(%x) (%y: tensor<8xf32>) {
    %e = sdy.data_flow_edge %y : tensor<8xf32>
    sdy.return %e : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.data_flow_edge %0 sharding=<@grid, [{"u"}]> : tensor<8xf32>""")
    assert complaints(text) == []


FUNC_EDGE = "'sdy.func_data_flow_edge' op expected operand of sdy.func_data_flow_edge to "


def test_an_edge_of_a_function(complaints):
    two = _function(
        "  %0 = sdy.func_data_flow_edge %x : tensor<8xf32>\n"
        "  %1 = stablehlo.tanh %x : tensor<8xf32>"
    )
    assert complaints(two) == [(3, FUNC_EDGE + "have a single user")]
    computed = _function(
        "  %0 = stablehlo.tanh %x : tensor<8xf32>\n"
        "  %1 = sdy.func_data_flow_edge %0 : tensor<8xf32>"
    )
    assert complaints(computed) == [(4, FUNC_EDGE + "be a result of call op.")]
    inner = _function("""  "some.loop"() ({
  ^bb0(%y: tensor<8xf32>):
    %0 = sdy.func_data_flow_edge %y : tensor<8xf32>
    "some.end"(%0) : (tensor<8xf32>) -> ()
  }) : () -> ()""")
    assert complaints(inner) == [(5, FUNC_EDGE + "be a block argument of a func op.")]
    dynamic = _function("  %0 = sdy.func_data_flow_edge %x : tensor<*xf32>", "%x: tensor<*xf32>")
    assert complaints(dynamic) == [
        (
            3,
            (
                "'sdy.func_data_flow_edge' op expected sdy.func_data_flow_edge to have a "
                "static-shaped result. type: 'tensor<*xf32>'"
            ),
        )
    ]


def test_edges_of_calls(complaints):
    text = """
func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.func_data_flow_edge %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @g(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.func_data_flow_edge %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""
    assert complaints(text) == []


def test_a_barrier_blocks_something(complaints):
    text = _function("  %0 = sdy.propagation_barrier %x allowed_direction=BOTH : tensor<8xf32>")
    assert complaints(text) == [
        (
            3,
            (
                "'sdy.propagation_barrier' op cannot specify `BOTH` as the direction. Not blocking "
                "propagation direction makes the op redundant."
            ),
        )
    ]
    assert complaints(text.replace("BOTH", "NONE")) == []


OTHERS = [
    (
        '  "sdy.sharding_group"(%x) <{group_id = 1 : i32}> : (tensor<8xf32>) -> ()',
        (
            "'sdy.sharding_group' op attribute 'group_id' failed to satisfy constraint: 64-bit "
            "signless integer attribute"
        ),
    ),
    (
        (
            '  "sdy.propagation_barrier"(%x) <{allowed_direction = 4 : i32}> : '
            "(tensor<8xf32>) -> tensor<8xf32>"
        ),
        (
            "invalid properties {allowed_direction = 4 : i32} for op sdy.propagation_barrier: Invalid "
            "attribute `allowed_direction` in property conversion: 4 : i32"
        ),
    ),
    (
        '  %0 = "sdy.constant"() <{value = dense<1> : tensor<4xi8>}> : () -> tensor<?xi8>',
        (
            "'sdy.constant' op result #0 must be statically shaped tensor of any non-token type "
            "values, but got 'tensor<?xi8>'"
        ),
    ),
]


@pytest.mark.parametrize(("body", "message"), OTHERS)
def test_groups_directions_and_constants(complaints, body, message):
    assert complaints(_function(body)) == [(3, message)]


def test_a_constant_has_the_type_of_its_value(complaints):
    body = '  %0 = "sdy.constant"() <{value = dense<1> : tensor<4xi8>}> : () -> tensor<4xi16>'
    assert complaints(_function(body)) == [
        (
            3,
            (
                "'sdy.constant' op inferred type(s) 'tensor<4xi8>' are incompatible with return "
                "type(s) of operation 'tensor<4xi16>'"
            ),
        ),
        (3, "'sdy.constant' op failed to infer returned types"),
    ]
