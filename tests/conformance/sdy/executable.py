"""Run the executable tests of a Shardy checkout on our own devices.

    python tests/conformance/sdy/executable.py CHECKOUT [--only TEXT] [-v]

Each file holds a program with shardings and a ``main`` that runs its functions on several devices
and checks what they give. Our passes partition the program (those that the file's RUN line names);
``emu.stablehlo.reference`` runs it, a thread per device, so that the number of cores does not matter.
Prints a line per file that does not pass, and how many do.

Most files ask for equal bits. Our reference adds up a product of floats in double precision and
rounds once; StableHLO's interpreter, for which the files were written, rounds after every addition.
A sum that is cut among devices is then rounded in other places. So this runner evaluates
``dot_general`` as the interpreter does, and compares as each file says.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "stablehlo"))

from checks import CUSTOM_CALLS, Mismatch, generic

import emu.sdy
from emu.mlir.diagnostics import MlirError, PassFailed
from emu.mlir.ir import Operation
from emu.sdy.passes.text import PassTextError, known_passes
from emu.stablehlo.attributes import DotDimensionNumbers
from emu.stablehlo.reference import EvaluationError, evaluate
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.scope import HANDLERS, Scope
from emu.stablehlo.reference.values import Array

_FOLDERS = (
    "executable_convert_global_to_local",
    "executable_partitioner_pipeline",
    "executable_explicit_gather_scatter_batching",
)
_DROP = "sdy-drop-sharding-and-mesh"


def passes_of(path: Path, text: str) -> list[str]:
    """Return the passes that the folder's script runs with the words of a RUN line."""
    if path.parent.name == _FOLDERS[2]:
        return ["sdy-explicit-gather-scatter-batching"]
    if path.parent.name == _FOLDERS[0]:
        return ["sdy-convert-global-to-local", _DROP]
    halo = "false" if re.search(r"RUN:.*(halo_exchange=false|\"false\")", text) else "true"
    counts = re.search(r"--replica_count=(\d+) --partition_count=(\d+)", text)
    # Only where a file asks for them: they are newer than June 2026.
    wanted = f" replica-count={counts[1]} partition-count={counts[2]}" if counts else ""
    return [
        "sdy-insert-explicit-reshards{enable-full-version=true}",
        f"sdy-resolve-permutation-factors{{enable-halo-exchange={halo}{wanted}}}",
        "sdy-reshard-to-collectives",
        "sdy-pad-for-divisibility",
        *(
            ["sdy-resolve-single-device-sharding"]
            if "sdy-resolve-single-device-sharding" in known_passes() and "<[], device_ids=" in text
            else []
        ),
        f"sdy-convert-global-to-local{{{wanted.strip()}}}"
        if wanted
        else "sdy-convert-global-to-local",
        _DROP,
    ]


def parts_of(text: str) -> dict[str, str]:
    """Split a file at its ``//--- name`` lines."""
    found = re.split(r"^//--- (\S+)$", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def body(text: str) -> str:
    """Return the text between a module's braces."""
    return text[text.index("{\n", text.index("module")) + 2 : text.rindex("}")]


def lowered(text: str, passes: list[str]) -> str:
    """Return the functions of a program after passes, without shardings."""
    module = emu.sdy.parse(text)
    for each in passes:
        emu.sdy.run_passes(module, each)
    return body(str(module))


def combined(path: Path) -> str:
    """Return the module that a file's RUN lines make."""
    text = path.read_text(encoding="utf-8")
    parts = parts_of(text)
    first = parts["part1.mlir"]
    found = re.findall(r'sdy_opt \S+ --([\w-]+)="([^"]*)"', text)
    if found:
        names = re.findall(r"sed 's/(\w+)/(\w+)/g'", text)
        texts = [
            lowered(first, [f"{name}{{{option}}}", _DROP]).replace(old, new)
            for (name, option), (old, new) in zip(found, names, strict=True)
        ]
    else:
        texts = [lowered(first, passes_of(path, text))]
    if path.parent.name == _FOLDERS[2]:
        texts.append(first.replace("transformed_", "original_"))
    elif "@parallel_" in first and "@sequential_" not in first:
        texts.append(lowered(first, [_DROP]).replace("parallel_", "sequential_"))
    return "\n".join([*texts, parts["part2.mlir"]])


def dot_in_order(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    """Evaluate ``dot_general`` with sums from the first product to the last, each step rounded."""
    numbers = op.properties["dot_dimension_numbers"]
    assert isinstance(numbers, DotDimensionNumbers)
    left, right = args
    batch, contract = numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions
    other, other_contract = numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions
    free = [d for d in range(left.ndim) if d not in (*batch, *contract)]
    other_free = [d for d in range(right.ndim) if d not in (*other, *other_contract)]
    shape = [*(left.shape[d] for d in (*batch, *free)), *(right.shape[d] for d in other_free)]
    sizes = [left.shape[d] for d in batch]
    a = np.transpose(left, [*batch, *free, *contract])
    b = np.transpose(right, [*other, *other_contract, *other_free])
    length = math.prod(left.shape[d] for d in contract)
    a = a.reshape(*sizes, math.prod(left.shape[d] for d in free), length)
    b = b.reshape(*sizes, length, math.prod(right.shape[d] for d in other_free))
    dtype = result_dtype(op.result.type)
    total = np.zeros((*sizes, a.shape[-2], b.shape[-1]), dtype)
    for k in range(length):
        product = a[..., k, None].astype(dtype) * b[..., k, None, :].astype(dtype)
        total = (total + product).astype(dtype)
    return (total.reshape(shape),)


def run_file(path: Path) -> str:
    """Return ``"pass"``, or why a file does not pass."""
    try:
        text = combined(path)
        module = emu.sdy.parse(generic(text))
    except PassFailed as error:
        return "not partitioned: " + " ".join(str(error).split("\n")[:2])[-200:]
    except PassTextError as error:
        return f"not partitioned: {error}"
    except MlirError as error:
        return f"not read: {str(error).splitlines()[0][-200:]}"
    try:
        with mock.patch.dict(HANDLERS, {"stablehlo.dot_general": dot_in_order}):
            evaluate(module, custom_calls=CUSTOM_CALLS)
    except EvaluationError as error:
        return f"not evaluated: {str(error)[:200]}"
    except Mismatch as error:
        return f"wrong: {error}"
    except Exception as error:  # noqa: BLE001  # the other files are of use nevertheless
        return f"failed: {type(error).__name__}: {str(error)[:150]}"
    return "pass"


def main() -> int:
    """Run the files; return 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(prog="executable", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose names hold TEXT")
    options = parser.parse_args()
    paths = sorted(
        path
        for path in (options.checkout / "shardy").rglob("*.mlir")
        if path.parent.name in _FOLDERS and options.only in path.stem
    )
    counts: Counter[str] = Counter()
    for path in paths:
        verdict = run_file(path)
        counts[verdict.partition(":")[0]] += 1
        if verdict != "pass":
            sys.stdout.write(f"{path.parent.name}/{path.name}: {verdict}\n")
            sys.stdout.flush()
    said = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    sys.stdout.write(f"{len(paths)} files: {said}\n")
    return int(counts["wrong"] + counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
