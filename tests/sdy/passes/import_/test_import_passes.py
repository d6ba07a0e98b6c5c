"""Import passes against what Shardy writes, and what they say when they fail.

The golden pairs are ``NAME.mlir``, whose first line names the pass, and
``NAME.expected.mlir``, which Shardy's own passes wrote from it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.mlir import parse
from emu.sdy.passes.run import run_passes

GOLDEN = Path(__file__).parent / "golden"


NAMES = sorted(p.stem for p in GOLDEN.glob("*.mlir") if not p.stem.endswith(".expected"))


def after(text: str, passes: str) -> str:
    """The module's text after passes, without the words around it."""
    module = parse(text)
    run_passes(module, passes)
    return str(module).rstrip("\n")


@pytest.mark.parametrize("name", NAMES)
def test_as_shardy_writes_it(name: str) -> None:
    text = (GOLDEN / f"{name}.mlir").read_text()
    passes = text.partition("\n")[0].removeprefix("// ")
    assert after(text, passes) == (GOLDEN / f"{name}.expected.mlir").read_text().rstrip("\n")


@pytest.mark.parametrize(
    "name",
    [
        "sdy-lift-inlined-meshes",
        "sdy-inline-meshes",
        "sdy-remove-size-one-axes",
        "sdy-manual-axes-cleanup",
        "sdy-sharding-group-import",
        "sdy-flatten-call-graph",
        "sdy-propagate-sharding-from-func-to-call",
    ],
)
def test_a_second_time_changes_nothing(name: str) -> None:
    for golden in ("import_pipeline_dedup", "lift_inlined_meshes", "flatten_call_graph"):
        text = (GOLDEN / f"{golden}.expected.mlir").read_text()
        module = parse(text)
        run_passes(module, name)
        once = str(module)
        run_passes(module, name)
        assert str(module) == once, golden
