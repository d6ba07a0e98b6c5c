"""What a trace costs: an event, whole programs of 8 PEs, and bytes in a file.

The peer of a recorded program is the same without a trace: 0.97 is 3 % more time.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path

from rows.mc2 import sizes_of
from rows.measure import Bench, Goal, Outcome, Settings, duel, typical
from rows.pypto_programs import PROGRAMS
from rows.team import RECORDED, TeamError

N_PES = 8
_LOOP = 100_000


def _program(task: str, sizes: dict[str, int], settings: Settings) -> Outcome:
    """Time a program in PEs that are recorded, and in PEs that are not."""
    try:
        ours, theirs = settings.teams(RECORDED, N_PES), settings.teams("emu", N_PES)
    except TeamError as error:
        return Outcome(note=str(error))
    return duel(
        settings,
        lambda calls: ours.seconds(task, calls, **sizes),
        lambda calls: theirs.seconds(task, calls, **sizes),
    )


def _event(settings: Settings) -> Outcome:
    """Time the compiled writer in a loop of compiled code, with a ring that is emptied before."""
    import numpy as np

    from emu.kernels.core.jit import jit
    from emu.trace import ring
    from emu.trace.area import W_HEAD, W_MASK, W_TAIL, WORDS_BYTES
    from emu.trace.events import EVENT

    @jit()
    def write_many(address: int, count: int) -> None:
        for _ in range(count):
            ring.end_now(address, 0, 64, 1, 1 << 32, 3)

    records = 1 << 17
    words = np.zeros((WORDS_BYTES + records * EVENT.itemsize) // 8, np.int64)
    words[W_MASK] = records - 1
    address = int(words.ctypes.data)
    samples = []
    for _ in range(settings.rounds + 2):
        words[W_TAIL] = words[W_HEAD]
        start = time.perf_counter()
        write_many(address, _LOOP)
        samples.append((time.perf_counter() - start) / _LOOP * 1e9)
    return Outcome(typical(samples[2:]))


def _bytes(suffix: str, settings: Settings) -> Outcome:
    """Count the bytes of a file an event: of a ring of PEs that put, signal, wait, reduce and compute."""
    import emu
    from emu.trace.converting import convert
    from emu.trace.reading import read_trace
    from rows.trace_program import steps

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.emutrace")
        emu.launch(steps, 4, args=(20 if settings.quick else 500,), trace=path, prefix_output=False)
        count = sum(map(len, read_trace(path).events))
        file = path if suffix == ".emutrace" else path.with_suffix(suffix)
        if file != path:
            convert(path, file)
        return Outcome(file.stat().st_size / count, note=f"{count} events")


ROWS = [
    Bench("trace/an event, compiled", "-", "ns", Goal(at_most=60), _event),
    *(
        Bench(
            f"trace/{name}, {N_PES} PEs",
            "the same without a trace",
            "ms",
            Goal(0.97),
            functools.partial(_program, task, sizes),
        )
        for name, task, sizes in (
            *((n, f"pypto_{n}", {**s, "half": 0, "native": 0}) for n, s in PROGRAMS.items()),
            ("all_gather_matmul", "all_gather_matmul fused", sizes_of("all_gather_matmul")),
            ("small all_reduce", "small_all_reduce", {"nbytes": 1024}),
        )
    ),
    *(
        Bench(
            f"trace/bytes an event, {suffix}",
            "-",
            "B",
            Goal(at_most=most),
            functools.partial(_bytes, suffix),
        )
        for suffix, most in ((".emutrace", 41), (".pftrace", 40), (".json", None))
    ),
]
