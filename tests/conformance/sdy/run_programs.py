"""Do programs that JAX writes run on PEs, and give what the whole programs give?

    python tests/conformance/sdy/run_programs.py DIR [--only TEXT]

``DIR`` holds modules as jax_programs.py writes them. Each is compiled with ``check="outputs"`` and run on as
many PEs as it has devices, from random inputs: what the PEs compute is compared with what our reference
computes of the program as it was. Prints a line per program. Needs no JAX.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from execute import random_array, sides

import emu.sdy
from emu.mlir.types import TensorType, Type

_SIZE = 8


def static(type_: Type) -> Type:
    """Return a type with some size for each that a program leaves open."""
    if not isinstance(type_, TensorType):
        return type_
    return TensorType(tuple(_SIZE if n is None else n for n in type_.shape), type_.element)


def verdict(path: Path) -> str:
    """Run one program; return what became of it."""
    module = emu.sdy.parse(path.read_text(encoding="utf-8"))
    rng = np.random.default_rng(0)
    try:
        with emu.sdy.compile(module, check="outputs") as program:
            program(*[random_array(rng, static(type_)) for type_ in sides(module)[0].types])
            found = program.verdict
            count = program.n_devices
    except ExceptionGroup as group:
        return f"failed: {str(group.exceptions[0]).splitlines()[0][:200]}"
    except (ValueError, ArithmeticError, emu.sdy.PassFailed) as error:
        return f"failed: {' '.join(str(error).split())[:200]}"
    largest = 0.0 if found is None else found.largest_error
    return f"equal on {count} devices, largest error {largest:.2g}"


def main() -> int:
    """Run all programs of a folder."""
    parser = argparse.ArgumentParser(prog="run_programs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose names hold TEXT")
    options = parser.parse_args()
    verdicts = {}
    for path in sorted(options.folder.glob("*.mlir")):
        if options.only in path.stem and not path.stem.endswith(".locations"):
            verdicts[path.stem] = verdict(path)
            sys.stdout.write(f"{path.stem}: {verdicts[path.stem]}\n")
            sys.stdout.flush()
    equal = sum(each.startswith("equal") for each in verdicts.values())
    sys.stdout.write(f"{equal} of {len(verdicts)} programs run and are equal\n")
    return int(equal < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
