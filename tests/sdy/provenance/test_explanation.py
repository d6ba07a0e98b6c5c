"""Why values are sharded as they are."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from sdy_explained import MLP, paths

import emu.sdy
from emu.commands.sdy.explain import run_explain
from emu.sdy.propagation.events import ConflictReason


def test_the_path_of_each_axis() -> None:
    (report,) = emu.sdy.explain(MLP).value("%t")
    assert paths(report) == [
        [("data", ["%x", "%h", "%t"])],
        [("model", ["%w", "%h", "%t"])],
    ]
    _, links = report.axes[0][0]
    assert [link.cause for link in links] == ["given", "stablehlo.dot", "stablehlo.tanh"]
    assert links[0].step is None
    assert [link.step for link in links[1:]] == sorted(link.step for link in links[1:])


def test_what_was_refused_and_why() -> None:
    # The sum is elementwise and so comes first: it takes "data" for the columns.
    pulled = '%v: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@m, [{?}, {"data", ?}]>})'
    (report,) = emu.sdy.explain(MLP.replace("%v: tensor<8x32xf32>)", pulled)).value("h")
    assert paths(report) == [[], [("data", ["%v", "%t", "%h"])]]
    rejected = {(r.axis.name, r.dim): r for r in report.rejections}
    assert rejected.keys() == {("data", 0), ("model", 1)}
    assert rejected["data", 0].conflict.reason is ConflictReason.OTHER_FACTOR
    assert rejected["model", 1].conflict.reason is ConflictReason.NOT_TAKEN
    assert '"data" on dim 0 at stablehlo.dot, factor i: the axis' in str(report)
    assert "(%h in @main, factor j)" in str(report)


def test_the_module_is_left_as_it_is_and_the_result_is_that_of_the_pipeline() -> None:
    module = emu.sdy.parse(MLP)
    before = str(module)
    explanation = emu.sdy.explain(module)
    assert str(module) == before
    emu.sdy.run_passes(module, "sdy-propagation-pipeline")
    assert str(explanation.module) == str(module)


def test_loops_and_constants() -> None:
    text = """\
    sdy.mesh @m = <["a"=2]>
    func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>}) -> tensor<8xf32> {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %one = stablehlo.constant dense<1.0> : tensor<8xf32>
      %r:2 = stablehlo.while(%i = %n, %c = %x) : tensor<i32>, tensor<8xf32>
      cond {
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %d = stablehlo.add %c, %one : tensor<8xf32>
        stablehlo.return %i, %d : tensor<i32>, tensor<8xf32>
      }
      %z = stablehlo.add %r#1, %one : tensor<8xf32>
      return %z : tensor<8xf32>
    }
    """
    explanation = emu.sdy.explain(text)
    (z,) = explanation.value("%z")
    assert paths(z) == [[("a", ["%x", "%r#1", "%z"])]]
    ones = explanation.value("%one")
    assert len(ones) == 2  # one a use
    assert all(paths(one)[0][0][0] == "a" for one in ones)


def test_calls_give_a_report_a_call() -> None:
    text = """\
    sdy.mesh @m = <["a"=2, "b"=2]>
    func.func @main(
        %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>},
        %y: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"b"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
      %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %1 = call @f(%y) : (tensor<8xf32>) -> tensor<8xf32>
      return %0, %1 : tensor<8xf32>, tensor<8xf32>
    }
    func.func private @f(%p: tensor<8xf32>) -> tensor<8xf32> {
      %q = stablehlo.negate %p : tensor<8xf32>
      return %q : tensor<8xf32>
    }
    """
    reports = emu.sdy.explain(text).value("%q")
    assert sorted(way[0][0] for r in reports for way in paths(r)) == ["a", "b"]


def test_user_priorities_and_groups_are_causes() -> None:
    text = """\
    sdy.mesh @m = <["a"=2, "b"=2]>
    func.func @main(
        %x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}p1, {?}]>},
        %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      sdy.sharding_group %x group_id=7 : tensor<8x8xf32>
      sdy.sharding_group %y group_id=7 : tensor<8x8xf32>
      %0 = stablehlo.negate %x : tensor<8x8xf32>
      return %0, %y : tensor<8x8xf32>, tensor<8x8xf32>
    }
    """
    explanation = emu.sdy.explain(text)
    (negated,) = explanation.value("%0")
    assert paths(negated)[0][0][0] == "a"
    (other,) = explanation.value("%y")
    (axis, links), *_ = other.axes[0]
    assert axis.name == "a"
    assert any(link.cause.startswith(("group", "priority")) for link in links)


def test_a_group_passes_on_what_a_member_got() -> None:
    text = """\
    sdy.mesh @m = <["a"=2, "b"=2]>
    func.func @main(
        %x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>},
        %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      %0 = stablehlo.negate %x : tensor<8x8xf32>
      sdy.sharding_group %0 group_id=0 : tensor<8x8xf32>
      sdy.sharding_group %y group_id=0 : tensor<8x8xf32>
      return %0, %y : tensor<8x8xf32>, tensor<8x8xf32>
    }
    """
    (report,) = emu.sdy.explain(text).value("%y")
    assert paths(report) == [[("a", ["%x", "%0", "%y"])], []]
    assert [link.cause for link in report.axes[0][0][1]] == ["given", "stablehlo.negate", "group 0"]


def test_the_command(tmp_path: Path) -> None:
    file, page = tmp_path / "mlp.mlir", tmp_path / "mlp.html"
    file.write_text(MLP)
    out, err = io.StringIO(), io.StringIO()
    status = run_explain(str(file), values=["%t"], html=page, stdout=out, stderr=err)
    assert (status, err.getvalue()) == (0, "")
    assert "%t in @main : tensor<8x32xf32>   (stablehlo.tanh, " in out.getvalue()
    assert "mlp.mlir:8" in out.getvalue()
    data = re.search(r"const data = (\{.*\});\n", page.read_text())
    assert data is not None
    drawn = json.loads(data[1])
    assert [v["name"] for v in drawn["values"]] == ["%x", "%w", "%v", "%h", "%t", "%s", "result#0"]
    assert drawn["shardings"][drawn["values"][0]["before"]]["dims"] == [[["data", 2, 4]], []]
    assert drawn["steps"], "something changed"
    for step in drawn["steps"]:
        assert all(0 <= number < 7 for number, _ in step["changes"])


def test_a_pass_that_fails_takes_nothing_away(tmp_path: Path) -> None:
    text = """\
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}], unreduced={"b"}>}) -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32>
  stablehlo.custom_call @keep(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  return %0 : tensor<8xf32>
}
"""
    explanation = emu.sdy.explain(text)
    assert "dropped unreduced axis 'b'" in str(explanation.failure)
    assert paths(explanation.value("%0")[0]) == [[("a", ["%x", "%0"])]]
    file = tmp_path / "in.mlir"
    file.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    assert run_explain(str(file), values=["%0"], stdout=out, stderr=err) == 1
    assert "stablehlo.negate" in out.getvalue()
    assert "in.mlir:3:8: error: " in err.getvalue()


@pytest.mark.parametrize(
    ("text", "values", "status", "said"),
    [
        (MLP, ["%none"], 2, "no value is called '%none'"),
        ("func.func @f(", [], 1, "error:"),
    ],
)
def test_the_command_refuses(
    text: str, values: list[str], status: int, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(text)
    err = io.StringIO()
    assert run_explain(str(file), values=values, stdout=io.StringIO(), stderr=err) == status
    assert said in err.getvalue()
