"""Random sharded programs: our passes beside jaxlib's, byte for byte.

    python tests/conformance/sdy/fuzz.py --count 1000 [--first SEED] [--wild]
        [--python /path/to/python/with/jaxlib] [--pipeline TEXT …] [--keep DIR]

Each seed is a program (`sdy_programs.program`); each is run through several
pipelines on both sides, and the printed modules are compared. A difference is
minimised by hand, not here: its seed goes to ``seeds.txt`` beside this file,
whose seeds run first, so that nothing that once differed is forgotten.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from sdy_comparison import PIPELINES, compare
from sdy_oracle import Oracle
from sdy_programs import program

SEEDS = Path(__file__).with_name("seeds.txt")


def known_seeds() -> list[tuple[int, bool]]:
    """Those of the file, and whether the program is wild."""
    lines = (line.split() for line in SEEDS.read_text(encoding="utf-8").splitlines())
    return [(int(words[0]), "wild" in words) for words in lines if words]


def main() -> int:
    """Compare, print differences, and the figures at the end."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--wild", action="store_true", help="with what hardly any program holds")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with jaxlib")
    parser.add_argument("--pipeline", action="append", help="instead of the built-in ones")
    parser.add_argument("--keep", type=Path, help="a folder for the programs that differ")
    options = parser.parse_args()
    new = range(options.first, options.first + options.count)
    seeds = [*known_seeds(), *((seed, options.wild) for seed in new)]
    figures: Counter[str] = Counter()
    start = time.perf_counter()
    with Oracle(options.python) as oracle:
        for seed, wild in seeds:
            text = program(seed, wild=wild)
            figures["programs"] += 1
            for pipeline in options.pipeline or PIPELINES:
                outcome = compare(seed, text, pipeline, oracle)
                figures["comparisons"] += 1
                if isinstance(outcome, str):
                    figures[outcome] += 1
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
