"""Collectives with their output preallocated."""

from .common import TeamBenchmark, unit


class Collectives(TeamBenchmark):
    params = ([2, 8], [64 << 10, 64 << 20])
    param_names = ("n_pes", "nbytes")

    def setup(self, n_pes, nbytes):
        self.n_pes = n_pes
        super().setup()

    @unit("us")
    def track_all_gather(self, n_pes, nbytes):
        return self.measure("all_gather", nbytes=nbytes)

    @unit("us")
    def track_all_reduce(self, n_pes, nbytes):
        return self.measure("all_reduce", nbytes=nbytes)
