"""Running other people's pytest suites on emu: in processes that may crash or hang, with a record of each test.

Each file runs in ``--jobs`` processes among which its tests are dealt out; with ``--together`` all files do at once, which
spares what each process imports. A test that kills its process is counted as
a crash, one that takes longer than ``--timeout`` as a hang, and the others of its process are run again without it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

ENDED = ("passed", "failed", "wrong", "skipped", "absent", "crash", "hang")
NOT_RUN = ("skipped", "absent")


@dataclass(frozen=True, kw_only=True)
class Suite:
    """How files of tests are run.

    Attributes:
        root: The folder that paths of files are given from, and pytest's rootdir.
        folder: The working directory.
        environment: Of the processes.
        command: What starts pytest.
        arguments: Arguments of pytest beside those of every suite.
        options: Of the command line: ``sample``, ``functions``, ``timeout``, ``jobs``, ``together``.
    """

    root: Path
    folder: Path
    environment: dict[str, str]
    command: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    options: argparse.Namespace


@dataclass(frozen=True)
class Verdict:
    """The outcome of a test, one of ``ENDED``, its seconds, the last line of its error, and how many kernels it launched."""

    outcome: str
    seconds: float
    why: str = ""
    launches: int = 0


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every suite."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose names hold TEXT")
    parser.add_argument(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="one in N tests of a function, or of a class of unittest",
    )
    parser.add_argument(
        "--functions", type=int, default=1, metavar="N", help="one in N functions of a file"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--together", action="store_true", help="one process for all files, not one for each"
    )
    parser.add_argument("--timeout", type=int, default=180, help="seconds of a test (default: 180)")
    parser.add_argument("--out", type=Path, help="write the outcomes, as JSON")
    parser.add_argument("--before", type=Path, help="compare with what --out wrote before")
    return parser


def environment(*folders: Path) -> dict[str, str]:
    """Return this process's environment, with folders (and those of the plugins and of emu) importable."""
    paths = [str(path) for path in (*folders, HERE, HERE.parents[1])]
    inherited = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (*paths, inherited)))}


def run(files: Iterable[Path], suite: Suite) -> dict[str, Verdict]:
    """Run files; print a line for each; return what became of each test, by its name."""
    verdicts: dict[str, Verdict] = {}
    groups = [tuple(files)] if suite.options.together else [(file,) for file in files]
    for group in filter(None, groups):
        start = time.monotonic()
        found = _run_files(group, suite)
        seconds = time.monotonic() - start
        if len(group) == 1:
            _print_file(str(group[0].relative_to(suite.root)), found, seconds)
        for name in sorted({test.partition("::")[0] for test in found} if group[1:] else ()):
            of_file = {t: v for t, v in found.items() if t.partition("::")[0] == name}
            _print_file(name, of_file, sum(verdict.seconds for verdict in of_file.values()))
        verdicts |= found
    return verdicts


def report(verdicts: dict[str, Verdict], options: argparse.Namespace) -> int:
    """Print how often each kind of failure was met, and what has changed; return 1 if there is a failure, else 0."""
    kinds: dict[str, list[str]] = {}
    for test, verdict in verdicts.items():
        if verdict.outcome not in ("passed", *NOT_RUN):
            kinds.setdefault(f"{verdict.outcome}: {kind_of(verdict.why)}", []).append(test)
    for kind, tests in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(tests):6d}  {kind}\n        {tests[0]}")
    if options.before:
        earlier = json.loads(options.before.read_text(encoding="utf-8"))
        for test, verdict in verdicts.items():
            if test in earlier and earlier[test]["outcome"] != verdict.outcome:
                print(f"{earlier[test]['outcome']} -> {verdict.outcome}: {test}")
    if options.out:
        text = json.dumps({test: vars(verdict) for test, verdict in verdicts.items()}, indent=0)
        options.out.write_text(text, encoding="utf-8")
    return int(bool(kinds))


def summary(verdicts: dict[str, Verdict]) -> str:
    """Return how many tests pass, with and without launches, of how many."""
    passed = [verdict for verdict in verdicts.values() if verdict.outcome == "passed"]
    launched = sum(verdict.launches > 0 for verdict in passed)
    run = sum(verdict.outcome not in NOT_RUN for verdict in verdicts.values())
    share = 100 * len(passed) / max(run, 1)
    left = len(verdicts) - run
    return (
        f"{len(passed)} of {run} pass ({share:.1f} %): {launched} with launches, "
        f"{len(passed) - launched} without; {left} skipped or absent"
    )


def kind_of(why: str) -> str:
    """Return an error's line without what differs from test to test."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?", "#", why)[:110]


def _run_files(files: Sequence[Path], suite: Suite) -> dict[str, Verdict]:
    jobs = suite.options.jobs
    with ThreadPoolExecutor(jobs) as pool:
        parts = pool.map(lambda part: _run_part(files, part, suite), range(jobs))
    return {test: verdict for part in parts for test, verdict in part.items()}


def _run_part(files: Sequence[Path], part: int, suite: Suite) -> dict[str, Verdict]:
    """Run the tests of one process; start anew behind one that killed it."""
    found: dict[str, Verdict] = {}
    while True:
        before = len(found)
        with tempfile.TemporaryDirectory(prefix="emu-conformance-") as folder:
            record, done = Path(folder, "record"), Path(folder, "done")
            record.touch()
            done.write_text("\n".join(found), encoding="utf-8")
            told = {
                "CONFORMANCE_RECORD": str(record),
                "CONFORMANCE_DONE": str(done),
                "CONFORMANCE_PART": f"{part}/{suite.options.jobs}/{suite.options.sample}",
                "CONFORMANCE_FUNCTIONS": str(suite.options.functions),
            }
            ended, said = _pytest(files, {**suite.environment, **told}, suite)
            running = _read(record, found)
        if ended:
            return found
        if running is None and len(found) == before:
            found[f"{files[0].name}::(collection)"] = Verdict("failed", 0.0, said)
            return found
        if running is None:  # the last test said itself how it ended
            continue
        hung = "Timeout" in said
        seconds = float(suite.options.timeout)
        found[running] = Verdict("hang" if hung else "crash", seconds, said)


def _pytest(files: Sequence[Path], environment: dict[str, str], suite: Suite) -> tuple[bool, str]:
    """Run pytest; return whether it came to its end, and the last line that it printed."""
    settings = ["-q", "--tb", "line", "-W", "ignore", "-p", "record"]
    settings += ["-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors"]
    settings += ["--rootdir", str(suite.root), "--confcutdir", str(suite.root)]
    settings += ["-c", str(HERE / "pytest.ini")]
    settings += ["--timeout", str(suite.options.timeout), "--timeout-method", "thread"]
    done = subprocess.run(
        [*suite.command, *settings, *suite.arguments, *map(str, files)],
        env=environment,
        cwd=suite.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    hung = [line for line in said if "Timeout" in line]
    return "CONFORMANCE ENDED" in done.stdout, (hung or said or ["no output"])[-1][:300]


def _read(record: Path, found: dict[str, Verdict]) -> str | None:
    """Add the verdicts of a record; return the test that was running at its end."""
    running = None
    for line in record.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        test = entry.pop("test")
        if entry:
            before = found.get(test)
            if before is None or before.outcome in ("passed", *NOT_RUN):  # else another PE's
                found[test] = Verdict(**entry)
            running = None
        else:
            running = test
    return running


def _print_file(name: str, verdicts: dict[str, Verdict], seconds: float) -> None:
    counts = Counter(verdict.outcome for verdict in verdicts.values())
    run = sum(counts.values()) - sum(counts[kind] for kind in NOT_RUN)
    others = ", ".join(f"{counts[kind]} {kind}" for kind in ENDED[1:] if counts[kind])
    passed = [verdict for verdict in verdicts.values() if verdict.outcome == "passed"]
    idle = sum(not verdict.launches for verdict in passed)
    idle_text = f" ({idle} of them without a launch)" if idle else ""
    print(
        f"{name}: {len(passed)} of {run} pass{idle_text}; {others or 'all'}; {seconds:.0f} s",
        flush=True,
    )


def emu_run_pytest(*, n_pes: int = 1) -> tuple[str, ...]:
    """Return the command that runs pytest under ``emu run``."""
    return (sys.executable, "-m", "emu", "run", "-n", str(n_pes), "-m", "pytest")
