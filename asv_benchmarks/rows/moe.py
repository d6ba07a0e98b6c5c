"""Grouped products fused with their exchange, beside the exchange followed by the products.

With an emulated link, whose bandwidth is chosen so that both take about as long; without it the exchange
is a copy.
"""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, duel, typical
from rows.team import Team, TeamError, balancing_link

PES = 2
SIZES = {"rows": 1024, "depth": 1024, "columns": 1024}


def _team(linked: bool, settings: Settings) -> Team:
    """Return the PEs; with a link on which the exchange takes as long as the products."""
    bare = settings.teams("emu", PES)
    if not linked:
        return bare
    spent = [bare.seconds("moe_product", 1, way="computation", **SIZES) for _ in range(9)]
    nbytes = 2 * SIZES["rows"] // PES * SIZES["depth"]
    return settings.teams(balancing_link(nbytes, typical(spent), "5us"), PES)


def _product(linked: bool, way: str, settings: Settings) -> Outcome:
    try:
        team = _team(linked, settings)
    except TeamError as error:
        return Outcome(note=str(error))
    return duel(
        settings,
        lambda calls: team.seconds("moe_product", calls, way=way, **SIZES),
        lambda calls: team.seconds("moe_product", calls, way=f"{way}_unfused", **SIZES),
    )


ROWS = [
    Bench(
        f"mc2/{name}, {PES} PEs, {'a link' if linked else 'no link'}",
        "one after the other",
        "ms",
        Goal(1 / 0.65 if linked else 1 / 1.05),
        functools.partial(_product, linked, way),
    )
    for name, way in (("alltoallv_gmm", "there"), ("gmm_alltoallv", "back"))
    for linked in (True, False)
]
