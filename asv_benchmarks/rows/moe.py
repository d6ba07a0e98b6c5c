"""Grouped products fused with their exchange, beside the exchange followed by the products.

With the emulated link both take about as long; without it the exchange is a copy.
"""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.team import over_link

LINK = "100MB/s,5us"
SIZES = {"rows": 1024, "depth": 1024, "columns": 1024}


def _product(kind: str, way: str, settings: Settings) -> Outcome:
    team = settings.teams(kind, 2)
    return duel(
        settings,
        lambda calls: team.seconds("moe_product", calls, way=way, **SIZES),
        lambda calls: team.seconds("moe_product", calls, way=f"{way}_unfused", **SIZES),
    )


ROWS = [
    Bench(
        f"mc2/{name}, 2 PEs{where}",
        "one after the other",
        "us",
        Goal(goal),
        functools.partial(_product, kind, way),
    )
    for name, way in (("alltoallv_gmm", "there"), ("gmm_alltoallv", "back"))
    for where, kind, goal in ((f", {LINK}", over_link(LINK), 1.54), ("", "emu", 0.95))
]
