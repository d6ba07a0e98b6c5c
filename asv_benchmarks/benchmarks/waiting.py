"""Barriers and signals between PEs."""

from .common import TeamBenchmark, unit


class Barrier(TeamBenchmark):
    params = ([2, 8, 64],)
    param_names = ("n_pes",)

    def setup(self, n_pes):
        self.n_pes = n_pes
        super().setup()

    @unit("us")
    def track_barrier(self, n_pes):
        return self.measure("barrier")


class Signal(TeamBenchmark):
    """A signal and the wait for it, one way."""

    @unit("us")
    def track_from_python(self):
        return self.measure("ping_pong", 0.5e6, pinned=1)

    @unit("us")
    def track_in_a_kernel(self):
        return self.measure("ping_pong_kernel", 0.5e6, pinned=1)
