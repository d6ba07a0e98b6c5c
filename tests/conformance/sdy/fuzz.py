"""Random sharded programs: our passes beside jaxlib's, byte for byte.

    python tests/conformance/sdy/fuzz.py --count 1000 [--first SEED]
        [--python /path/to/python/with/jaxlib] [--pipeline TEXT …] [--keep DIR]

Each seed is a program (`programs.program`); each is run through several
pipelines on both sides, and the printed modules are compared. A difference is
minimised by hand, not here: its seed goes to ``seeds.txt`` beside this file,
whose seeds run first, so that nothing that once differed is forgotten.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from oracle import Oracle
from programs import program

from emu.sdy.mlir import parse, to_text
from emu.sdy.mlir.diagnostics import MlirError, PassFailed
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.text import parse_pipeline

PIPELINES = (
    "sdy-propagation-pipeline",
    "sdy-import-pipeline",
    (
        "sdy-add-data-flow-edges,sdy-apply-sharding-constraints,sdy-sharding-group-import,"
        "sdy-basic-propagate,func.func(sdy-sink-data-flow-edges)"
    ),
    "sdy-add-data-flow-edges,sdy-aggressive-propagate",
    "sdy-add-data-flow-edges,sdy-op-priority-propagate{keep-sharding-rules=true}",
    "sdy-add-data-flow-edges,sdy-user-priority-propagate{conservative-propagation=true}",
)
SEEDS = Path(__file__).with_name("seeds.txt")


@dataclass(frozen=True, slots=True)
class Difference:
    """A seed and a pipeline for which the two sides differ."""

    seed: int
    pipeline: str
    text: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        lines = difflib.unified_diff(
            self.theirs.splitlines(), self.ours.splitlines(), "theirs", "ours", lineterm="", n=1
        )
        return f"seed {self.seed}, {self.pipeline}\n" + "\n".join(list(lines)[:40])


def ours(text: str, pipeline: str) -> str:
    """The module after our passes, or "failed"."""
    session = Session()
    try:
        module = parse(text, diagnostics=session.diagnostics)
        for each in parse_pipeline(pipeline):
            run_pass(each, module, session)
    except (MlirError, PassFailed):
        return "failed"
    except Exception as error:  # noqa: BLE001  # a crash is a difference, with its seed
        return f"crashed: {type(error).__name__}: {error}"
    return to_text(module)


def compare(seed: int, text: str, pipeline: str, oracle: Oracle) -> Difference | str | None:
    """A difference, None if both sides agree, or "aborted" if theirs died."""
    answer = oracle.ask(text, pipeline)
    if answer.aborted:
        return "aborted"
    theirs = answer.text if answer.ok else "failed"
    mine = ours(text, pipeline)
    if mine.rstrip() == theirs.rstrip():
        return None
    if not answer.ok:
        theirs = answer.text
    return Difference(seed, pipeline, text, mine, theirs)


def main() -> int:
    """Compare, print differences, and the figures at the end."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with jaxlib")
    parser.add_argument("--pipeline", action="append", help="instead of the built-in ones")
    parser.add_argument("--keep", type=Path, help="a folder for the programs that differ")
    options = parser.parse_args()
    known = [int(word) for word in SEEDS.read_text().split()] if SEEDS.exists() else []
    seeds = [*known, *range(options.first, options.first + options.count)]
    figures: Counter[str] = Counter()
    start = time.perf_counter()
    with Oracle(options.python) as oracle:
        for seed in seeds:
            text = program(seed)
            figures["programs"] += 1
            for pipeline in options.pipeline or PIPELINES:
                outcome = compare(seed, text, pipeline, oracle)
                figures["comparisons"] += 1
                if outcome == "aborted":
                    figures["aborted by the oracle"] += 1
                elif outcome is not None:
                    figures["differences"] += 1
                    sys.stdout.write(f"{outcome}\n\n")
                    sys.stdout.flush()
                    if options.keep is not None:
                        options.keep.mkdir(parents=True, exist_ok=True)
                        (options.keep / f"{seed}.mlir").write_text(text)
    took = time.perf_counter() - start
    sys.stdout.write(", ".join(f"{n} {what}" for what, n in figures.items()))
    sys.stdout.write(f" in {took:.0f} s\n")
    return int(figures["differences"] > 0)


if __name__ == "__main__":
    sys.exit(main())
