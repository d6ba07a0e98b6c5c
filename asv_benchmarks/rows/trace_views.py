"""What it takes to say where the time of a long run went: `emu trace stats` on ten million events, on one core, a process and its imports included."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rows.measure import Bench, Goal, Outcome, Settings

N_PES = 8
_EVENTS, _FEW = 10_000_000, 100_000


def write_trace(path: Path, n_events: int) -> None:
    """Write a trace in which each PE computes, signals its neighbour and waits for one, in ranges of ten rounds."""
    import numpy as np

    from emu.trace.events import EVENT, Kind, Site
    from emu.trace.format import TraceWriter

    sites = [Site("kernel", "/p/a.py", 3), Site("put_signal", "/p/a.py", 5), Site("wait", "/p/a.py", 6), Site("step")]  # fmt: skip
    rounds = n_events // N_PES // 31 * 10
    random = np.random.default_rng(0)
    work = random.integers(5_000, 9_000, (rounds, N_PES))
    begun = np.arange(rounds)[:, None] * 12_000 + np.zeros(N_PES, np.int64)
    with TraceWriter(path, {"n_pes": N_PES, "command": ["emu", "run", "a.py"]}) as writer:
        for pe in range(N_PES):
            writer.sites(pe, sites)
            events = np.zeros((rounds // 10, 31), EVENT)
            three = np.zeros((rounds, 3), EVENT)
            left = (pe - 1) % N_PES
            sent = begun + work + 1_000
            three["start"] = np.stack([begun[:, pe], begun[:, pe] + work[:, pe], sent[:, pe]], 1)
            waited = np.maximum(sent[:, left] - sent[:, pe], 0) + 300
            three["duration"] = np.stack([work[:, pe], np.full(rounds, 1_000), waited], 1)
            three["kind"] = Kind.LAUNCH, Kind.SIGNAL, Kind.WAIT
            three["site"] = 0, 1, 2
            three["size"] = 0, 4096, 0
            three["peer"] = -1, (pe + 1) % N_PES, left
            flows = np.arange(rounds, dtype=np.uint64) * np.uint64(N_PES) + np.uint64(1)
            three["flow"][:, 1], three["flow"][:, 2] = (
                flows + np.uint64(pe),
                flows + np.uint64(left),
            )
            events[:, :30] = three.reshape(-1, 30)
            last = events[:, 29]
            events[:, 30] = np.zeros(1, EVENT)
            step = events[:, 30]
            step["kind"], step["site"], step["peer"] = Kind.RANGE, 3, -1
            step["start"] = events["start"][:, 0]
            step["duration"] = last["start"] + last["duration"] - step["start"]
            for part in np.array_split(events.reshape(-1), max(1, events.size // 65536)):
                writer.events(pe, part)
        writer.end("ok", 0, [0] * N_PES)


def _stats(settings: Settings) -> Outcome:
    n_events = _FEW if settings.quick else _EVENTS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.emutrace")
        write_trace(path, n_events)
        command = [sys.executable, "-m", "emu", "trace", "stats", "--json", str(path)]
        samples: list[float] = []
        work: list[float] = []
        for _ in range(2 if settings.quick else 4):  # the first one may compile, and finds the file
            begun = time.perf_counter()
            subprocess.run(
                command,
                check=True,
                stdout=subprocess.DEVNULL,
                preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
            )
            samples.append(time.perf_counter() - begun)
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            work.append(usage.ru_utime + usage.ru_stime - sum(work))
        note = f"{n_events:,} events, one core, {min(work[1:]):.1f} s of processor time"
        return Outcome(min(samples[1:]), note=note)


ROWS = [Bench("trace/stats of 10 million events", "-", "s", Goal(at_most=10), _stats)]
