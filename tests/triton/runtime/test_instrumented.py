"""Kernels with checks: what is kept on disk of what they may report."""

from __future__ import annotations

import json

from emu.tile.ir import Location
from emu.tile.passes.check_bounds import Access
from emu.tile.passes.check_uninit import Use
from emu.tile.passes.observe_accesses import Observed
from emu.triton.runtime.instrumented import Sites


def test_sites_survive_json() -> None:
    call = Location("a.py", 3, 5, "kernel")
    accesses = (
        Access("load", Location("b.py", 7, 2, "inner", call), 1, "f32", 4, (2, 4), True),
        Access("atomic", None, None, "i32", 4, (), False),
    )
    uses = (Use("address", call, (2, 4)), Use("condition", None, ()))
    observed = (Observed(1, accesses[0], "release", "sys"), Observed(2, accesses[1], may_fail=True))
    sites = Sites(accesses, accesses[1:], uses, observed)
    assert Sites.from_json(json.loads(json.dumps(sites.to_json()))) == sites
