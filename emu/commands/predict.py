"""``emu predict``: what a recorded run would take on a device."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emu.commands.same_file import is_same_file
from emu.kernels.core.figures import seconds_text
from emu.trace.errors import TraceError
from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.devices.files import load_device, number_rows
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.prediction import Prediction, predict
from emu.trace.prediction.pricing import Options
from emu.trace.prediction.rank import Ranked, kendall_tau, rank
from emu.trace.prediction.turns import turns_of
from emu.trace.prediction.units import scaled_text
from emu.trace.prediction.writing import write_prediction
from emu.trace.reading import read_trace

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 200
USAGE = 2


def run_predict(options: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        0; 2 for a wrong argument, a file that is no trace, or an unknown device.
    """
    try:
        device = device_of(options.device, options.link, options.set)
        if options.numbers:
            _print_numbers(device)
        if options.mc2 is not None:
            _turns(options, device)
        elif options.trace is not None:
            _predict_trace(options, device)
        elif not options.numbers:
            raise PredictionError("TRACE is missing: a file of emu run --trace FILE.emutrace")
    except TraceError as error:
        sys.stderr.write(f"emu predict: {error}\n")
        return USAGE
    return 0


def predict_file(path: Path, device: str, *, json_output: bool = False) -> None:
    """Predict a trace that has just been recorded, and print the table; what ``emu run --predict DEVICE`` does at its end.

    Args:
        path: The trace.
        device: Name or file of the device.
        json_output: Whether to print JSON instead. Default: no.

    Raises:
        TraceError: The trace or the device cannot be read.
    """
    _print(predict(read_trace(path), load_device(device)), json_output, 30)


def device_of(name: str, link: str | None, settings: Sequence[str]) -> Device:
    """Return a device with the changes of ``--link`` and ``--set``.

    Raises:
        TraceError: There is no such device, or a change is wrong.
    """
    device = load_device(name)
    if link is not None:
        device = device.changed(_link_settings(link))
    return device.changed(settings)


def _link_settings(text: str) -> list[str]:
    """Return what ``--link`` sets: ``2x`` both rates, ``50GB/s,5us`` rates and latency, without losses."""
    from emu.comm.errors import ArgumentError
    from emu.comm.link_model import Link

    if text.strip().endswith("x"):
        return [f"link={text.strip()}"]
    try:
        link = Link.parse(text)
    except ArgumentError as error:
        raise PredictionError(
            f"link must be a factor as in 2x, or BANDWIDTH[,LATENCY], but got {text!r}: {error}"
        ) from None
    return [f"link={link.bandwidth!r}", "link.efficiency=1", f"link.latency={link.latency!r}"]


def _predict_trace(options: argparse.Namespace, device: Device) -> None:
    programs = dict(_assignment(each) for each in options.programs)
    trace = read_trace(options.trace)
    if options.output is not None and is_same_file(options.output, options.trace):
        raise PredictionError(
            f"output must be another file than the trace that is read, but got {str(options.output)!r}"
        )
    if options.rank is not None:
        _rank(trace, options.rank, device, options)
        return
    how = Options(host=options.host, uncounted=options.uncounted, programs=programs)
    prediction = predict(trace, device, how)
    if options.output is not None:
        write_prediction(options.output, prediction, beside=options.beside)
    _print(prediction, options.json, options.most)


def _assignment(text: str) -> tuple[str, int]:
    kernel, equals, count = text.rpartition("=")
    if not equals or not kernel or not count.isdecimal() or len(count) > 15:
        raise PredictionError(f"programs must be KERNEL=N, but got {text!r}")
    return kernel, int(count)


# The table of a prediction


def _print(prediction: Prediction, as_json: bool, most: int) -> None:
    if as_json:
        _write_json(prediction.to_data())
        return
    console = _console()
    device = prediction.device
    recorded = seconds_text(prediction.recorded)
    console.print(
        f"{device.name} ({device.status}): {seconds_text(prediction.seconds)} predicted, {recorded} recorded here; "
        f"bound by {prediction.bound}",
        markup=False,
    )
    console.print(_table(prediction, most))
    console.print(_pe_table(prediction))
    for note in prediction.notes:
        console.print(f"note: {note}", markup=False)


def _table(prediction: Prediction, most: int) -> Any:
    table = _new_table(
        "what",
        "count",
        "predicted",
        "each",
        "recorded",
        "bound by",
        "of",
        "rate",
        "waves",
        "full",
        right=(1, 2, 3, 4, 7, 8, 9),
    )
    for row in prediction.rows[:most]:
        busy = max(row.predicted - row.waited, 0.0)
        rate = ""
        if row.flops and busy:
            rate = scaled_text(row.flops / busy, "FLOP/s")
        elif row.nbytes and busy:
            rate = scaled_text(row.nbytes / busy, "B/s")
        table.add_row(
            row.name if row.kind in ("LAUNCH", "OP") else f"{row.name} ({row.kind.lower()})",
            str(row.count),
            seconds_text(row.predicted),
            seconds_text(row.predicted / row.count),
            seconds_text(row.recorded),
            row.bound if row.counted else f"{row.bound}, scaled",
            row.unit,
            rate,
            str(row.waves or ""),
            f"{row.tail:.0%}" if row.tail else "",
        )
    if len(prediction.rows) > most:
        rest = sum(row.predicted for row in prediction.rows[most:])
        table.add_row(f"… and {len(prediction.rows) - most} more", "", seconds_text(rest))
    return table


def _pe_table(prediction: Prediction) -> Any:
    table = _new_table(
        "PE", "ends", "computes", "communicates", "hidden", "waits", "idle", right=range(7)
    )
    for pe, time in enumerate(prediction.pes):
        cells = (time.total, time.compute, time.link)
        table.add_row(
            str(pe),
            *map(seconds_text, cells),
            f"{time.overlap:.0%}" if time.link else "",
            seconds_text(time.wait),
            seconds_text(time.idle),
        )
    return table


# Configurations, turns, numbers


def _rank(trace: Any, kernel: str, device: Device, options: argparse.Namespace) -> None:
    ranked = rank(trace, kernel, device)
    known = [(r.time.seconds, r.recorded) for r in ranked if not math.isnan(r.recorded)]
    tau = kendall_tau(*map(list, zip(*known, strict=True))) if len(known) > 1 else math.nan
    if options.json:
        rows = [
            {"place": r.place, "settings": r.settings, "programs": r.work.programs, "seconds": r.time.seconds, "bound": r.time.bound, "unit": r.time.unit,
             "launches": r.launches, "recorded_seconds": None if math.isnan(r.recorded) else r.recorded}
            for r in ranked
        ]  # fmt: skip
        _write_json(
            {
                "device": device.name,
                "status": device.status,
                "kernel": kernel,
                "configurations": rows,
                "tau_recorded": None if math.isnan(tau) else tau,
            }
        )
        return
    console = _console()
    console.print(f"{kernel} on {device.name} ({device.status}), the fastest first", markup=False)
    table = _new_table(
        "configuration",
        "programs",
        "predicted",
        "bound by",
        "of",
        "waves",
        "full",
        "recorded here",
        right=(1, 2, 5, 6, 7),
    )
    for each in ranked[: options.most]:
        table.add_row(
            _settings_text(each), str(each.work.programs), seconds_text(each.time.seconds), each.time.bound, each.time.unit,
            str(each.time.waves), f"{each.time.tail:.0%}",
            "" if math.isnan(each.recorded) else seconds_text(each.recorded),
        )  # fmt: skip
    console.print(table)
    if not math.isnan(tau):
        console.print(
            f"Kendall's tau of this order and the recorded one, which is that of this machine: {tau:.2f}",
            markup=False,
        )


def _settings_text(each: Ranked) -> str:
    """Return what a configuration is called: its settings; else its number."""
    shown = [f"{n}={v}" for n, v in each.settings.items() if (n, v) != ("num_ctas", 1)]
    return " ".join(shown) or str(each.place)


def _turns(options: argparse.Namespace, device: Device) -> None:
    parts = (options.shape or "").split(",")
    if len(parts) != 3 or not all(p.strip().isdecimal() and len(p) < 15 for p in parts):
        raise PredictionError(f"shape must be M,K,N, as in 512,5120,640, but got {options.shape!r}")
    m, k, n = (int(part) for part in parts)
    found = turns_of(options.mc2, m, k, n, options.pes, device, options.dtype)
    if options.json:
        rows = [
            {
                "turns": t.turns,
                "seconds": t.seconds,
                "compute": t.compute,
                "link": t.link,
                "hidden": t.hidden,
            }
            for t in found
        ]
        _write_json(
            {"device": device.name, "status": device.status, "operator": options.mc2, "turns": rows}
        )
        return
    console = _console()
    best = found[0]
    console.print(
        f"{options.mc2} of {m} x {k} x {n} {options.dtype} on {options.pes} x {device.name} ({device.status}): best in {best.turns} "
        f"turn{'s' * (best.turns > 1)}, {seconds_text(best.seconds)}",
        markup=False,
    )
    table = _new_table("turns", "predicted", "products", "communication", "hidden", right=range(5))
    for each in sorted(found, key=lambda t: t.turns)[: options.most]:
        cells = map(seconds_text, (each.seconds, each.compute, each.link))
        table.add_row(
            str(each.turns), *cells, f"{each.hidden:.0%}", style="bold" if each is best else ""
        )
    console.print(table)


def _print_numbers(device: Device) -> None:
    console = _console()
    console.print(f"{device.name} ({device.status}), {device.file}", markup=False)
    table = _new_table("key", "value", "", "date", "source", right=(1,))
    for row in number_rows(device):
        table.add_row(*row)
    console.print(table)


def _new_table(*columns: str, right: Any = ()) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place in right else "left", overflow="fold")
    return table


def _write_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def _console() -> Console:
    from rich.console import Console

    # Into a file or a pipe no line should be folded at 80 columns.
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH
    return Console(highlight=False, width=wide)
