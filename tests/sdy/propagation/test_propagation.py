"""The propagation passes on whole modules.

The files in ``golden`` hold a pipeline, a module, and what Shardy's own passes
make of it.
"""

from pathlib import Path

import pytest

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import PassFailed, Severity
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.propagate import (
    AggressivePropagate,
    BasicPropagate,
    OpPriorityPropagate,
    PropagationStrategy,
    UserPriorityPropagate,
)
from emu.sdy.passes.text import parse_pipeline

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.mlir"))


def propagate(text, *passes):
    module, session = parse(text), Session()
    for each in passes or (BasicPropagate(),):
        run_pass(each, module, session)
    return module, session.diagnostics.emitted


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden(path):
    before, expected = path.read_text().split("// -----\n")
    first, _, text = before.partition("\n")
    module, _ = propagate(text, *parse_pipeline(first.removeprefix("// ")))
    assert to_text(module).rstrip() == expected.rstrip()


def test_there_is_a_golden_file_for_each_pass():
    passes = {path.read_text().partition("\n")[0] for path in GOLDEN}
    for name in ("basic-", "aggressive-", "op-priority-", "user-priority-"):
        assert any(f"sdy-{name}propagate" in each for each in passes)


LAYER = """
  %d{0} = stablehlo.dot %x{0}, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %x{1} = stablehlo.tanh %d{0} : tensor<8x8xf32>"""


def layers(count):
    body = "".join(LAYER.format(i, i + 1) for i in range(count))
    return f"""
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%x0: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@grid, [{{"x"}}, {{?}}]>}},
                %w: tensor<8x8xf32>) -> tensor<8x8xf32> {{{body}
  return %x{count} : tensor<8x8xf32>
}}"""


def test_equal_layers_are_computed_once(monkeypatch):
    from emu.sdy.propagation import steps

    computed = []
    run_step = steps.run_step
    monkeypatch.setattr(steps, "run_step", lambda *args: computed.append(1) or run_step(*args))
    counts = []
    for depth in (5, 50):
        computed.clear()
        propagate(layers(depth), UserPriorityPropagate())
        counts.append(len(computed))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("make", [BasicPropagate, AggressivePropagate, UserPriorityPropagate])
def test_another_run_finds_nothing_to_do(make):
    module, _ = propagate(layers(3), make())
    once = to_text(module)
    run_pass(make(), module, Session())
    assert to_text(module) == once


def function(body, arguments="%a: tensor<8xf32>", results="tensor<8xf32>"):
    return f"""
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main({arguments}) -> {results} {{
{body}
}}"""


def test_dynamic_shapes_are_rejected():
    text = function(
        "%0 = stablehlo.abs %a : tensor<?xf32>\nreturn %0 : tensor<?xf32>",
        "%a: tensor<?xf32>",
        "tensor<?xf32>",
    )
    module, session = parse(text), Session()
    with pytest.raises(PassFailed, match="cannot be sharded"):
        run_pass(BasicPropagate(), module, session)
    (error,) = session.diagnostics.errors
    assert error.message == (
        "Shardy propagation only supports ranked tensors with a static shape. type: 'tensor<?xf32>'"
    )
    assert error.location.line == 4


def test_tuples_are_rejected():
    text = function(
        "%0 = stablehlo.custom_call @pair(%a) : (tensor<8xf32>) -> tuple<tensor<8xf32>>\n"
        "return %a : tensor<8xf32>"
    )
    session = Session()
    with pytest.raises(PassFailed):
        run_pass(BasicPropagate(), parse(text), session)
    assert [error.message for error in session.diagnostics.errors] == [
        "Shardy propagation doesn't support tuples: 'tuple<tensor<8xf32>>'"
    ]


def test_without_a_main_function_there_is_no_propagation():
    text = """
func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }
func.func @second(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }
"""
    session = Session()
    with pytest.raises(PassFailed):
        run_pass(BasicPropagate(), parse(text), session)
    assert [error.message for error in session.diagnostics.errors] == [
        "Failed to lookup function: main"
    ]


def test_a_declaration_has_nothing_to_propagate():
    text = 'sdy.mesh @grid = <["x"=2]>\nfunc.func private @main(tensor<8xf32>) -> tensor<8xf32>'
    module, diagnostics = propagate(text)
    assert "sdy.sharding" not in to_text(module)
    assert not diagnostics


def test_meshes_written_in_place_propagate_too():
    text = function(
        "%0 = stablehlo.abs %a : tensor<8xf32>\nreturn %0 : tensor<8xf32>",
        '%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["u"=2]>, [{"u"}]>}',
    )
    module, _ = propagate(text)
    assert '#sdy.sharding_per_value<[<mesh<["u"=2]>, [{"u", ?}]>]>' in to_text(module)


def test_a_value_in_two_groups_is_an_error():
    text = function(
        "sdy.sharding_group %a group_id=0 : tensor<8xf32>\n"
        "sdy.sharding_group %a group_id=1 : tensor<8xf32>\n"
        "return %a : tensor<8xf32>"
    )
    session = Session()
    with pytest.raises(PassFailed, match="two sharding groups"):
        run_pass(BasicPropagate(), parse(text), session)
    assert session.diagnostics.errors


def test_members_of_a_group_that_disagree_are_warned_of():
    text = next(p for p in GOLDEN if p.stem == "basic_group_disagrees").read_text()
    _, diagnostics = propagate(text.partition("\n")[2].split("// -----\n")[0])
    (warning,) = diagnostics
    assert warning.severity is Severity.WARNING
    assert "sharding groups of groupID: 0 do not match" in warning.message


def test_modules_are_written_between_user_priorities(tmp_path):
    arguments = '%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}p1, {"y"}p4]>}'
    text = function("return %a : tensor<8x8xf32>", arguments, "tensor<8x8xf32>")
    make = UserPriorityPropagate(module_dump_directory=str(tmp_path), dump_index=7)
    propagate(text, make)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(written) == [
        "07.propagation_after_user_priority_0.mlir",
        "07.propagation_after_user_priority_1.mlir",
    ]
    hidden = written["07.propagation_after_user_priority_0.mlir"]
    assert '#sdy.sharding<@grid, [{}, {}], replicated={"x", "y"}>' in hidden
    half = written["07.propagation_after_user_priority_1.mlir"]
    assert '#sdy.sharding<@grid, [{"x"}, {}], replicated={"y"}>' in half


def test_options_as_text():
    (made,) = parse_pipeline(
        "sdy-op-priority-propagate{propagation-strategy=basic-then-aggressive "
        "run-op-priority-propagation=false conservative-propagation=true}"
    )
    assert made == OpPriorityPropagate(
        conservative_propagation=True,
        propagation_strategy=PropagationStrategy.BASIC_THEN_AGGRESSIVE,
        run_op_priority_propagation=False,
    )
