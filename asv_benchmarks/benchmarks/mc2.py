"""Fused operators, and how much of their time is left of communication followed by computation."""

from rows.mc2 import LATENCY, SHAPES
from rows.team import Team, over_link

from .common import TeamBenchmark, unit


class Fused(TeamBenchmark):
    params = (list(SHAPES), [2, 8])
    param_names = ("operator", "n_pes")

    def setup(self, operator, n_pes):
        self.n_pes = n_pes
        super().setup()

    @unit("ms")
    def track_fused(self, operator, n_pes):
        sizes = dict(zip("mkn", SHAPES[operator][0], strict=True))
        return self.measure(f"{operator} fused", 1e3, **sizes)


class FusedOverALink(TeamBenchmark):
    params = (list(SHAPES),)
    param_names = ("operator",)

    def setup(self, *_):
        self.team = Team(over_link(f"100MB/s,{LATENCY}"), self.n_pes)

    @unit("%")
    def track_share_of_serial(self, operator):
        sizes = dict(zip("mkn", SHAPES[operator][0], strict=True))
        fused = self.measure(f"{operator} fused", **sizes)
        return 100 * fused / self.measure(f"{operator} serial", **sizes)
