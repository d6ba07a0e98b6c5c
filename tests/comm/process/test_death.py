"""How a PE's process died, in words."""

from __future__ import annotations

from emu.comm.fault_options import Faults
from emu.comm.process.death import how_it_died


def test_a_status_a_signal_and_what_cannot_be_known() -> None:
    assert how_it_died(None, 0) == "exited without reporting a result"
    assert how_it_died(3, 0) == "ended with exit status 3 before its function returned"
    assert how_it_died(-4, 0) == "was killed by SIGILL"


def test_likely_causes() -> None:
    assert how_it_died(-9, 0) == "was killed by SIGKILL; the system may have run out of memory"
    full = how_it_died(-7, 4096)
    assert full.startswith("was killed by SIGBUS; it touched memory that could not be had")
    assert "4096 bytes of it are free now" in full
    assert "emu run --check bounds" in how_it_died(-6, 0)
    assert "emu run --check bounds" in how_it_died(-11, 0)


def test_a_fault_that_was_to_do_it_is_named_and_another_is_not() -> None:
    kill, enospc = faults = Faults("kill:pe=0,at=op:1;enospc:pe=0,nth=1").each
    assert how_it_died(-9, 0, faults) == f"was killed by SIGKILL; the fault {kill} was to do that"
    assert how_it_died(-7, 0, faults) == f"{how_it_died(-7, 0)}; the fault {enospc} was to do that"
    assert how_it_died(-11, 0, faults) == how_it_died(-11, 0)
