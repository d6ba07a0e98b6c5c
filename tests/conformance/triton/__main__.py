"""Run Triton's own test suite on emu.triton.

    python tests/conformance/triton CHECKOUT [--only TEXT] [--sample N] [--interpret] [--reference]
        [--device cuda|cpu] [--capability M.N] [--jobs N]

``CHECKOUT`` is a checkout of Triton, of any day; its Python package may be there, and is not used. Each file of
``python/test/unit`` that has a meaning without a GPU runs under ``emu run -m pytest``, its tests dealt out to
``--jobs`` processes. A test that kills its process is counted as a crash, one that takes longer than ``--timeout``
as a hang, and the others of its process are run again without it. A test that needs Triton's own compiler or tools, or
reads MLIR once its kernels are compiled, is counted as absent. Prints a line per file, then how often each
kind of failure was met, with one test that has it. ``--out`` writes each test's outcome, and ``--before`` names
the tests whose outcome differs from that of such a file.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

FILES = (
    "language/test_annotations.py",
    "language/test_compile_errors.py",
    "language/test_conversions.py",
    "language/test_core.py",
    "language/test_decorator.py",
    "language/test_frontend.py",
    "language/test_libdevice.py",
    "language/test_line_info.py",
    "language/test_matmul.py",
    "language/test_module.py",
    "language/test_mxfp.py",
    "language/test_random.py",
    "language/test_standard.py",
    "language/test_subprocess.py",
    "language/test_tensor_descriptor.py",
    "language/test_tuple.py",
    "runtime/test_autotune_listener.py",
    "runtime/test_autotuner.py",
    "runtime/test_cache.py",
    "runtime/test_compilation_listener.py",
    "runtime/test_driver.py",
    "runtime/test_interpreter.py",
    "runtime/test_launch.py",
    "runtime/test_specialize.py",
    "test_debug.py",
    "test_knobs.py",
)
"""Those that test the language and the runtime. The others read MLIR, PTX or SASS, or drive one GPU."""

ENDED = ("passed", "failed", "skipped", "absent", "crash", "hang")
NOT_RUN = ("skipped", "absent")


@dataclass(frozen=True)
class Settings:
    """How a file is run.

    Attributes:
        root: The folder ``python`` of the checkout.
        environment: Of the processes.
        sample: Run one in so many tests of each function.
        timeout: Seconds of one test.
        jobs: Processes.
        device: What the suite gets as ``--device``.
    """

    root: Path
    environment: dict[str, str]
    sample: int
    timeout: int
    jobs: int
    device: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of a test, one of ``ENDED``, its seconds, and the last line of its error."""

    outcome: str
    seconds: float
    why: str = ""


def run_file(name: str, settings: Settings) -> dict[str, Verdict]:
    """Run a file; return what became of each test, by its name."""
    with ThreadPoolExecutor(settings.jobs) as pool:
        parts = pool.map(lambda part: _run_part(name, part, settings), range(settings.jobs))
    return {test: verdict for part in parts for test, verdict in part.items()}


def _run_part(name: str, part: int, settings: Settings) -> dict[str, Verdict]:
    """Run the tests of one process; start anew behind one that killed it."""
    found: dict[str, Verdict] = {}
    while True:
        before = len(found)
        with tempfile.TemporaryDirectory(prefix="emu-conformance-") as folder:
            record, done = Path(folder, "record"), Path(folder, "done")
            record.touch()
            done.write_text("\n".join(found), encoding="utf-8")
            options = {
                "CONFORMANCE_RECORD": str(record),
                "CONFORMANCE_DONE": str(done),
                "CONFORMANCE_PART": f"{part}/{settings.jobs}/{settings.sample}",
            }
            ended, said = _pytest(name, {**settings.environment, **options}, settings)
            running = _read(record, found)
        if ended:
            return found
        if running is None and len(found) == before:
            found[f"{name}::(collection)"] = Verdict("failed", 0.0, said)
            return found
        if running is None:  # the last test said itself how it ended
            continue
        hung = "Timeout" in said
        found[running] = Verdict("hang" if hung else "crash", float(settings.timeout), said)


def _pytest(name: str, environment: dict[str, str], settings: Settings) -> tuple[bool, str]:
    """Run pytest; return whether it came to its end, and the last line that it printed."""
    command = [
        sys.executable,
        "-m",
        "emu",
        "run",
        "-n",
        "1",
        "-m",
        "pytest",
        "-q",
        "--device",
        settings.device,
    ]
    command += ["-p", "plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [
        "--rootdir",
        str(settings.root),
        "-c",
        str(HERE / "pytest.ini"),
        "--confcutdir",
        str(settings.root),
    ]
    command += [
        "--timeout",
        str(settings.timeout),
        "--timeout-method",
        "thread",
        "--tb",
        "line",
        "-W",
        "ignore",
    ]
    done = subprocess.run(
        [*command, str(settings.root / "test" / "unit" / name)],
        env=environment,
        cwd=settings.root / "test" / "unit",
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
        if "outcome" in entry:
            found[entry["test"]] = Verdict(entry["outcome"], entry["seconds"], entry["why"])
            running = None
        else:
            running = entry["test"]
    return running


def kind_of(why: str) -> str:
    """Return an error's line without what differs from test to test."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?", "#", why)[:110]


def _print_file(name: str, verdicts: dict[str, Verdict], seconds: float) -> None:
    counts = Counter(verdict.outcome for verdict in verdicts.values())
    run = sum(counts.values()) - sum(counts[kind] for kind in NOT_RUN)
    others = ", ".join(f"{counts[kind]} {kind}" for kind in ENDED[1:] if counts[kind])
    print(
        f"{name}: {counts['passed']} of {run} pass; {others or 'all'}; {seconds:.0f} s", flush=True
    )


def _print_kinds(verdicts: dict[str, Verdict]) -> None:
    kinds: dict[str, list[str]] = {}
    for test, verdict in verdicts.items():
        if verdict.outcome not in ("passed", *NOT_RUN):
            kinds.setdefault(kind_of(verdict.why), []).append(test)
    for kind, tests in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(tests):6d}  {kind}\n        {tests[0]}")


def _print_changes(verdicts: dict[str, Verdict], before: Path) -> None:
    earlier = json.loads(before.read_text(encoding="utf-8"))
    for test, verdict in verdicts.items():
        if test in earlier and earlier[test]["outcome"] != verdict.outcome:
            print(f"{earlier[test]['outcome']} -> {verdict.outcome}: {test}")


def main() -> int:
    """Run the files; return 1 if a test failed, crashed or hung."""
    parser = argparse.ArgumentParser(prog="triton", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose names hold TEXT")
    parser.add_argument(
        "--sample", type=int, default=1, metavar="N", help="one in N tests of a function"
    )
    parser.add_argument("--interpret", action="store_true", help="kernels run as Python")
    parser.add_argument("--reference", action="store_true", help="on the reference back end")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--timeout", type=int, default=180, help="seconds of a test (default: 180)")
    parser.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="where tensors are: on the emulated GPU, as on a machine that has one (default), or in host memory",
    )
    parser.add_argument(
        "--capability",
        metavar="M.N",
        help="compute capability of the emulated GPU (default: 8.0): tests choose by it what they expect",
    )
    parser.add_argument("--out", type=Path, help="write the outcomes, as JSON")
    parser.add_argument("--before", type=Path, help="compare with what --out wrote before")
    options = parser.parse_args()
    environment = {**os.environ}
    paths = [str(HERE), str(HERE.parents[2]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if options.interpret:
        environment["TRITON_INTERPRET"] = "1"
    if options.capability:
        environment["EMU_CUDA_CAPABILITY"] = options.capability
    if options.reference:
        environment["EMU_TRITON_BACKEND"] = "reference"
    settings = Settings(
        options.checkout / "python",
        environment,
        options.sample,
        options.timeout,
        options.jobs,
        options.device,
    )
    verdicts: dict[str, Verdict] = {}
    for name in FILES:
        if options.only in name and (settings.root / "test" / "unit" / name).exists():
            start = time.monotonic()
            found = run_file(name, settings)
            _print_file(name, found, time.monotonic() - start)
            verdicts |= found
    _print_kinds(verdicts)
    if options.before:
        _print_changes(verdicts, options.before)
    if options.out:
        text = json.dumps({test: vars(verdict) for test, verdict in verdicts.items()}, indent=0)
        options.out.write_text(text, encoding="utf-8")
    return int(any(v.outcome not in ("passed", *NOT_RUN) for v in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
