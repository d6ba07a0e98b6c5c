"""The passes that propagate: what they refuse, and their options."""

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.propagate import (
    BasicPropagate,
    UserPriorityPropagate,
)


def propagate(text, *passes):
    module, session = parse(text), Session()
    for each in passes or (BasicPropagate(),):
        run_pass(each, module, session)
    return module, session.diagnostics.emitted


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
