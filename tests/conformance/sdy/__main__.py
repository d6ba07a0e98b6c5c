"""Run a Shardy checkout's own lit files through ``emu sdy opt`` and FileCheck.

    python tests/conformance/sdy --shardy PATH [--newer] [--group A] [--only TEXT] [-v]

Prints N of M for each directory and each group. Needs FileCheck on the path
(``FileCheck`` or ``FileCheck-14``). The files are those of the commit
cc0e9327 (June 2026); of another commit the expectations may differ. Until 27
July 2026 Shardy computed offsets along sub-axes wrong, and so do we for such a
checkout; ``--newer`` says that it is a later one. The
groups: A, what Shardy's first document names (IR, propagation, and the import
and export passes of that time); B, the partitioner; C, the rest. Files that
run programs on several devices (``executable_…``) are counted as not run.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emu.commands.sdy.opt import run_opt

ROOT = "shardy/dialect/sdy"
NEWER_IR = ("collective_", "edge_sharding_", "func_data_flow_edge_")
FIRST_IMPORT = (
    "add_data_flow_edges",
    "apply_sharding_constraints",
    "constant_or_scalar_splitter",
    "import_pipeline",
    "lift_inlined_meshes",
    "manual_axes_cleanup",
    "manual_axes_cleanup_failures",
    "sharding_group_constraints",
    "sharding_group_import",
)
FIRST_EXPORT = (
    "close_shardings",
    "drop_sharding_rules",
    "remove_sharding_groups",
    "sharding_constraint_to_reshard",
    "sink_data_flow_edges",
    "update_non_divisible_input_output_shardings",
)
PARTITIONER = (
    "convert_global_to_local",
    "insert_explicit_reshards",
    "pad_for_divisibility",
    "reshard_to_collectives",
    "resolve_permutation_factors",
    "executable",
)


@dataclass(slots=True)
class Outcome:
    """What became of a file: None if it passed, else what went wrong."""

    path: Path
    group: str
    trouble: str | None


def group_of(path: Path) -> str:
    """The group of a file."""
    text, name = str(path), path.stem
    if "/ir/test" in text:
        newer = name.startswith(NEWER_IR)
        return ("B" if name.startswith("collective_") else "C") if newer else "A"
    if any(part in text for part in PARTITIONER):
        return "B"
    if "/propagation/test" in text or name in FIRST_IMPORT or name in FIRST_EXPORT:
        return "A"
    return "C"


def run_lines(text: str) -> Iterator[str]:
    """The commands of a file; lines that end in a backslash go on."""
    pending = ""
    for match in re.finditer(r"^//\s*RUN:\s*(.*)$", text, re.MULTILINE):
        pending += match[1]
        if pending.endswith("\\"):
            pending = pending[:-1]
        else:
            yield pending
            pending = ""


def run_file(path: Path, filecheck: str, newer: bool) -> str | None:
    """None if all commands of a file pass, else what went wrong."""
    lines = list(run_lines(path.read_text(encoding="utf-8")))
    if not lines:
        return "no RUN line"
    for line in lines:
        trouble = run_command(line, path, filecheck, newer)
        if trouble is not None:
            return trouble
    return None


def run_command(line: str, path: Path, filecheck: str, newer: bool) -> str | None:
    """Run ``sdy_opt … | FileCheck …``; None if it passes."""
    stages = [stage.strip() for stage in line.split("|")]
    if not stages[0].startswith("sdy_opt") or len(stages) > 2:
        return f"not run: {line}"
    both = "2>&1" in stages[0]
    words = shlex.split(stages[0].replace("2>&1", "").replace("%s", shlex.quote(str(path))))[1:]
    words = [as_of_shardy(word) for word in words]
    if not newer:
        words = [as_of_june(word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    try:
        status = run_opt(words, stdout=out, stderr=out if both else err)
    except Exception as error:  # noqa: BLE001  # a file that breaks us is a miss
        return f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    if len(stages) == 1 or status:
        return None if status == 0 else f"status {status}\n{err.getvalue()}{out.getvalue()}"[:6000]
    check = shlex.split(stages[1].replace("%s", shlex.quote(str(path))))[1:]
    done = subprocess.run(
        [filecheck, "-enable-var-scope", *check],
        input=out.getvalue(),
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr


def as_of_shardy(word: str) -> str:
    """An argument of the command, with Shardy's results where they are wrong."""
    name, _, options = word.partition("=")
    if name.lstrip("-") in {"sdy-convert-global-to-local", "sdy-pad-for-divisibility"}:
        return f"{name}={options} fix-wrong-results=false".replace("= ", "=")
    return word


def as_of_june(word: str) -> str:
    """An argument of the command, with what Shardy did before July 2026."""
    name, _, options = word.partition("=")
    if name.lstrip("-") != "sdy-convert-global-to-local":
        return word
    return f"{name}={options} fix-sub-axis-offsets=false"


def main() -> int:
    """Run the files and print the table; the status is 0 if all ran passed."""
    parser = argparse.ArgumentParser(prog="tests/conformance/sdy", description=__doc__)
    parser.add_argument("--shardy", type=Path, required=True, help="a checkout of Shardy")
    parser.add_argument("--group", choices="ABC", help="only this group")
    parser.add_argument("--only", default="", metavar="TEXT", help="only paths that hold TEXT")
    parser.add_argument(
        "--newer", action="store_true", help="the checkout is of 27 July 2026 or later"
    )
    parser.add_argument("-v", action="store_true", help="print what went wrong")
    options = parser.parse_args()
    root = options.shardy / ROOT
    filecheck = shutil.which("FileCheck") or shutil.which("FileCheck-14")
    if not root.is_dir() or filecheck is None:
        wrong = f"no folder {root}" if filecheck else "no FileCheck on the path"
        sys.stderr.write(f"{parser.prog}: {wrong}\n")
        return 2
    outcomes = []
    for path in sorted(root.rglob("*.mlir")):
        group = group_of(path)
        if options.only not in str(path) or options.group not in {None, group}:
            continue
        if "executable" in str(path):
            outcomes.append(Outcome(path, group, "not run"))
            continue
        outcome = Outcome(path, group, run_file(path, filecheck, options.newer))
        outcomes.append(outcome)
        mark = "ok  " if outcome.trouble is None else "MISS"
        sys.stdout.write(f"{mark} {group} {path.relative_to(root)}\n")
        if outcome.trouble and options.v:
            sys.stdout.write(outcome.trouble.rstrip() + "\n")
        sys.stdout.flush()
    table(outcomes, root)
    return int(any(o.trouble not in {None, "not run"} for o in outcomes))


def table(outcomes: list[Outcome], root: Path) -> None:
    """Print N of M for each directory and each group."""
    by_key: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_key.setdefault(os.path.relpath(outcome.path.parent, root), []).append(outcome)
    for outcome in outcomes:
        by_key.setdefault(f"group {outcome.group}", []).append(outcome)
    sys.stdout.write("\n")
    for key, members in by_key.items():
        passed = sum(o.trouble is None for o in members)
        skipped = sum(o.trouble == "not run" for o in members)
        rest = f" ({skipped} not run)" if skipped else ""
        sys.stdout.write(f"{passed:4} of {len(members):4}  {key}{rest}\n")


if __name__ == "__main__":
    sys.exit(main())
