"""Canonicalisation: each pattern, and where it must not apply."""

from __future__ import annotations

import pytest

from emu.mlir import parse, to_text
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.generic import Canonicalize

HEAD = """
sdy.mesh @g = <["a"=2, "b"=2, "c"=4]>
sdy.mesh @unit = <["p"=1, "q"=1, "r"=2]>
func.func @f(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@g, [{"a"}, {"b"}]>}) -> RESULTS {
"""


def _body(text: str, results: int = 1, **options: object) -> str:
    """The canonical form of a function's body."""
    types = ", ".join(["tensor<8x16xf32>"] * results)
    head = HEAD.replace("RESULTS", f"({types})")
    lines = "\n".join(
        f"  {line.strip()} : tensor<8x16xf32>"
        if " : " not in line and "=" in line
        else f"  {line.strip()}"
        for line in text.strip().splitlines()
    )
    names = [line.split("return", 1)[1].strip() for line in text.splitlines() if "return" in line][
        -1
    ]
    lines = lines.replace(f"  return {names}", f"  return {names} : {types}")
    module = parse(f"{head}{lines}\n}}\n")
    run_pass(Canonicalize(**options), module, Session())  # type: ignore[arg-type]
    func = module.body().terminator
    inner = to_text(func).splitlines()[1:-1]
    return "\n".join(line.strip().removesuffix(" : tensor<8x16xf32>") for line in inner)


NOTHING = [
    'sdy.all_gather [{}, {}] %x out_sharding=<@g, [{"a"}, {"b"}]>',
    'sdy.all_slice [{}, {}] %x out_sharding=<@g, [{"a"}, {"b"}]>',
    'sdy.reduce_scatter [{}, {}] %x out_sharding=<@g, [{"a"}, {"b"}]>',
    'sdy.all_reduce {} %x out_sharding=<@g, [{"a"}, {"b"}]>',
    'sdy.collective_permute %x out_sharding=<@g, [{"a", ?}, {"b"}]>',
]


@pytest.mark.parametrize("op", NOTHING)
def test_collectives_that_do_nothing(op):
    assert _body(f"%0 = {op}\nreturn %0") == "return %arg0"


def test_what_becomes_unreduced_is_something():
    op = 'sdy.collective_permute %arg0 out_sharding=<@g, [{"a"}, {"b"}], unreduced={"c"}>'
    assert _body(f"%0 = {op.replace('%arg0', '%x')}\nreturn %0") == f"%0 = {op}\nreturn %0"


TWO = [
    (
        """%0 = sdy.reshard %x <@g, [{"c"}, {}]>
        %1 = sdy.reshard %0 <@g, [{}, {"a"}]>""",
        '%0 = sdy.reshard %arg0 <@g, [{}, {"a"}]>\nreturn %0',
    ),
    (
        """%0 = sdy.all_gather [{"a"}, {}] %x out_sharding=<@g, [{}, {"b"}]>
        %1 = sdy.all_slice [{"a"}, {}] %0 out_sharding=<@g, [{"a"}, {"b"}]>""",
        # The gather stays: collectives are not known to have no effects.
        '%0 = sdy.all_gather [{"a"}, {}] %arg0 out_sharding=<@g, [{}, {"b"}]>\nreturn %arg0',
    ),
    (
        """%0 = sdy.replicated_to_unreduced {"c"} %x out_sharding=<@g, [{"a"}, {"b"}], unreduced={"c"}>
        %1 = sdy.all_reduce {"c"} %0 out_sharding=<@g, [{"a"}, {"b"}]>""",
        (
            '%0 = sdy.replicated_to_unreduced {"c"} %arg0 out_sharding=<@g, [{"a"}, {"b"}], '
            'unreduced={"c"}>\nreturn %arg0'
        ),
    ),
    (
        """%0 = sdy.sharded_to_unreduced [{"a"}, {"b"}] %x out_sharding=<@g, [{}, {}], unreduced={"a", "b"}>
        %1 = sdy.all_reduce {"a", "b"} %0 out_sharding=<@g, [{}, {}]>""",
        (
            '%0 = sdy.sharded_to_unreduced [{"a"}, {"b"}] %arg0 out_sharding=<@g, [{}, {}], '
            'unreduced={"a", "b"}>\n'
            '%1 = sdy.all_gather [{"a"}, {"b"}] %arg0 out_sharding=<@g, [{}, {}]>\nreturn %1'
        ),
    ),
    (
        """%0 = sdy.all_reduce {"c"} %x out_sharding=<@g, [{"a"}, {"b"}]>
        %1 = sdy.all_slice [{}, {"c"}] %0 out_sharding=<@g, [{"a"}, {"b", "c"}]>""",
        (
            '%0 = sdy.reduce_scatter [{}, {"c"}] %arg0 out_sharding=<@g, [{"a"}, {"b", "c"}]>\n'
            "return %0"
        ),
    ),
    (
        """%0 = sdy.all_reduce min {"c"} %x out_sharding=<@g, [{"a"}, {"b"}]>
        %1 = sdy.all_slice [{}, {"c"}] %0 out_sharding=<@g, [{"a"}, {"b", "c"}]>""",
        (
            '%0 = sdy.reduce_scatter min [{}, {"c"}] %arg0 out_sharding=<@g, [{"a"}, {"b", "c"}]>\n'
            "return %0"
        ),
    ),
]


@pytest.mark.parametrize(("ops", "expected"), TWO)
def test_two_are_less(ops, expected):
    assert _body(f"{ops}\nreturn %1") == expected


KEPT = [
    """%0 = sdy.all_gather [{"a"}, {}] %arg0 out_sharding=<@g, [{}, {"b"}]>
    %1 = sdy.all_slice [{}, {"a"}] %0 out_sharding=<@g, [{}, {"b", "a"}]>""",
    """%0 = sdy.all_reduce {"c"} %arg0 out_sharding=<@g, [{"a"}, {"b"}]>
    %1 = sdy.all_slice [{"c":(1)2}, {}] %0 out_sharding=<@g, [{"a", "c":(1)2}, {"b"}]>""",
    """%0 = sdy.replicated_to_unreduced {"c":(1)2} %arg0 out_sharding=<@g, [{"a"}, {"b"}], unreduced={"c":(1)2}>
    %1 = sdy.all_reduce {"c"} %0 out_sharding=<@g, [{"a"}, {"b"}]>""",
    """%0 = sdy.all_to_all [{"a"}: 0->1] %arg0 out_sharding=<@g, [{}, {"b", "a"}]>
    %1 = sdy.all_to_all [{"a"}: 1->0] %0 out_sharding=<@g, [{"a"}, {"b"}]>""",
]


@pytest.mark.parametrize("ops", KEPT)
def test_two_stay_two(ops):
    expected = "\n".join(line.strip() for line in f"{ops}\nreturn %1".splitlines())
    assert _body(f"{ops}\nreturn %1".replace("%arg0", "%x")) == expected


def test_a_reshard_with_other_users_stays():
    text = """%0 = sdy.reshard %x <@g, [{"c"}, {}]>
        %1 = sdy.reshard %0 <@g, [{}, {"a"}]>
        return %0, %1"""
    assert _body(text, 2) == (
        '%0 = sdy.reshard %arg0 <@g, [{"c"}, {}]>\n'
        '%1 = sdy.reshard %0 <@g, [{}, {"a"}]>\n'
        "return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>"
    )


def test_slices_alike_of_one_reduction_are_one_scatter():
    text = """%0 = sdy.all_reduce {"c"} %x out_sharding=<@g, [{"a"}, {"b"}]>
        %1 = sdy.all_slice [{"c"}, {}] %0 out_sharding=<@g, [{"a", "c"}, {"b"}]>
        %2 = sdy.all_slice [{"c"}, {}] %0 out_sharding=<@g, [{"a", "c"}, {"b"}]>
        return %1, %2"""
    assert _body(text, 2) == (
        '%0 = sdy.reduce_scatter [{"c"}, {}] %arg0 out_sharding=<@g, [{"a", "c"}, {"b"}]>\n'
        "return %0, %0 : tensor<8x16xf32>, tensor<8x16xf32>"
    )


def test_what_is_not_reduced_is_still_sliced():
    text = """%0 = sdy.all_reduce {"c":(1)2} %x out_sharding=<@g, [{"a"}, {"b"}]>
        %1 = sdy.all_slice [{"c":(1)2, "c":(2)2}, {}] %0 out_sharding=<@g, [{"a", "c"}, {"b"}]>
        return %1"""
    with_axes_apart = text.replace('{"c":(1)2, "c":(2)2}, {}', '{"c":(1)2}, {"c":(2)2}').replace(
        '[{"a", "c"}, {"b"}]', '[{"a", "c":(1)2}, {"b", "c":(2)2}]'
    )
    assert _body(with_axes_apart) == (
        '%0 = sdy.reduce_scatter [{"c":(1)2}, {}] %arg0 out_sharding=<@g, [{"a", "c":(1)2}, {"b"}]>\n'
        '%1 = sdy.all_slice [{}, {"c":(2)2}] %0 out_sharding=<@g, [{"a", "c":(1)2}, '
        '{"b", "c":(2)2}]>\nreturn %1'
    )


def test_exchanges_of_other_dimensions_are_one():
    text = """
sdy.mesh @g = <["a"=2, "b"=2]>
func.func @f(%x: tensor<4x4x4x4xf32> {sdy.sharding = #sdy.sharding<@g, [{"a"}, {"b"}, {}, {}]>}) -> tensor<4x4x4x4xf32> {
  %0 = sdy.all_to_all [{"b"}: 1->3] %x out_sharding=<@g, [{"a"}, {}, {}, {"b"}]> : tensor<4x4x4x4xf32>
  %1 = sdy.all_to_all [{"a"}: 0->2] %0 out_sharding=<@g, [{}, {}, {"a"}, {"b"}]> : tensor<4x4x4x4xf32>
  return %1 : tensor<4x4x4x4xf32>
}
"""
    module = parse(text)
    run_pass(Canonicalize(), module, Session())
    ops = module.body().terminator.body().operations
    assert [op.name for op in ops] == ["sdy.all_to_all", "func.return"]
    assert str(ops[0].properties["params"]).endswith('[{"a"}: 0->2, {"b"}: 1->3]>')


RESHAPES = """%0 = sdy.reshard %x <@g, [{"c"}, {}]>
    %1 = stablehlo.reshape %x : (tensor<8x16xf32>) -> tensor<4x2x16xf32>
    %2 = sdy.reshard %1 <@g, [{SECOND}, {}, {}]> : tensor<4x2x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<4x2x16xf32>) -> tensor<8x16xf32>
    return %0, %3"""


def test_a_reshard_that_was_done_already_is_not_done_again():
    again = _body(RESHAPES.replace("SECOND", '"c"'), 2)
    assert again == (
        '%0 = sdy.reshard %arg0 <@g, [{"c"}, {}]>\n'
        "%1 = stablehlo.reshape %0 : (tensor<8x16xf32>) -> tensor<4x2x16xf32>\n"
        "%2 = stablehlo.reshape %1 : (tensor<4x2x16xf32>) -> tensor<8x16xf32>\n"
        "return %0, %2 : tensor<8x16xf32>, tensor<8x16xf32>"
    )
    other = _body(RESHAPES.replace("SECOND", '"a"'), 2)
    assert other.count("sdy.reshard") == 2


def test_a_reshard_along_parts_of_an_axis_may_have_been_done_along_the_whole():
    text = RESHAPES.replace("4x2x16", "2x4x16")
    parts = text.replace("[{SECOND}, {}, {}]", '[{"c":(1)2}, {"c":(2)2}, {}]')
    assert _body(parts, 2).count("sdy.reshard") == 1
    turned = text.replace("[{SECOND}, {}, {}]", '[{"c":(2)2}, {"c":(1)2}, {}]')
    assert _body(turned, 2).count("sdy.reshard") == 2


def test_a_reshard_to_something_unreduced_is_not_one_to_something_reduced():
    text = """%0 = sdy.reshard %x <@g, [{"a"}, {}], unreduced={"c"}>
        %1 = stablehlo.reshape %x : (tensor<8x16xf32>) -> tensor<4x2x16xf32>
        %2 = sdy.reshard %1 <@g, [{"a"}, {}, {}]> : tensor<4x2x16xf32>
        %3 = stablehlo.reshape %2 : (tensor<4x2x16xf32>) -> tensor<8x16xf32>
        return %0, %3"""
    assert _body(text, 2).count("sdy.reshard") == 2
    assert _body(text.replace(', unreduced={"c"}', ""), 2).count("sdy.reshard") == 1


def test_the_way_to_a_reshard_that_was_done_may_have_transposes():
    text = """%0 = sdy.reshard %x <@g, [{"c"}, {"a"}]>
        %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
        %2 = sdy.reshard %1 <@g, [{"a"}, {"c"}]> : tensor<16x8xf32>
        %3 = stablehlo.reshape %2 : (tensor<16x8xf32>) -> tensor<8x16xf32>
        return %0, %3"""
    # The strides of a 16x8 tensor are not those of an 8x16 one.
    assert _body(text, 2).count("sdy.reshard") == 2
    square = text.replace("8x16", "8x8").replace("16x8", "8x8")
    module = parse(
        HEAD.replace("RESULTS", "(tensor<8x8xf32>, tensor<8x8xf32>)").replace("8x16", "8x8")
        + square.replace('[{"c"}, {"a"}]>', '[{"c"}, {"a"}]> : tensor<8x8xf32>')
        + " : tensor<8x8xf32>, tensor<8x8xf32>\n}"
    )
    run_pass(Canonicalize(), module, Session())
    names = [op.name for op in module.body().terminator.body()]
    assert names == ["sdy.reshard", "stablehlo.transpose", "stablehlo.reshape", "func.return"]


MANUAL = """
sdy.mesh @unit = <["p"=1, "q"=1, "r"=2]>
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x, %y) in_shardings=[<@unit, [{"p"}]>, <@unit, [{"q"}]>] out_shardings=[<@unit, [{"p"}]>] manual_axes={AXES} (%a: tensor<8xf32>, %b: tensor<8xf32>) {
    %1 = stablehlo.tanh %b : tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def _manual(text: str) -> list[str]:
    module = parse(text)
    run_pass(Canonicalize(), module, Session())
    return [line.strip() for line in to_text(module.body().terminator).splitlines()[1:-1]]


def test_a_manual_computation_along_axes_of_size_one_is_inlined():
    assert _manual(MANUAL.replace("AXES", '"p", "q"')) == [
        "%0 = stablehlo.tanh %arg1 : tensor<8xf32>",
        "return %0 : tensor<8xf32>",
    ]


def test_one_along_others_loses_what_it_does_not_use():
    text = MANUAL.replace("AXES", '"r"').replace('[{"q"}]', '[{"r"}]')
    text = text.replace("%b: tensor<8xf32>)", "%b: tensor<4xf32>)").replace(
        "%1 = stablehlo.tanh %b : tensor<8xf32>",
        "%1 = stablehlo.concatenate %b, %b, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> "
        "tensor<8xf32>",
    )
    first = _manual(text)[0]
    assert first == (
        '%0 = sdy.manual_computation(%arg1) in_shardings=[<@unit, [{"r"}]>] '
        'out_shardings=[<@unit, [{"p"}]>] manual_axes={"r"} (%arg2: tensor<4xf32>) {'
    )


def test_what_nobody_knows_is_not_inlined():
    text = MANUAL.replace("AXES", '"p", "q"').replace(
        "%1 = stablehlo.tanh %b : tensor<8xf32>",
        '%1 = "who.knows"(%b) : (tensor<8xf32>) -> tensor<8xf32>',
    )
    assert _manual(text)[0].startswith("%0 = sdy.manual_computation(%arg1)")


def test_an_empty_manual_computation_goes():
    text = """
func.func @f() {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"p"} () {
    sdy.return
  } : () -> ()
  return
}
"""
    assert _manual(text) == ["return"]


CASE = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %i = stablehlo.constant dense<INDEX> : tensor<i32>
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.sine %x : tensor<4xf32>
    %2 = stablehlo.tanh %1 : tensor<4xf32>
    stablehlo.return %2 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("index", "names"),
    [(0, ["sine", "tanh", "return"]), (1, ["return"]), (2, ["constant", "case", "return"]),
     (-1, ["constant", "case", "return"])],
)  # fmt: skip
def test_a_case_of_which_the_branch_is_known(index, names):
    module = parse(CASE.replace("INDEX", str(index)))
    run_pass(Canonicalize(), module, Session())
    assert [op.name.partition(".")[2] for op in module.body().first.body()] == names


def test_patterns_are_chosen_by_label():
    text = """%0 = sdy.all_gather [{}, {}] %x out_sharding=<@g, [{"a"}, {"b"}]>
        %1 = sdy.reshard %0 <@g, [{"c"}, {}]>
        %2 = sdy.reshard %1 <@g, [{}, {"a"}]>
        return %2"""
    reshards = _body(text, enable_patterns=("sdy-reshard",))
    assert (reshards.count("reshard"), reshards.count("all_gather")) == (1, 1)
    collectives = _body(text, enable_patterns=("sdy-collective",), top_down=False)
    assert (collectives.count("reshard"), collectives.count("all_gather")) == (2, 0)
    none = _body(text, disable_patterns=("sdy-collective", "sdy-reshard"))
    assert (none.count("reshard"), none.count("all_gather")) == (2, 1)


def test_constants_of_arith_are_inlined_and_moved_up():
    text = """
sdy.mesh @unit = <["p"=1]>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@unit, [{}]>] out_shardings=[<@unit, [{}]>]
      manual_axes={"p"} (%a: tensor<8xf32>) {
    %1 = stablehlo.negate %a : tensor<8xf32>
    %2 = arith.constant dense<1.0> : tensor<8xf32>
    %3 = stablehlo.add %1, %2 : tensor<8xf32>
    sdy.return %3 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
    module = parse(text)
    run_pass(Canonicalize(), module, Session())
    names = [op.name for op in module.body().terminator.body()]
    assert names == ["arith.constant", "stablehlo.negate", "stablehlo.add", "func.return"]
