"""Sharding groups in propagation."""

from pathlib import Path

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed, Severity
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.propagate import (
    BasicPropagate,
)

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.mlir"))


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
