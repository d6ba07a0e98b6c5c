"""Transfers over an emulated link: what comes on top of the modelled time."""

from rows.team import Team, over_link

from .common import TeamBenchmark, unit

MODELLED_US = {1 << 16: 65.536, 1 << 20: 1048.576}


class EmulatedLink(TeamBenchmark):
    params = (list(MODELLED_US),)
    param_names = ("nbytes",)

    def setup(self, *_):
        self.team = Team(over_link("1GB/s"), self.n_pes)

    @unit("us")
    def track_overhead(self, nbytes):
        return self.measure("put_set", nbytes=nbytes) - MODELLED_US[nbytes]
