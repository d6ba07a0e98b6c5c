"""Shardy: text to modules and back, rules, propagation, explanations, programs on PEs."""

import numpy as np
from rows import sdy as rows


class _Task:
    """A task of the rows, on a program of so many operations."""

    params = (["mlp", "transformer"], [1400])
    param_names = ("program", "operations")
    timeout = 180.0

    def measure(self, program, operations, task, passes=""):
        prepare, call = rows.task(task, passes, rows.text_of(program, operations))
        self.given = prepare()
        self.call = call


class Text(_Task):
    params = (
        ["mlp", "transformer"],
        [1400],
        ["parse", "print", "round trip", "pickle", "unpickle"],
    )
    param_names = ("program", "operations", "task")

    def setup(self, program, operations, task):
        self.measure(program, operations, task)

    def time_text(self, program, operations, task):
        self.call(self.given)


class Long(_Task):
    """Does the time per operation grow?"""

    params = (["mlp", "transformer"], [14_000])

    def setup(self, program, operations):
        self.measure(program, operations, "round trip")

    def time_round_trip(self, program, operations):
        self.call(self.given)


class Passes(_Task):
    """Passes change the module: each sample has a fresh one."""

    number = 1
    rounds = 5
    params = (
        ["mlp", "transformer"],
        [1400],
        [rows.RULES, rows.PRIORITIES, rows.PIPELINE],
    )
    param_names = ("program", "operations", "passes")

    def setup(self, program, operations, passes):
        self.measure(program, operations, "run", passes)

    def time_passes(self, program, operations, passes):
        self.call(self.given)


class Explain(_Task):
    def setup(self, program, operations):
        self.measure(program, operations, "explain")

    def time_explain(self, program, operations):
        self.call(self.given)


class Execution:
    """Layers of an MLP on 8 PEs that stay, state and all."""

    timeout = 180.0

    def setup(self):
        import emu.sdy

        self.module = emu.sdy.parse(rows.text_of("mlp", 140))
        self.program = emu.sdy.compile(self.module)
        rng = np.random.default_rng(0)
        self.inputs = [
            rng.normal(size=each.type.shape).astype(np.float32)
            for each in self.program.partitioned.inputs
        ]
        self.program(*self.inputs, gather=False)

    def teardown(self):
        self.program.close()

    def time_call(self):
        self.program(*self.inputs, gather=False)

    def time_compile(self):
        import emu.sdy

        emu.sdy.compile(self.module)

    def track_buffers(self):
        return self.program._program.compiled.buffer_bytes

    track_buffers.unit = "bytes"
