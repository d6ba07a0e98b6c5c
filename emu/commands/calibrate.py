"""``emu calibrate``: numbers of a device from micro-kernels that are measured on it."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

from emu.trace.errors import TraceError
from emu.trace.prediction.calibration.fit import PARAMETERS, Fit, fit
from emu.trace.prediction.calibration.suite import Case, cases
from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.devices.files import load_device, to_toml
from emu.trace.prediction.devices.keys import KEYS
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.units import scaled_text

USAGE = 2


def run_calibrate(options: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        0; 2 where there is no GPU, or an argument or a file is wrong.
    """
    try:
        device = load_device(options.device)
        suite = cases(device)
        name, measured = _timings(options, suite)
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        found = fit(device, suite, measured, date=today, source=f"emu calibrate on {name}")
        if options.output is not None:
            _write(options.output, to_toml(found.device))
        _print(device, found, name, options.output)
    except TraceError as error:
        sys.stderr.write(f"emu calibrate: {error}\n")
        return USAGE
    return 0


def _timings(options: argparse.Namespace, suite: tuple[Case, ...]) -> tuple[str, dict[str, float]]:
    if options.timings is not None:
        return _read(options.timings)
    from emu.trace.prediction.calibration.measure import measure

    def progress(case: Case) -> None:
        sys.stderr.write(
            f"\r{suite.index(case) + 1} of {len(suite)} micro-kernels: {case.name:<40}"
        )

    name, measured = measure(suite, progress)
    sys.stderr.write("\n")
    if options.save_timings is not None:
        _write(
            options.save_timings, json.dumps({"device": name, "seconds": measured}, indent=1) + "\n"
        )
    return name, measured


def _read(path: Path) -> tuple[str, dict[str, float]]:
    """Read times that were measured before: ``{"device": NAME, "seconds": {CASE: SECONDS}}``."""
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise PredictionError(f"the timings {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PredictionError(f"the timings {path} are no JSON: {error}") from None
    match data:
        case {"device": str(name), "seconds": dict(measured)}:
            return name, measured
    raise PredictionError(
        f'the timings {path} must be {{"device": NAME, "seconds": {{CASE: SECONDS}}}}'
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise PredictionError(f"{path} cannot be written: {error.strerror}") from None


def _print(before: Device, found: Fit, name: str, output: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("number", "before", "fitted"):
        table.add_column(column, justify="left" if column == "number" else "right")
    for key in PARAMETERS:
        new = "not seen" if key in found.unseen else scaled_text(found.device[key], KEYS[key].unit)
        table.add_row(key, scaled_text(before[key], KEYS[key].unit), new)
    console.print(table)
    worst, case = found.worst
    console.print(
        f"{name}: mean error {found.error:.1%}, largest {worst:+.1%} ({case})", markup=False
    )
    if output is not None:
        console.print(f"written: {output}; emu predict TRACE --device {output}", markup=False)
