"""The propagation passes on whole modules.

The files in ``golden`` hold a pipeline, a module, and what Shardy's own passes
make of it.
"""

from pathlib import Path

import pytest

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.propagate import (
    AggressivePropagate,
    BasicPropagate,
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
