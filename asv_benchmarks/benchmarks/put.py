"""put, from Python to the end of the store."""

import numpy as np

import emu

from .common import TeamBenchmark, unit


class Local:
    """A world of one PE in this process: what the call costs, without another process."""

    params = ([4 << 10, 64 << 10, 1 << 20, 4 << 20],)
    param_names = ("nbytes",)

    def setup(self, nbytes):
        from emu.comm.layout import Layout
        from emu.comm.memory.heap import register
        from emu.comm.memory.segment import Segment
        from emu.comm.world.world import World

        self.segment = Segment.create(Layout(n_pes=1, heap_bytes=64 << 20))
        self.world = World(self.segment, register(self.segment, 0, 1), 0, poison=False)
        self.tile = self.world.alloc((nbytes // 256, 64), np.float32)
        self.source = np.ones((nbytes // 256, 64), np.float32)
        self.columns = np.ones((nbytes // 256, 128), np.float32)[:, :64]
        self.time_set(nbytes)  # compiles or loads the kernels
        self.time_set_strided(nbytes)
        self.time_add(nbytes)
        self.time_get(nbytes)

    def teardown(self, nbytes):
        self.tile = self.world = None
        self.segment.close()

    def time_set(self, nbytes):
        self.world.put(self.tile, self.source, 0)

    def time_set_strided(self, nbytes):
        self.world.put(self.tile, self.columns, 0)

    def time_add(self, nbytes):
        self.world.put(self.tile, self.source, 0, op=emu.AtomicOp.ADD)

    def time_get(self, nbytes):
        self.world.get(self.tile, 0, out=self.source)


class Remote(TeamBenchmark):
    """From PE 0 to PE 1."""

    params = ([4 << 10, 64 << 10, 4 << 20],)
    param_names = ("nbytes",)

    @unit("us")
    def track_set(self, nbytes):
        return self.measure("put_set", nbytes=nbytes)

    @unit("us")
    def track_add(self, nbytes):
        return self.measure("put_add", nbytes=nbytes)


class OneTile(TeamBenchmark):
    """PEs that all add into one 1024×1024 fp32 tile."""

    params = ([1, 2],)
    param_names = ("pes",)

    @unit("us")
    def track_add(self, pes):
        return self.measure("add_shared_tile", pes=pes)
