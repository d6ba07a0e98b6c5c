"""Settings that were read before a process became a PE."""

from __future__ import annotations

import pytest

import emu
from emu.comm import pe_environment
from emu.triton import knobs


def checks_of_kernels() -> tuple[str | None, int]:
    return knobs.runtime.check, emu.world().my_pe


@pytest.mark.parametrize(
    ("checks", "of_kernels"),
    [
        (emu.Checks(race=True), "race"),
        (emu.Checks(race="all", leak=True, uninit=True), "race:all,uninit"),
        (emu.Checks(leak=True), None),
    ],
)
@pytest.mark.parametrize("preload", [(), ("emu.triton",)])
def test_kernels_on_pes_have_the_checks_of_the_launch(
    checks: emu.Checks, of_kernels: str | None, preload: tuple[str, ...]
) -> None:
    # emu.triton is loaded by each PE, or by the process that they are forks of.
    (found,) = emu.launch(checks_of_kernels, 1, checks=checks, preload=preload)
    assert found == (of_kernels, 0)


def test_each_reader_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr(pe_environment, "_readers", [])
    for number in (1, 2):
        pe_environment.when_set(lambda number=number: called.append(number))  # type: ignore[misc]
    pe_environment.read_again()
    assert called == [1, 2]
