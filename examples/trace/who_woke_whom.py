"""A ring that passes a token is traced, and the trace is read: which wait was ended by which PE, at which line.

Run with: python examples/trace/who_woke_whom.py
"""

import tempfile
from pathlib import Path

import numpy as np

import emu
from emu.trace import read_trace

N_PES, ROUNDS = 4, 2


def ring():
    world = emu.world()
    flag = world.alloc(1, np.int64, name="flag", poison=False)
    behind, ahead = (world.my_pe - 1) % world.n_pes, (world.my_pe + 1) % world.n_pes
    for number in range(1, ROUNDS + 1):
        with emu.trace.range(f"round {number}"):
            if world.my_pe == 0:
                world.signal_op(flag, number, ahead)
            world.wait_until(flag, emu.Cmp.EQ, number)
            if world.my_pe != 0:
                world.signal_op(flag, number, ahead)
    return behind


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ring.emutrace")
        before = emu.launch(ring, N_PES, trace=path)
        trace = read_trace(path)

    signals = {
        int(event["flow"]): (pe, trace.sites[pe][event["site"]])
        for pe, events in enumerate(trace.events)
        for event in events
        if event["flow"] and trace.sites[pe][event["site"]].name == "signal_op"
    }
    for pe, events in enumerate(trace.events):
        for event in events:
            site = trace.sites[pe][event["site"]]
            if site.name == "wait_until":
                waker, signal = signals[int(event["flow"])]
                assert waker == before[pe] == event["peer"]
                print(
                    f"PE {pe} waited {event['duration'] / 1000:.0f} us at line {site.line} "
                    f"for the {signal.name} of PE {waker} at line {signal.line}"
                )
