"""The PyPTO front end."""

from .common import TeamBenchmark, unit


class Store(TeamBenchmark):
    @unit("us")
    def track_small_store(self):
        return self.measure("shmem_store")
