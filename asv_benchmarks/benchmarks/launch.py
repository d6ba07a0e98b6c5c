"""Starting worlds, and the memory that they take."""

import emu

from .common import TeamBenchmark, unit


def meet():
    emu.world().barrier()


class Launch:
    params = ([1, 8, 64],)
    param_names = ("n_pes",)
    timeout = 180.0

    def setup(self, n_pes):
        emu.launch(meet, n_pes)  # starts the fork server, which loads every kernel once

    def time_launch(self, n_pes):
        emu.launch(meet, n_pes)

    def peakmem_launcher(self, n_pes):
        emu.launch(meet, n_pes)


class Memory(TeamBenchmark):
    """All PEs of an idle world together; a page that k of them share counts once."""

    params = ([1, 8],)
    param_names = ("n_pes",)

    def setup(self, n_pes):
        self.n_pes = n_pes
        super().setup()

    @unit("bytes")
    def track_world(self, n_pes):
        return sum(self.team.ask("memory"))
