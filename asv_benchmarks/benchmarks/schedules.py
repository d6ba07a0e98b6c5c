"""Runs of a program in an order that is asked for, beside one that runs as it happens."""

import numpy as np

import emu

ROUNDS = 50


def messages():
    """Pass a word around, ``ROUNDS`` times."""
    world = emu.world()
    words = world.alloc(1, np.int64, poison=False)
    right = (world.my_pe + 1) % world.n_pes
    for number in range(1, ROUNDS + 1):
        if world.my_pe == 0:
            world.signal_op(words, number, right)
        world.wait_until(words, emu.Cmp.GE, number)
        if world.my_pe:
            world.signal_op(words, number, right)


class Orders:
    """Launches of two PEs, 50 rounds of messages each; in the steered ones each PE does about 100 operations."""

    timeout = 300

    def setup(self):
        from emu.schedule.running import Program

        self.program = Program(messages, 2)
        for name in ("plain", "first", "random"):
            for _ in range(
                2
            ):  # compiles the kernels, and starts the server that PEs are forked from
                getattr(self, f"time_{name}")()

    def time_plain(self):
        emu.launch(messages, 2, preload=["emu.schedule.preload"])

    def time_first(self):
        self._run("first")

    def time_random(self):
        self._run("random")

    def _run(self, strategy):
        outcome = self.program.run(emu.Schedule(strategy=strategy, seed=1))
        assert outcome.error is None

    def track_operations(self):
        """Return the number of operations of a run."""
        return len(self.program.run(emu.Schedule()).trace.steps)
