"""One trace of the parts that hosts have recorded.

Internal: names may change in any release.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from emu.trace.converting import NATIVE, convert_all
from emu.trace.format import TraceWriter
from emu.trace.reading import Trace, parse_trace


def merge(
    parts: Sequence[bytes], offsets: Sequence[int], files: Sequence[Path], pes_per_host: int
) -> None:
    """Write one trace to files.

    Args:
        parts: What each host has recorded, as a ``.emutrace`` has it: the sites and events of its PEs.
        offsets: By how many nanoseconds each host's clock is before the first's.
        files: What is to be written, by suffix.
        pes_per_host: What META says of it.

    Raises:
        TraceFileError: A part is damaged, or the first file cannot be written.
    """
    traces = [parse_trace(Path(f"of host {host}"), data) for host, data in enumerate(parts)]
    own = [file for file in files if file.suffix == NATIVE]
    target = own[0] if own else files[0].with_name(f"{files[0].name}{NATIVE}")
    _write(traces, offsets, target, pes_per_host)
    others = [file for file in files if file != target]
    if convert_all(target, others) and not own:
        target.unlink(missing_ok=True)


def _write(
    traces: Sequence[Trace], offsets: Sequence[int], target: Path, pes_per_host: int
) -> None:
    first = traces[0]
    meta = {
        **first.meta,
        "pes_per_host": pes_per_host,
        "hosts": [trace.meta.get("host", "") for trace in traces],
    }
    with TraceWriter(target, meta) as writer:
        sites = [0] * first.n_pes
        for trace, offset in zip(traces, offsets, strict=True):
            for pe, table in enumerate(trace.sites):
                events = trace.events[pe].copy()
                # Another host may have something to say of a PE, too: what has ended the run.
                events["site"] += sites[pe]
                events["start"] -= offset
                sites[pe] += len(table)
                if table:
                    writer.sites(pe, table)
                if len(events):
                    writer.events(pe, events)
        ends = [trace.status for trace in traces if trace.status != "ok"]
        status = "ok" if not ends else ends[0] or "the part of a host ends early"
        lost = [sum(of_pe) for of_pe in zip(*(trace.lost for trace in traces), strict=True)]
        writer.end(status, time.monotonic_ns(), lost)
