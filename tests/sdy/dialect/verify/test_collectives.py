"""Collectives: each rule broken once."""

from __future__ import annotations

import pytest

from emu.mlir import parse
from emu.sdy.dialect.verify.collectives import collective_problem

HEAD = """
sdy.mesh @grid = <["a"=2, "b"=4, "c"=8]>
sdy.mesh @turned = <["a"=2, "b"=4, "c"=8], device_ids=[DEVICES]>
sdy.mesh @twin = <["a"=2, "b"=4, "c"=8]>
sdy.mesh @small = <["a"=2]>
""".replace("DEVICES", ", ".join(str(63 - i) for i in range(64)))
LINE = 8
"""The line of the collective, at which all complaints are."""


def _program(op: str, sharding: str | None) -> str:
    attribute = "" if sharding is None else f"{{sdy.sharding = #sdy.sharding<{sharding}>}}"
    return (
        f"{HEAD}\nfunc.func @f(%x: tensor<64x64xf32> {attribute}) {{\n"
        f"  %0 = sdy.{op} : tensor<64x64xf32>\n  return\n}}\n"
    )


A_B = '@grid, [{"a", "b"}, {"c"}]'

BROKEN = [
    ("no sharding", "all_gather [{}, {}] %x out_sharding=<@grid, [{}, {}]>", None,
     "collective on operand without sharding"),
    ("out_sharding", 'all_slice [{}, {}] %x out_sharding=<@grid, [{}, {"z"}]>', A_B,
     'unknown axis name: "z"'),
    ("axes of a collective", 'all_gather [{"b"}, {"z"}] %x out_sharding=<@grid, [{}, {}]>', A_B,
     'unknown axis name: "z"'),
    ("an axis twice", 'all_slice [{"b"}, {"b"}] %x out_sharding=<@grid, [{}, {}]>', None,
     'duplicate axis ref: "b"'),
    ("rank of the axes", 'all_gather [{"b"}] %x out_sharding=<@grid, [{"a"}, {"c"}]>', A_B,
     "result sharding has rank 2 but collective axes has rank 1"),
    ("not a suffix", 'all_gather [{"a"}, {}] %x out_sharding=<@grid, [{"b"}, {"c"}]>', A_B,
     "can't apply gathering axis \"a\" to operand sharding on dimension 0"),
    ("gathered something else",
     'all_gather [{"b":(2)2}, {}] %x out_sharding=<@grid, [{"a"}, {"c"}]>', A_B,
     'result sharding doesn\'t match expected sharding ["a", "b":(1)2] on dimension 0'),
    ("sliced something else",
     'all_slice [{}, {"c":(4)2}] %x out_sharding=<@grid, [{}, {"c"}]>', '@grid, [{}, {"c":(1)2}]',
     'result sharding doesn\'t match expected sharding ["c":(1)2, "c":(4)2] on dimension 1'),
    ("scattered something else",
     'reduce_scatter [{"a"}, {}] %x out_sharding=<@grid, [{}, {"a"}]>', None,
     'result sharding doesn\'t match expected sharding ["a"] on dimension 0'),
    ("no parameters", 'all_to_all [] %x out_sharding=<@grid, [{"a", "b"}, {"c"}]>', A_B,
     "parameter list is empty"),
    ("unknown axis moved", 'all_to_all [{"z"}: 0->1] %x out_sharding=<@grid, [{}, {}]>', A_B,
     'unknown axis name: "z"'),
    ("source out of range", 'all_to_all [{"b"}: 2->1] %x out_sharding=<@grid, [{}, {}]>', A_B,
     "source dimension 2 is out of range [0, 2)"),
    ("target out of range", 'all_to_all [{"b"}: 0->9] %x out_sharding=<@grid, [{}, {}]>', A_B,
     "target dimension 9 is out of range [0, 2)"),
    ("from and to one dimension", 'all_to_all [{"b"}: 0->0] %x out_sharding=<@grid, [{}, {}]>',
     A_B, "overlapping source/target dimensions in all-to-all params: 0"),
    ("not at the end", 'all_to_all [{"a"}: 0->1] %x out_sharding=<@grid, [{}, {}]>', A_B,
     "can't apply all-to-all axis \"a\" to operand sharding on dimension 0"),
    ("not taken away",
     'all_to_all [{"b"}: 0->1] %x out_sharding=<@grid, [{"a", "b"}, {"c"}]>', A_B,
     'result sharding doesn\'t match expected sharding ["a"] on dimension 0'),
    ("not arrived", 'all_to_all [{"b"}: 0->1] %x out_sharding=<@grid, [{"a"}, {"c"}]>', A_B,
     'result sharding doesn\'t match expected sharding ["c", "b"] on dimension 1'),
    ("smaller pieces", 'collective_permute %x out_sharding=<@grid, [{"c"}, {"a"}]>', A_B,
     "sharded size of result doesn't match operand on dimension 1: 2 != 8"),
    ("shardings that differ", 'all_reduce {} %x out_sharding=<@grid, [{"a"}, {"c"}]>', A_B,
     "operand and result shardings are not equivalent"),
    ("reduced out of order",
     'all_reduce {"c", "b"} %x out_sharding=<@grid, [{"a"}, {}]>', '@grid, [{"a"}, {}]',
     "reduction axes are not ordered w.r.t. mesh"),
    ("reduced along a cut",
     'all_reduce {"a"} %x out_sharding=<@grid, [{"a"}, {}]>', '@grid, [{"a"}, {}]',
     'reduction axis "a" overlaps with operand dimension sharding or replicated axes'),
    ("reduced along replicas",
     'all_reduce {"b"} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a"}, {}], replicated={"b"}',
     'reduction axis "b" overlaps with operand dimension sharding or replicated axes'),
    ("reduced and unreduced",
     'all_reduce {"b"} %x out_sharding=<@grid, [{"a"}, {}], unreduced={"b":(1)2}>',
     '@grid, [{"a"}, {}]', 'reduction axis "b" overlaps with result unreduced axes'),
    ("kept in the result",
     'sharded_to_unreduced [{"b"}, {}] %x out_sharding=<@grid, [{"a", "b"}, {"c"}]>', A_B,
     'result sharding doesn\'t match expected sharding ["a"] on dimension 0'),
    ("not at the end of a dimension",
     'sharded_to_unreduced [{"a"}, {}] %x out_sharding=<@grid, [{"b"}, {"c"}]>', A_B,
     "can't apply shard-to-unreduce axis \"a\" to operand sharding on dimension 0"),
    ("not unreduced", 'sharded_to_unreduced [{"b"}, {}] %x out_sharding=<@grid, [{"a"}, {"c"}]>',
     A_B, "out_unreduced_axes should be in_unreduced_axes + sharded_to_unreduced_axes"),
    ("other dimensions",
     'replicated_to_unreduced {"b"} %x out_sharding=<@grid, [{}, {"a"}], unreduced={"b"}>',
     '@grid, [{"a"}, {}]', "input and output must share the same dimension shardings"),
    ("no axes", 'replicated_to_unreduced {} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a"}, {}]', "r2u axes must not be empty"),
    ("axes out of order",
     'replicated_to_unreduced {"c", "b"} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a"}, {}]', "r2u axes are not ordered w.r.t. mesh"),
    ("a cut axis", 'replicated_to_unreduced {"a"} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a"}, {}]', 'r2u axis "a" overlaps with operand dimension sharding'),
    ("an unreduced axis", 'replicated_to_unreduced {"b"} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a"}, {}], unreduced={"b"}', 'r2u axis "b" overlaps with operand unreduced axes'),
    ("an axis that stays", 'replicated_to_unreduced {"b"} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a"}, {}]', "out_unreduced_axes should be in_unreduced_axes + r2u_axes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "sharding", "message"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN]
)
def test_a_collective(complaints, op, sharding, message):
    name = op.partition(" ")[0]
    assert complaints(_program(op, sharding)) == [(LINE, f"'sdy.{name}' op {message}")]


GOOD = [
    ('all_gather [{"b"}, {"c":(2)4}] %x out_sharding=<@grid, [{"a"}, {"c":(1)2}]>', A_B),
    ('all_slice [{"a"}, {"c":(2)4}] %x out_sharding=<@grid, [{"a"}, {"c"}]>',
     '@grid, [{}, {"c":(1)2}]'),
    ('all_slice [{"a"}, {}] %x out_sharding=<@grid, [{"a"}, {}]>', None),
    ('all_to_all [{"b"}: 0->1] %x out_sharding=<@grid, [{"a"}, {"c", "b"}]>', A_B),
    ('collective_permute %x out_sharding=<@grid, [{"c"}, {"b", "a"}]>', A_B),
    ('collective_permute %x out_sharding=<@turned, [{"a", "b"}, {"c"}]>', A_B),
    ('all_reduce {"b", "c":(1)2} %x out_sharding=<@grid, [{"a"}, {}]>',
     '@grid, [{"a", ?}, {}], unreduced={"b"}'),
    ('reduce_scatter [{}, {"c"}] %x out_sharding=<@grid, [{"a"}, {"c"}]>', '@grid, [{"a"}, {}]'),
    (('sharded_to_unreduced [{"b":(2)2}, {}] %x out_sharding=<@grid, [{"a", "b":(1)2}, {}], '
     'unreduced={"b":(2)2, "c"}>'), '@grid, [{"a", "b"}, {}], unreduced={"c"}'),
    ('replicated_to_unreduced {"b":(2)2} %x out_sharding=<@grid, [{"a"}, {}], unreduced={"b"}>',
     '@grid, [{"a"}, {}], unreduced={"b":(1)2}'),
]  # fmt: skip


@pytest.mark.parametrize(("op", "sharding"), GOOD)
def test_a_good_collective(complaints, op, sharding):
    assert complaints(_program(op, sharding)) == []


def test_source_dimensions_ascend(complaints):
    text = """
sdy.mesh @grid = <["a"=2, "b"=4]>
func.func @f(%x: tensor<8x8x8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"a"}, {"b"}, {}, {}]>}) {
  %0 = sdy.all_to_all [{"b"}: 1->3, {"a"}: 0->2] %x out_sharding=<@grid, [{}, {}, {"a"}, {"b"}]> : tensor<8x8x8x8xf32>
  return
}
"""
    assert complaints(text) == [
        (
            4,
            (
                "'sdy.all_to_all' op source dimensions are not sorted in ascending order: 0 appears "
                "after 1"
            ),
        )
    ]


def test_a_dimension_that_nothing_moves_stays_as_it_is(complaints):
    text = """
sdy.mesh @grid = <["a"=2, "b"=4]>
func.func @f(%x: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"a"}, {}, {"b"}]>}) {
  %0 = sdy.all_to_all [{"a"}: 0->1] %x out_sharding=<@grid, [{}, {"a"}, {}]> : tensor<8x8x8xf32>
  return
}
"""
    assert complaints(text) == [
        (
            4,
            (
                "'sdy.all_to_all' op result sharding doesn't match expected sharding [\"b\"] on "
                "dimension 2"
            ),
        )
    ]


MESHES = [
    ("all_gather [{}, {}] %x out_sharding=<@turned, [{}, {}]>",
     "result mesh does not match operand mesh"),
    ("collective_permute %x out_sharding=<@small, [{}, {}]>",
     "result mesh has different axes than operand mesh"),
    ("collective_permute %x out_sharding=<@twin, [{}, {}]>",
     "result mesh name is different but same device ids as operand"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "message"), MESHES)
def test_meshes_of_operand_and_result(complaints, op, message):
    name = op.partition(" ")[0]
    assert complaints(_program(op, "@grid, [{}, {}]")) == [
        (LINE, f"'sdy.{name}' op {message}"),
        (LINE - 1, 'operand mesh: #sdy.mesh<["a"=2, "b"=4, "c"=8]>'),
    ]


def test_rank_of_the_operands_sharding():
    text = _program("all_slice [{}, {}] %x out_sharding=<@grid, [{}, {}]>", "@grid, [{}]")
    module = parse(text, verify=False)
    (op,) = (op for op in module.walk() if op.name == "sdy.all_slice")
    problem = collective_problem(op)
    assert problem is not None
    assert problem.message == "result sharding has rank 2 but operand sharding has rank 1"
