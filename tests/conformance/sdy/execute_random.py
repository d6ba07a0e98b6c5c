"""Random sharded programs, partitioned and run: do they compute what the whole programs do?

    python tests/conformance/sdy/execute_random.py --count 1000 [--first SEED] [--uneven]
        [--devices N] [--passes PIPELINE] [--keep DIR]

Each seed is a program (`sdy_programs.program`). It is partitioned by our passes, its devices run as
threads on random inputs, and every value is compared with that of the program without shardings, as
``check="unsharded"`` does; so are the copies that several devices have of a result. ``--uneven``
shards dimensions also where the number of shards does not divide them. Programs on more than N
devices (default: 16) are left out. What is refused is counted by its message.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import ml_dtypes  # noqa: F401  # dtypes by name
import numpy as np
from sdy_programs import OPERATIONS
from sdy_programs.regions import manual_computation
from sdy_programs.scopes import Program
from sdy_programs.shardings import Axis, Shardings
from sdy_programs.shardings import Mesh as MeshText

import emu.sdy
import emu.sdy.execution.whole  # handlers of sdy operations
from emu.mlir.attributes import IntegerAttr
from emu.mlir.diagnostics import MlirError, PassFailed
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import Mesh
from emu.sdy.dialect.functions import function_type
from emu.sdy.execution.comparison import compare_results, compare_values, largest_error, tolerance
from emu.sdy.execution.partitioned import (
    NUMBER,
    PROBE,
    Partitioned,
    main_function,
    n_devices,
    partition,
)
from emu.sdy.execution.trace import Recorder, Values
from emu.stablehlo.reference import EvaluationError, evaluate
from emu.stablehlo.reference.devices import Device, run_on_threads
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.values import Array


class UnevenShardings(Shardings):
    """Shardings that mostly do not ask whether the number of shards divides a dimension."""

    def dims(
        self, shape: tuple[int, ...], mesh: MeshText, taken: frozenset[str]
    ) -> tuple[list[str], list[Axis]]:
        """Text of each dimension, and axes that none of them uses."""
        chosen: list[list[Axis]] = [[] for _ in shape]
        left: list[Axis] = []
        for piece in self.pieces(mesh, taken):
            dim = self.rng.randrange(len(shape)) if shape else None
            if dim is None or self.rng.random() < 0.3:
                left.append(piece)
            else:
                chosen[dim].append(piece)
        return [self.dim_text(self.in_mesh_order(axes, mesh), mesh) for axes in chosen], left


def text_of(seed: int, *, uneven: bool) -> str:
    """The program of a seed."""
    # A manual computation may claim that its results are copies of each other where they are not,
    # and an unreduced argument that it is only a part of a sum: then the whole program is another.
    program = Program(seed, [each for each in OPERATIONS if each[0] is not manual_computation])
    if uneven:
        program.shardings = UnevenShardings(program.rng)
    program.shardings.unreduced = False
    return program.module()


def random_inputs(program: Partitioned, seed: int) -> list[Array]:
    """Small numbers of either sign, most of them different."""
    rng = np.random.default_rng(seed)
    found = []
    for placement in program.inputs:
        shape, dtype = placement.type.static_shape, dtype_of(placement.type.element)
        if dtype.kind in "iub":
            found.append(rng.integers(0, 5, shape).astype(dtype))
        else:
            found.append((rng.integers(-40, 40, shape) / 16).astype(dtype))
    return found


def turned(op: Operation, *arrays: Array) -> Sequence[Array]:
    """A custom call whose every element depends on another one."""
    return [np.roll(x.ravel(), 1).reshape(x.shape) for x in arrays[: len(op.results)]]


def taken_apart(op: Operation, *arrays: Array) -> Sequence[Array]:
    """A custom call whose results have other types."""
    found = []
    for result in op.results:
        assert isinstance(result.type, TensorType)
        found.append(np.resize(arrays[0], result.type.static_shape))
    return found


def nothing(op: Operation, *arrays: Array) -> Sequence[Array]:
    """A custom call without results."""
    return ()


CALLS = {"foo": turned, "mine": taken_apart, "keep": nothing}


def difference(module: Operation, seed: int, passes: str) -> str | None:
    """What differs between the partitioned and the whole program; None if nothing does."""
    program = partition(module, passes, probed=True)
    inputs = random_inputs(program, seed)
    count = program.n_devices
    name = str(main_function(program.local).symbol_name)
    recorder = Recorder(program.whole)
    expected = evaluate(
        program.whole,
        *inputs,
        function=str(main_function(program.whole).symbol_name),
        custom_calls=CALLS,
        observer=recorder,
    )

    def run(device: Device) -> tuple[list[Array], Values]:
        values: Values = {}

        def probe(op: Operation, value: Array) -> Sequence[Array]:
            number = op.attributes[NUMBER]
            assert isinstance(number, IntegerAttr)
            values.setdefault(number.value, []).append([value])
            return ()

        pairs = zip(program.inputs, inputs, strict=True)
        shards = [placement.shard(x, device.process) for placement, x in pairs]
        calls = {**CALLS, PROBE: probe}
        found = evaluate(program.local, *shards, function=name, device=device, custom_calls=calls)
        return found, values

    per_device = run_on_threads(run, 1, count)
    results = [
        placement.assemble([found[i] for found, _ in per_device], range(count))
        for i, placement in enumerate(program.results)
    ]
    verdict = compare_values(program, recorder, [values for _, values in per_device], CALLS)
    verdict = verdict if verdict.findings else compare_results(program, expected, results)
    if verdict.findings:
        return str(verdict.findings[0])
    for i, placement in enumerate(program.results):
        for device, (found, _) in enumerate(per_device):
            own = placement.shard(results[i], device)
            # What reaches beyond the tensor is of no interest.
            other = placement.shard(np.zeros_like(results[i]) + results[i], device)
            inside = placement.shard(np.ones(results[i].shape, bool), device)
            got = np.where(inside, found[i], other)
            if largest_error(got, own)[0] > tolerance(own.dtype, own.size):
                return f"result {i}: device {device} has another copy of its shard"
    return None


def is_runnable(module: Operation, devices: int) -> bool:
    """Whether a module has so few devices, on meshes of one size, and types of a known size."""
    sizes = {
        mesh.total_size
        for op in module.walk()
        if isinstance(mesh := op.properties.get("mesh"), Mesh) and op.name == "sdy.mesh"
    }
    types = function_type(main_function(module))
    static = all(
        isinstance(type_, TensorType) and type_.is_static
        for type_ in (*types.inputs, *types.results)
    )
    return static and len(sizes) <= 1 and n_devices(module) <= devices


def summary(text: str) -> str:
    """A message without its numbers and names."""
    lines = [line for line in text.splitlines() if ": " in line]
    line = next((line for line in lines if "internal error" in line), lines[0] if lines else text)
    return re.sub(r"\d+|%\w+|tensor<[^>]*>", "#", line.partition(": ")[2] or line)[:150]


def main() -> int:
    """Run the programs, print what differs, and the figures at the end."""
    parser = argparse.ArgumentParser(prog="execute_random", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--uneven", action="store_true", help="shard unevenly too")
    parser.add_argument("--devices", type=int, default=16, help="at most (default: 16)")
    parser.add_argument("--passes", default="emu-partition-pipeline", help="how to partition")
    parser.add_argument("--keep", type=Path, help="a folder for the programs that differ")
    options = parser.parse_args()
    figures: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    first: dict[str, int] = {}
    start = time.perf_counter()
    warnings.simplefilter("ignore")
    for seed in range(options.first, options.first + options.count):
        text = text_of(seed, uneven=options.uneven)
        try:
            module = emu.sdy.parse(text)
            if not is_runnable(module, options.devices):
                figures["left out"] += 1
                continue
            found = difference(module, seed, options.passes)
        except (PassFailed, MlirError) as error:
            figures["not partitioned"] += 1
            message = summary(str(error))
            refused[message] += 1
            first.setdefault(message, seed)
            continue
        except EvaluationError as error:
            figures["not evaluated"] += 1
            message = f"evaluation: {summary(str(error))}"
            refused[message] += 1
            first.setdefault(message, seed)
            continue
        figures["equal" if found is None else "different"] += 1
        if found is not None:
            sys.stdout.write(f"seed {seed}: {found}\n")
            sys.stdout.flush()
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{seed}.mlir").write_text(text)
    took = time.perf_counter() - start
    for message, n in refused.most_common(40):
        sys.stdout.write(f"{n:5} {message} (first: seed {first[message]})\n")
    said = ", ".join(f"{n} {what}" for what, n in figures.items())
    sys.stdout.write(f"{options.count} programs: {said} in {took:.0f} s\n")
    return int(figures["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
