"""Unreduced axes: who may add, drop and keep them, and with which operator."""

from __future__ import annotations

import pytest

T = "tensor<8x8xf32>"
HEAD = """
sdy.mesh @grid = <["a"=2, "b"=4, "c"=8]>
sdy.mesh @other = <["a"=2]>
"""


def program(op: str, sharding: str) -> str:
    return (
        f"{HEAD}func.func @f(%x: {T} {{sdy.sharding = #sdy.sharding<{sharding}>}}) -> {T} {{\n"
        f"  %0 = sdy.{op} : {T}\n  return %0 : {T}\n}}\n"
    )


BROKEN = [
    ("reshard", '%x <@grid, [{}, {}], unreduced=max{"b"}>', "@grid, [{}, {}]",
     "cannot introduce 'max' unreduced axes. Expected 'sum'."),
    ("sharding_constraint", '%x <@grid, [{}, {}], unreduced=min{"b":(1)2}>', "@grid, [{}, {}]",
     "cannot introduce 'min' unreduced axes. Expected 'sum'."),
    ("reshard", '%x <@grid, [{}, {}], unreduced={"b"}>', '@grid, [{}, {}], unreduced=max{"b"}',
     "cannot change the reduction operator of kept unreduced axes from max to sum."),
    ("reshard", '%x <@grid, [{}, {}], unreduced={"b":(1)2}>',
     '@grid, [{}, {}], unreduced=max{"b"}',
     "cannot change the reduction operator of kept unreduced axes from max to sum."),
    ("reshard", '%x <@grid, [{}, {}], unreduced=min{"b"}>',
     '@grid, [{}, {}], unreduced=max{"b"}',
     "cannot change the reduction operator of kept unreduced axes from max to min."),
    ("all_reduce", '{"b"} %x out_sharding=<@grid, [{}, {}]>',
     '@grid, [{}, {}], unreduced=min{"b"}',
     "cannot reduce 'min' unreduced axes. Expected 'sum'."),
    ("all_reduce", 'max {"b"} %x out_sharding=<@grid, [{}, {}]>',
     '@grid, [{}, {}], unreduced={"b"}', "cannot reduce 'sum' unreduced axes. Expected 'max'."),
    ("all_reduce", 'max {"b"} %x out_sharding=<@grid, [{}, {}], unreduced={"c"}>',
     '@grid, [{}, {}], unreduced=max{"b"}', "cannot add new unreduced axis 'c'."),
    ("reduce_scatter", 'min [{"b"}, {}] %x out_sharding=<@grid, [{"b"}, {}]>',
     '@grid, [{}, {}], unreduced=max{"b"}',
     "cannot reduce 'max' unreduced axes. Expected 'min'."),
    ("reduce_scatter", '[{"b"}, {}] %x out_sharding=<@grid, [{"b"}, {}], unreduced={"c"}>',
     '@grid, [{}, {}], unreduced={"b"}', "cannot add new unreduced axis 'c'."),
    ("replicated_to_unreduced", '{"b"} %x out_sharding=<@grid, [{}, {}], unreduced=max{"b"}>',
     "@grid, [{}, {}]", "out_sharding reduction_op must be SUM"),
    ("sharded_to_unreduced", '[{"b"}, {}] %x out_sharding=<@grid, [{}, {}], unreduced=min{"b"}>',
     '@grid, [{"b"}, {}]', "out_sharding reduction_op must be SUM"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rest", "sharding", "message"), BROKEN)
def test_a_wrong_operator(complaints, name, rest, sharding, message):
    line = 5
    said = complaints(program(f"{name} {rest}", sharding))
    assert said == [(line, f"'sdy.{name}' op {message}")]


GOOD = [
    ('reshard %x <@grid, [{}, {}], unreduced={"a", "b"}>', '@grid, [{}, {}], unreduced={"c"}'),
    ('reshard %x <@grid, [{}, {}], unreduced=max{"b"}>', '@grid, [{}, {}], unreduced=max{"b", "c"}'),
    ("reshard %x <@grid, [{}, {}]>", '@grid, [{}, {}], unreduced=min{"b"}'),
    ('reshard %x <@grid, [{}, {}], unreduced={"b"}>', '@grid, [{}, {}], unreduced=max{"c"}'),
    # Shardings on several meshes are not compared.
    ('reshard %x <@other, [{}, {}], unreduced=max{"a"}>', '@grid, [{}, {}], unreduced={"a"}'),
    ('all_reduce max {"b"} %x out_sharding=<@grid, [{}, {}], unreduced=max{"c"}>',
     '@grid, [{}, {}], unreduced=max{"b", "c"}'),
    ('all_reduce min {"b"} %x out_sharding=<@grid, [{}, {}]>', "@grid, [{}, {}]"),
    ('reduce_scatter max [{}, {"b"}] %x out_sharding=<@grid, [{}, {"b"}]>',
     '@grid, [{}, {}], unreduced=max{"b"}'),
]  # fmt: skip


@pytest.mark.parametrize(("op", "sharding"), GOOD)
def test_operators_that_fit(complaints, op, sharding):
    assert complaints(program(op, sharding)) == []
