"""Measure emu and its peers in one run and print them side by side.

    python asv_benchmarks/compare.py [--quick] [--only PATTERN] [--json FILE] [--without PEER]
                                        [--cpu NAME]

It measures and does not judge: it ends with status 0 whether goals are met or not. The ratio is
oriented so that larger is better for emu. ``docs/benchmarks.md`` says what each row means.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

SCALE = {"us": 1e6, "ms": 1e3, "s": 1.0}

MODULES = (
    *("put", "waiting", "link", "startup", "collectives", "store", "tiles", "cast", "quant"),
    *(
        "torch_npu",
        "triton",
        "triton_library",
        "triton_checked",
        "triton_counted",
        "matmul",
        "kernel_start",
        "cuda",
    ),
    *("mc2", "moe", "sdy", "sdy_execution", "triton_attention", "inductor"),
    *("pypto_native", "pypto_programs", "shmem", "trace", "trace_views", "hosts"),
)
"""Modules of ``rows``, in the order in which their rows are measured."""


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen rows."""
    options = _parse(arguments)
    from rows.cpus import CpuError, machine_name, use

    try:
        if options.cpu is not None:
            use(options.cpu)  # before any library is loaded
    except CpuError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    from rows.measure import Settings
    from rows.team import Teams

    modules = [importlib.import_module(f"rows.{name}") for name in MODULES]
    rows = [row for module in modules for row in module.ROWS if chosen(row.name, options.only)]
    if not rows:
        sys.stderr.write(f"no row matches {options.only!r}\n")
        return 2
    if options.list:
        sys.stdout.writelines(f"{row.name}  vs {row.peer}\n" for row in rows)
        return 0
    results: list[dict[str, Any]] = []
    about = {"cpu": options.cpu or machine_name(), "date": str(datetime.date.today())}
    settings = Settings(options.quick, Teams(frozenset(options.without), options.timeout))
    try:
        for i, row in enumerate(rows):
            sys.stderr.write(f"[{i + 1}/{len(rows)}] {row.name} vs {row.peer}\n")
            results.append({**_measure(row, settings), **about})
            if i + 1 == len(rows) or _subject(rows[i + 1].name) != _subject(row.name):
                settings.teams.close()
            if options.json:  # after each row: an interrupted run keeps what it has
                Path(options.json).write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    finally:
        settings.teams.close()
        if results:
            _print(results, about["cpu"])
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure emu and its peers side by side.")
    parser.add_argument("--only", metavar="PATTERN", help="rows whose name matches (glob or regex)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few, short rounds")
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    parser.add_argument(
        "--cpu",
        metavar="NAME",
        help="compile our code for this CPU and limit the peers to its instructions (LLVM's name)",
    )
    parser.add_argument(
        "--without",
        metavar="PEER",
        action="append",
        default=[],
        choices=["mpi", "gloo", "multiprocessing"],
        help="treat a peer as not installed",
    )
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds a contender may take (default 120)"
    )
    return parser.parse_args(arguments)


def chosen(name: str, pattern: str | None) -> bool:
    """Return whether a pattern, a glob or a regular expression, matches the name of a row; ``None`` matches all."""
    if pattern is None or fnmatch.fnmatchcase(name, pattern):
        return True
    try:
        return re.search(pattern, name) is not None
    except re.error:  # a glob that is no regex
        return False


def _subject(name: str) -> str:
    return name.split("/", 1)[0].partition("_")[0]


def _measure(row: Any, settings: Any) -> dict[str, Any]:
    from rows.measure import Outcome
    from rows.team import TeamError

    try:
        outcome = row.run(settings)
    except TeamError as error:
        outcome = Outcome(note=str(error))
    scale = SCALE.get(row.unit, 1.0)
    ours = None if outcome.ours is None else outcome.ours * scale
    theirs = None if outcome.theirs is None else outcome.theirs * scale
    ratio = None
    if ours and theirs:
        ratio = ours / theirs if row.more_is_better else theirs / ours
    return {
        "name": row.name,
        "peer": row.peer,
        "ours": ours,
        "theirs": theirs,
        "unit": row.unit,
        "ratio": ratio,
        "goal": row.goal.text(row.unit),
        "met": row.goal.met(ours, ratio),
        "note": outcome.note,
    }


def _print(results: list[dict[str, Any]], cpu: str) -> None:
    head = ("row", "peer", "ours", "theirs", "unit", "ratio", "goal", "met")
    lines = [
        (
            r["name"],
            r["peer"],
            _number(r["ours"]),
            _number(r["theirs"]),
            r["unit"],
            _number(r["ratio"]),
            r["goal"],
            {True: "yes", False: "no", None: "-"}[r["met"]],
        )
        for r in results
    ]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    for line in (head, tuple("-" * w for w in widths), *lines):
        cells = (
            cell.rjust(w) if i in (2, 3, 5) else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    notes = [f"{r['name']} vs {r['peer']}: {r['note']}\n" for r in results if r["note"]]
    met, known = sum(r["met"] is True for r in results), sum(r["met"] is not None for r in results)
    load = os.getloadavg()[0]
    sys.stdout.write("\n")
    sys.stdout.writelines(notes)
    sys.stdout.write(
        f"{met} of {known} goals met; load average {load:.1f} on {os.cpu_count()} cores; "
        f"code for {cpu}\n"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


if __name__ == "__main__":
    sys.exit(main())
