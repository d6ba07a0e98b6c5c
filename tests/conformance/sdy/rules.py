"""Sharding rules of random operations: ours beside jaxlib's, byte for byte.

    python tests/conformance/sdy/rules.py --count 1000 [--first SEED]
        [--python /path/to/python/with/jaxlib]

Each program is one operation (`one_op_programs`), or a few where the rule looks
at more. Rules are made for ordinary and for conservative propagation, and the
printed modules are compared; differences are printed, and the figures at the
end. Programs that both sides refuse are counted apart.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from one_op_programs import Generator
from sdy_comparison import Difference, compare, ours
from sdy_oracle import Oracle

PASS = "func.func(sdy-populate-op-sharding-rules{{conservative-propagation={}}})"
PIPELINES = (PASS.format("false"), PASS.format("true"))


def main() -> int:
    """Compare, print differences, and the figures at the end."""
    parser = argparse.ArgumentParser(prog="rules", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the seed (default: 0)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with jaxlib")
    options = parser.parse_args()
    figures: Counter[str] = Counter()
    with Oracle(options.python) as oracle:
        for index, text in enumerate(Generator(options.first).programs(options.count)):
            for pipeline in PIPELINES:
                outcome = compare(index, text, pipeline, oracle)
                if outcome is None:
                    refused = ours(text, pipeline) == "failed"
                    figures["refused by both" if refused else "equal"] += 1
                elif isinstance(outcome, Difference):
                    figures["different"] += 1
                    sys.stdout.write(f"{outcome}\n\n")
                else:
                    figures[outcome] += 1
    sys.stdout.write(", ".join(f"{n} {what}" for what, n in sorted(figures.items())) + "\n")
    return int(figures["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
