"""Operations of a World that is checked for races, beside put.Local, which is not."""

import numpy as np

import emu


class Races:
    """A world of one PE in this process: what the check adds to each call."""

    params = ([4 << 10, 64 << 10, 4 << 20],)
    param_names = ("nbytes",)

    def setup(self, nbytes):
        from emu.check import area_bytes
        from emu.comm.layout import Layout
        from emu.comm.memory.heap import register
        from emu.comm.memory.segment import Segment
        from emu.comm.world.making import make_world

        # Under the weak model each put would need a fence, whose cost is not what is asked here.
        checks = emu.Checks(race=True, memory_model="strong")
        sizes = {"n_pes": 1, "heap_bytes": 64 << 20}
        room = area_bytes(Layout(**sizes), checks)
        self.segment = Segment.create(Layout(**sizes, listener_bytes=room))
        me = register(self.segment, 0, 1)
        self.world = make_world(self.segment, me, 0, poison=False, checks=checks)
        self.tile = self.world.alloc((nbytes // 256, 64), np.float32)
        self.words = self.world.alloc(4, np.int64)
        self.source = np.ones((nbytes // 256, 64), np.float32)
        self.columns = np.ones((nbytes // 256, 128), np.float32)[:, :64]
        for name in ("set", "set_strided", "add", "get", "signal", "local"):
            getattr(self, f"time_{name}")(nbytes)  # compiles or loads the kernels

    def teardown(self, nbytes):
        self.tile = self.words = self.world = None
        self.segment.close()

    def time_set(self, nbytes):
        self.world.put(self.tile, self.source, 0)

    def time_set_strided(self, nbytes):
        self.world.put(self.tile, self.columns, 0)

    def time_add(self, nbytes):
        self.world.put(self.tile, self.source, 0, op=emu.AtomicOp.ADD)

    def time_get(self, nbytes):
        self.world.get(self.tile, 0)

    def time_signal(self, nbytes):
        self.world.signal_op(self.words, 1, 0)

    def time_local(self, nbytes):
        self.tile.local[0, 0] = 1
