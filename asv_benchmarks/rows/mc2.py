"""Fused operators beside communication followed by computation, with an emulated link and without.

With a link its bandwidth is chosen so that communication takes about as long as the product does
on this machine; ``hidden`` is the share of that time which the fused operator does not take.
"""

from __future__ import annotations

import functools

from rows.measure import Bench, Goal, Outcome, Settings, duel, typical
from rows.team import Team, TeamError, balancing_link

PARTS = ("fused", "serial", "communication", "computation")
LATENCY = "5us"
SHAPES = {
    # m, k, n on each PE; bytes that cross each link, by number of PEs
    "all_gather_matmul": ((512, 2048, 1024), lambda m, k, n, pes: 2 * m * k),
    "matmul_reduce_scatter": ((1024, 2048, 1024), lambda m, k, n, pes: 2 * m * n // pes),
    "matmul_all_reduce": ((1024, 2048, 1024), lambda m, k, n, pes: 2 * 2 * m * n // pes),
}


def sizes_of(operator: str) -> dict[str, int]:
    """Return the sizes of an operator's product by name."""
    return dict(zip("mkn", SHAPES[operator][0], strict=True))


def _team(operator: str, pes: int, linked: bool, settings: Settings) -> Team:
    """Return the PEs; with a link on which communication takes as long as the product."""
    bare = settings.teams("emu", pes)
    if not linked:
        return bare
    sizes = sizes_of(operator)
    name = f"{operator} computation"
    seconds = typical([bare.seconds(name, 1, **sizes) for _ in range(9)])
    nbytes = SHAPES[operator][1](*sizes.values(), pes)
    return settings.teams(balancing_link(nbytes, seconds, LATENCY), pes)


def _beside_serial(operator: str, pes: int, linked: bool, settings: Settings) -> Outcome:
    try:
        team = _team(operator, pes, linked, settings)
    except TeamError as error:
        return Outcome(note=str(error))
    sizes = sizes_of(operator)
    fused, serial = (
        functools.partial(team.seconds, f"{operator} {part}", **sizes) for part in PARTS[:2]
    )
    return duel(settings, fused, serial)


def _hidden(operator: str, pes: int, settings: Settings) -> Outcome:
    """Return the share of the communication, in percent, that the fused operator hides."""
    try:
        team = _team(operator, pes, True, settings)
        sizes = sizes_of(operator)
        samples: dict[str, list[float]] = {part: [] for part in PARTS}
        for _ in range(settings.rounds):
            for part, found in samples.items():
                found.append(team.seconds(f"{operator} {part}", 1, **sizes))
    except TeamError as error:
        return Outcome(note=str(error))
    fused, _, communication, computation = (typical(samples[part]) for part in PARTS)
    share = (communication + computation - fused) / min(communication, computation)
    note = f"communication {1e3 * communication:.1f} ms, computation {1e3 * computation:.1f} ms"
    return Outcome(100 * share, 100.0, note)


ROWS = [
    *(
        Bench(
            f"mc2/{operator}, {pes} PEs, {'a link' if linked else 'no link'}",
            "one after the other",
            "ms",
            Goal(1 / 0.65 if linked else 1 / 1.05),
            functools.partial(_beside_serial, operator, pes, linked),
        )
        for operator in SHAPES
        for pes, linked in ((2, True), (2, False), (8, True), (8, False))
    ),
    *(
        Bench(
            f"mc2/{operator}, {pes} PEs, communication hidden",
            "all of it",
            "%",
            Goal(),
            functools.partial(_hidden, operator, pes),
            more_is_better=True,
        )
        for operator in SHAPES
        for pes in (2, 8)
    ),
]
