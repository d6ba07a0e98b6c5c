"""A trace of two PEs that multiply, gather, normalise and wait: what documents and commands are tried on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trace_counts import counts_json
from trace_programs import TraceMaker

from emu.trace.events import Kind, Thread


def sample() -> TraceMaker:
    """Return the trace: per PE a product, a put that is hidden, a kernel without counts, an all-reduce, a signal and a barrier."""
    maker = TraceMaker(2)
    m = n = k = 4096
    programs = 32 * 16
    product: dict[str, Any] = {
        "grid": [programs, 1, 1],
        "counts": counts_json(
            programs=programs,
            dot={"f16": 2 * m * n * k},
            tensors=[
                (m * k * 2 * 8, m * k * 2),
                (k * n * 2 * 16, k * n * 2),
                (m * n * 2, m * n * 2),
            ],
        ),
    }
    norm: dict[str, Any] = {
        "grid": [4096, 1, 1],
        "counts": counts_json(
            programs=4096,
            vector={"f32": 5 * m * n},
            special=4096,
            tensors=[(m * n * 2, m * n * 2), (m * n * 2, m * n * 2)],
        ),
    }
    for pe in range(2):
        begin = 1000 * pe
        maker.add(pe, Kind.RANGE, begin, 120_000_000, name="step")
        maker.add(pe, Kind.COMPILE, begin + 10_000, 900_000, name="compile matmul")
        maker.add(pe, Kind.LAUNCH, begin + 1_000_000, 60_000_000, name="matmul", details=product)
        maker.add(
            pe,
            Kind.PUT,
            begin + 2_000_000,
            3_000_000,
            size=8 << 20,
            peer=1 - pe,
            thread=Thread.TASKS,
        )
        maker.add(pe, Kind.LAUNCH, begin + 62_000_000, 10_000_000, name="rms_norm", details=norm)
        maker.add(pe, Kind.LAUNCH, begin + 73_000_000, 1_000_000, name="without counts")
        maker.add(
            pe,
            Kind.COLLECTIVE,
            80_000_000 + begin,
            10_000_000 - begin,
            name="all_reduce",
            size=32 << 20,
            flow=1,
            details={"members": [0, 1]},
        )
    maker.add(0, Kind.SIGNAL, 95_000_000, 1000, size=4096, peer=1, flow=2, name="put_signal")
    maker.add(1, Kind.WAIT, 91_000_000, 4_100_000, flow=2, name="wait_until")
    for pe in range(2):
        maker.add(pe, Kind.BARRIER, 100_000_000 + pe, 1_000_000 - pe, name="barrier", flow=3)
    return maker


def sample_bytes(folder: Path) -> bytes:
    """Return the sample's file."""
    return sample().write(folder / "sample.emutrace").read_bytes()
