"""Small programs before and after each pass: ``golden/*.mlir``.

A case is what stands between ``// CASE name`` and the next one: the passes, the
program, and behind ``// GIVES`` the module that they make of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import emu.sdy
from emu.mlir.diagnostics import Severity

GOLDEN = Path(__file__).with_name("golden")


def cases(*names: str) -> list[pytest.ParameterSet]:  # type: ignore[name-defined]
    found = []
    for file in sorted(GOLDEN.glob("*.mlir")):
        if names and file.stem not in names:
            continue
        for text in file.read_text().split("// CASE ")[1:]:
            name, _, rest = text.partition("\n")
            passes, _, rest = rest.removeprefix("// PASSES ").partition("\n")
            before, _, after = rest.partition("// GIVES\n")
            found.append(pytest.param(passes, before, after, id=f"{file.stem}: {name}"))
    return found


@pytest.mark.parametrize(("passes", "before", "after"), cases())
def test_pass(passes: str, before: str, after: str) -> None:
    module = emu.sdy.parse(before)
    emitted = emu.sdy.run_passes(module, passes)
    assert str(module).strip() == after.strip()
    assert all(each.severity is Severity.WARNING for each in emitted)


@pytest.mark.parametrize(
    ("passes", "before", "after"), cases("boundaries", "cleanup", "collectives", "constants")
)
def test_again_changes_nothing(passes: str, before: str, after: str) -> None:
    """What these passes have made, they leave as it is."""
    module = emu.sdy.parse(after)
    emu.sdy.run_passes(module, passes)
    assert str(module).strip() == after.strip()
