"""Run StableHLO's own interpreter tests, and the programs JAX wrote for it, through our reference.

    python tests/conformance/stablehlo CHECKOUT [--only TEXT] [--data] [--compiled] [--jobs N]

``CHECKOUT`` is a checkout of StableHLO, of any day. Default: the files of
``stablehlo/tests/interpret``; with ``--data`` those of ``stablehlo/testdata``, each of which holds a
program, its inputs and what JAX computed from them. With ``--compiled`` the tests' functions are compiled
and not evaluated by the reference. Prints a line per file that does not pass, and
how many do. A test passes if all of its ``check.expect_…`` operations hold.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from checks import CUSTOM_CALLS, Mismatch, generic, inputs_of

import emu.sdy
from emu.mlir.diagnostics import MlirError
from emu.stablehlo.compiled import compile_program
from emu.stablehlo.reference import EvaluationError, evaluate


def run_section(text: str, compiled: bool) -> str:
    """Run one module of a file; return ``"pass"``, or why not."""
    try:
        module = emu.sdy.parse(generic(text))
    except MlirError as error:
        return f"not read: {str(error).splitlines()[0][-150:]}"
    module = next((op for op in module.body() if op.name == "builtin.module"), module)
    functions = [op.symbol_name for op in module.body() if op.name == "func.func"]
    if not functions:
        return "pass"
    name = "main" if "main" in functions else functions[0]
    inputs = inputs_of(text)
    try:
        if compiled:
            compile_program(module, str(name), custom_calls=CUSTOM_CALLS).bind()(inputs)
        else:
            evaluate(module, *inputs, function=str(name), custom_calls=CUSTOM_CALLS)
    except EvaluationError as error:
        return f"not evaluated: {str(error)[:200]}"
    except Mismatch as error:
        return f"wrong: {error}"
    except Exception as error:  # noqa: BLE001  # the other files are of use nevertheless
        return f"failed: {type(error).__name__}: {str(error)[:150]}"
    return "pass"


def run_file(path: Path, *, compiled: bool = False) -> list[str]:
    """Run the sections of a file; return a verdict per section."""
    sections = re.split(r"^// -----.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [run_section(each, compiled) for each in sections if "func.func" in each]


def main() -> int:
    """Run the files; return 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(prog="stablehlo", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose names hold TEXT")
    parser.add_argument("--data", action="store_true", help="stablehlo/testdata")
    parser.add_argument("--compiled", action="store_true", help="compile the functions")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    folder = options.checkout / "stablehlo" / ("testdata" if options.data else "tests/interpret")
    paths = sorted(p for p in folder.rglob("*.mlir") if options.only in p.stem)
    counts: Counter[str] = Counter()
    run = functools.partial(run_file, compiled=options.compiled)
    with ProcessPoolExecutor(options.jobs) as pool:
        for path, verdicts in zip(paths, pool.map(run, paths, chunksize=4), strict=True):
            for index, verdict in enumerate(verdicts):
                counts[verdict.partition(":")[0]] += 1
                if verdict != "pass":
                    sys.stdout.write(f"{path.relative_to(folder)} [{index}]: {verdict}\n")
    total = sum(counts.values())
    sys.stdout.write(
        f"{total} tests: {', '.join(f'{n} {kind}' for kind, n in counts.most_common())}\n"
    )
    return int(counts["wrong"] + counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
