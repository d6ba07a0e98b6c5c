"""``emu.sdy.cost``: collectives with their causes, numbers of runs, and its data."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from sdy_cost_programs import MLP

import emu
import emu.sdy

PROGRAMS = Path(__file__).parent / "programs"


def test_a_collective_names_its_cause_and_where_its_axes_come_from() -> None:
    found = emu.sdy.cost(MLP, file="mlp.mlir", link="100GB/s,1us")
    (each,) = found.collectives
    assert (each.kind, each.axes, each.group_size) == ("all_reduce", ('"model"',), 2)
    assert (each.operand, each.payload_bytes, each.bytes_sent) == ("tensor<4x16xf32>", 256, 256)
    assert (each.runs, each.uncertainty) == (1, "")
    assert (each.operation, each.value) == ("stablehlo.dot", "%y in @main")
    assert (each.place, each.function) == ("mlp.mlir:9", "main")
    (source,) = each.sources
    assert (source.axis, source.value, source.dim) == ('"model"', "%a in @main", 1)
    assert (source.cause, source.place) == ("stablehlo.tanh", "mlp.mlir:8")
    assert source.origin == "%w in @main dim 1: given"
    # The step is the one that the explanation has.
    (report,) = emu.sdy.explain(MLP).value("%a")
    ((axis, path),) = report.axes[1]
    assert (axis.stripped_text(), path[-1].step) == ('"model"', source.step)
    assert found.n_steps == len(emu.sdy.explain(MLP).recorder.steps)
    assert found.flops == 2 * (4 * 16 * 16) + 2 * (4 * 16 * 16)
    assert found.transcendentals == 4 * 16
    assert found.seconds == pytest.approx(2e-6 + 256 / 100e9)


@pytest.mark.parametrize(
    ("line", "operation", "place"),
    [
        ("  %z = stablehlo.cosine %y : tensor<8x16xf32>\n", "result", "-:12"),
        ('  %z = sdy.sharding_constraint %y <@mesh, [{}, {"data"}]> : tensor<8x16xf32>\n',
         "sdy.sharding_constraint", "-:11"),
    ],
)  # fmt: skip
def test_who_needs_a_value_elsewhere_is_the_cause(line: str, operation: str, place: str) -> None:
    text = MLP.replace("-> tensor<8x16xf32> {", '-> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {\n')  # fmt: skip
    text = text.replace("  return %y", f"{line}  return %z")
    causes = {(c.kind, c.operation, c.place) for c in emu.sdy.cost(text).collectives}
    assert any(kind != "all_reduce" and (op, at) == (operation, place) for kind, op, at in causes)


def test_arguments_have_the_names_of_the_front_end() -> None:
    found = emu.sdy.cost((PROGRAMS / "mlp.mlir").read_text())
    origins = {source.origin for each in found.collectives for source in each.sources}
    assert origins == {"w (%arg2 in @main) dim 1: given", "y (%arg1 in @main) dim 0: given"}


def test_loops_and_calls_multiply() -> None:
    found = emu.sdy.cost((PROGRAMS / "ring_attention.mlir").read_text())
    assert [(c.kind, c.runs, c.uncertainty) for c in found.collectives] == [
        ("collective_permute", 8, "")
    ] * 2
    # Two products of 4 rows with 4 rows of 16, in each of 8 turns.
    assert dict(found.flops_by_kind)["products"] == 8 * 2 * (2 * 4 * 4 * 16)
    assert found.by_axes[0].name == '"ring"'
    assert found.by_place[0].name.startswith("make.py:")


WHILE = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %p: tensor<i1>,
                %k: tensor<i32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.while(%q = %p, %s = %zero) : tensor<i1>, tensor<f32>
  cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %q, %sum : tensor<i1>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
"""


def test_a_loop_whose_turns_are_unknown_is_said() -> None:
    found = emu.sdy.cost(WHILE)
    (each,) = found.collectives
    assert each.runs == 1
    assert each.uncertainty == ("the loop at -:6 runs an unknown number of times: once is counted")
    assert "how often 1 of 1 collectives run is not known" in found.notes
    assert "1?" in str(found)
    assert each.uncertainty in str(found)


def test_of_branches_the_one_that_takes_most_is_counted() -> None:
    def branch(body: str) -> str:
        return f"{{\n{body}\n}}"

    reduce = (
        "stablehlo.reduce({} init: %zero) applies stablehlo.add across dimensions = [0] "
        ": (tensor<4xf32>, tensor<f32>) -> tensor<f32>"
    )
    text = WHILE[: WHILE.index("  %0:2")] + (
        '  %0 = "stablehlo.case"(%k) ('
        + branch(f"%s = {reduce.format('%a')}\nstablehlo.return %s : tensor<f32>")
        + ", "
        + branch(
            f"%s = {reduce.format('%a')}\n%b = stablehlo.negate %a : tensor<4xf32>\n"
            f"%t = {reduce.format('%b')}\n%u = stablehlo.multiply %s, %t : tensor<f32>\n"
            "stablehlo.return %u : tensor<f32>"
        )
        + ", "
        + branch("stablehlo.return %zero : tensor<f32>")
        + ") : (tensor<i32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}"
    )
    found = emu.sdy.cost(text)
    assert [each.runs for each in found.collectives] == [0, 1, 1]
    assert "branch 0 of 3 at -:6: not counted" in found.collectives[0].uncertainty
    assert "branch 1 of 3 at -:6: counted" in found.collectives[1].uncertainty
    assert found.communication_seconds == pytest.approx(2 * found.collectives[1].seconds)


def test_without_shardings_nothing_is_communicated() -> None:
    found = emu.sdy.cost("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")  # fmt: skip
    assert (found.collectives, found.n_devices, found.mesh, found.seconds) == ((), 1, (), 0)
    assert str(found).startswith("1 device (no mesh), link 450 GB/s, 2 us\n")


def test_a_module_is_left_as_it_is() -> None:
    module = emu.sdy.parse(MLP)
    before = str(module)
    assert emu.sdy.cost(module, mesh={"data": 4}).n_devices == 8
    emu.sdy.what_if(module, "mesh")
    assert str(module) == before


def test_other_sizes_of_axes() -> None:
    found = emu.sdy.cost(MLP, mesh="model=8")
    assert found.mesh == (("data", 2), ("model", 8))
    assert found.collectives[0].group_size == 8
    text = MLP.replace('"model"=2]>', '"model"=2], device_ids=[3, 2, 1, 0]>')
    assert emu.sdy.cost(text, mesh={"data": 4}).n_devices == 8
    assert emu.sdy.cost(MLP, mesh={"model": 1}).collectives == ()


def test_other_shardings_of_arguments() -> None:
    moved = emu.sdy.cost(MLP, shardings={"%w": "[{}, {}]", "v": "<@mesh, [{}, {}]>"})
    assert moved.collectives == ()
    assert moved.flops == 2 * emu.sdy.cost(MLP).flops


def test_a_link_for_each_axis() -> None:
    links = {"data": emu.Link(bandwidth=1e9, latency=1.0), "model": "2GB/s,1ms"}
    found = emu.sdy.cost(MLP, link=links, flops=1e9)
    assert found.communication_seconds == pytest.approx(2e-3 + 256 / 2e9)
    assert found.compute_seconds == pytest.approx(found.flops / 1e9)
    assert found.link == "data: 1 GB/s, 1 s; model: 2 GB/s, 1 ms"
    # Along both axes the worse of each counts.
    text = MLP.replace('[{"model"}, {}]', '[{"data", "model"}, {}]').replace('[{"data"}, {}]', "[{}, {}]").replace('[{}, {"model"}]', '[{}, {"data", "model"}]')  # fmt: skip
    (each,) = emu.sdy.cost(text, link=links).collectives
    assert each.axes == ('"data"', '"model"')
    assert each.seconds == pytest.approx(each.steps * 1.0 + each.bytes_sent / 1e9)


def test_the_data_can_be_pickled_and_written_as_json() -> None:
    found = emu.sdy.cost((PROGRAMS / "transformer_block.mlir").read_text(), flops="67T")
    assert pickle.loads(pickle.dumps(found)) == found
    data = json.loads(found.to_json())
    assert data == json.loads(found.to_json(None))
    assert data["mesh"] == {"data": 2, "model": 4}
    assert data["seconds"] == found.seconds
    assert data["collectives"][0]["sources"][0]["axis"] == '"model"'
    assert sum(total["bytes_sent"] for total in data["by_axes"]) == found.communication_bytes


def test_the_table_shows_as_many_as_asked_for() -> None:
    found = emu.sdy.cost((PROGRAMS / "mlp.mlir").read_text())
    assert str(found) == found.table()
    assert "… and 3 more: " in found.table(1)
    assert found.table(0).count("all_reduce") == 1


def test_uneven_shards_are_noted() -> None:
    text = MLP.replace("tensor<8x16xf32>", "tensor<7x16xf32>").replace("8x32", "7x32")
    found = emu.sdy.cost(text)
    assert any("dimension 0 of %x has 7 elements" in note for note in found.notes)


def test_neither_numpy_nor_numba_is_loaded() -> None:
    program = (
        "import sys, emu.sdy\n"
        f"emu.sdy.cost({MLP!r}, flops='1T')\n"
        "print([m for m in ('numpy', 'numba') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_function_is_not_hidden_by_a_module() -> None:
    import emu.sdy.costs.analysis

    assert callable(emu.sdy.cost)
    assert emu.sdy.cost is emu.sdy.costs.analysis.cost


def test_meshes_with_the_same_devices_may_differ() -> None:
    text = """
    sdy.mesh @a = <["x"=2, "y"=2]>
    sdy.mesh @b = <["flat"=4]>
    func.func @main(%p: tensor<8xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>},
                    %q: tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"flat"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@a, [{}]>},
            tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{}]>}) {
      return %p, %q : tensor<8xf32>, tensor<8xf32>
    }"""
    found = emu.sdy.cost(text, link={"x": "1GB/s", "y": "1GB/s", "flat": "2GB/s"})
    assert [each.axes for each in found.collectives] == [('"x"',), ('"x"', '"y"')]


def test_links_of_several_meshes_are_those_of_the_axes_of_their_union() -> None:
    text = """
    sdy.mesh @a = <["x"=4, "y"=2]>
    sdy.mesh @b = <["p"=2, "q"=4]>
    func.func @main(%p: tensor<8xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>},
                    %q: tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"p"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@a, [{}]>},
            tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{}]>}) {
      return %p, %q : tensor<8xf32>, tensor<8xf32>
    }"""
    with pytest.raises(emu.sdy.ArgumentError, match=r"\(p, x_0, y\), but has none for 'x_0'"):
        emu.sdy.cost(text, link=dict.fromkeys("xypq", "1GB/s"))
    found = emu.sdy.cost(text, link=dict.fromkeys(["p", "x_0", "y"], "1GB/s"))
    assert [each.axes for each in found.collectives] == [('"p"', '"x_0"'), ('"p"',)]


def test_padding_is_not_taken_for_the_cause() -> None:
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {
      %0 = stablehlo.slice %a [1:7] : (tensor<8xf32>) -> tensor<6xf32>
      %1 = stablehlo.sine %0 : tensor<6xf32>
      return %1 : tensor<6xf32>
    }"""
    for each in emu.sdy.cost(text).collectives:
        assert each.place in ("-:4", "-:5", "-:6")
        assert each.value
