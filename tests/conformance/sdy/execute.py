"""Do programs of one device compute what the programs with global shapes do?

    python tests/conformance/sdy/execute.py DIR [--only TEXT] [--passes PIPELINE]
        [--devices N] [-v]

``DIR`` holds modules with sdy shardings, as jax_programs.py writes them. Each is
partitioned by our passes (default: ``emu-partition-pipeline``) and run by XLA on
as many virtual CPU devices as its mesh has, each with its shards of random
arguments; beside it runs the module as it was, on one device without shardings, or
if it has manual computations, taken apart by XLA's own partitioner (which is wrong
at times). Results must be equal but for rounding. Programs on more than N devices
(default: 24), on several meshes or with callbacks are left out. Needs jax.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import emu.sdy
from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.mlir.types import FunctionType, TensorType
from emu.sdy.dialect.attributes import Mesh, TensorSharding
from emu.sdy.dialect.functions import (
    func_arg_sharding,
    func_result_sharding,
    set_func_result_sharding,
)
from emu.sdy.execution.partitioned import main_function
from emu.sdy.execution.shards import Placement
from emu.stablehlo.reference.dtypes import dtype_of


@dataclass(frozen=True, slots=True)
class Side:
    """What a module's main function takes and gives, and how that is cut."""

    types: tuple[TensorType, ...]
    shardings: tuple[TensorSharding | None, ...]


def sides(module: Operation) -> tuple[Side, Side]:
    """The arguments and the results of the main function."""
    main = main_function(module)
    type_: FunctionType = main.properties["function_type"].type  # type: ignore[attr-defined]
    return (
        Side(
            tuple(type_.inputs),  # type: ignore[arg-type]
            tuple(func_arg_sharding(main, i) for i in range(len(type_.inputs))),
        ),
        Side(
            tuple(type_.results),  # type: ignore[arg-type]
            tuple(func_result_sharding(main, i) for i in range(len(type_.results))),
        ),
    )


def replicate_results(module: Operation) -> None:
    """Give each result that has no sharding a whole copy on each device."""
    main = main_function(module)
    (name,) = [op.symbol_name for op in module.body() if op.name == "sdy.mesh"]
    type_: FunctionType = main.properties["function_type"].type  # type: ignore[attr-defined]
    for index, result in enumerate(type_.results):
        if func_result_sharding(main, index) is None and isinstance(result, TensorType):
            sharding = TensorSharding.fully_closed(result.rank, name)
            set_func_result_sharding(main, index, sharding)


def without_shardings(module: Operation) -> str | None:
    """The program for one device; None if it has computations on shards."""
    module = module.clone()
    for op in list(module.walk()):
        if op.name == "sdy.manual_computation":
            return None
        if op.name in {"sdy.sharding_constraint", "sdy.propagation_barrier"}:
            op.replace_with(op.operands)
        elif op.name == "sdy.sharding_group":
            op.erase()
    emu.sdy.run_passes(module, "sdy-drop-sharding-and-mesh")
    return str(module)


def mesh_of(module: Operation) -> Mesh | None:
    """The mesh of a module; None if there is not just one."""
    found = {op.properties["mesh"] for op in module.body() if op.name == "sdy.mesh"}
    found = {m for m in found if isinstance(m, Mesh) and m.axes}
    return found.pop() if len(found) == 1 else None


def random_array(rng: np.random.Generator, type_: TensorType) -> Any:
    """Values that no operation chokes on: small, and integers that index something."""
    dtype = dtype_of(type_.element)
    shape = type_.static_shape
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu" or "int4" in dtype.name:
        return rng.integers(0, 4, shape).astype(dtype)
    found = rng.uniform(0.1, 0.9, shape)
    if np.issubdtype(dtype, np.complexfloating):
        found = found + 1j * rng.uniform(0.1, 0.9, shape)
    return found.astype(dtype)


def as_replicas(text: str) -> str:
    """The program of one device for XLA's replicas, whose numbers are then the devices'."""
    text = text.replace("stablehlo.partition_id", "stablehlo.replica_id")
    text = re.sub(r"channel_handle = #stablehlo.channel_handle<[^>]*>,? ?", "", text)
    return re.sub(r",? ?use_global_device_ids", "", text)


def execute(text: str, count: int, arguments: list[list[Any]], partitions: bool) -> list[list[Any]]:
    """Run a program on devices.

    Args:
        text: The program.
        count: The number of devices.
        arguments: For each argument, what each device has of it.
        partitions: XLA partitions it; otherwise each device runs it as it is.

    Returns:
        For each result, what each device has of it.
    """
    import jax
    from jax._src.lib import xla_client
    from jaxlib.cpu import _lapack

    # Else the first call of LAPACK ends the process: jax does this when it lowers one.
    _lapack.initialize()
    client = jax.devices()[0].client
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    for each in (options, build):
        each.num_partitions = count if partitions else 1
        each.num_replicas = 1 if partitions else count
    build.use_spmd_partitioning = build.use_shardy_partitioner = partitions
    devices = client.local_devices()[:count]
    executable = client.compile_and_load(text, xla_client.DeviceList(tuple(devices)), options)
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    given = []
    for parts in arguments:
        whole = parts[0].ndim == 0
        spec = jax.sharding.PartitionSpec(*([] if whole else ["device"]))
        shape = () if whole else (count * parts[0].shape[0], *parts[0].shape[1:])
        held = [jax.device_put(part, device) for part, device in zip(parts, devices, strict=True)]
        sharding = jax.sharding.NamedSharding(mesh, spec)
        given.append(jax.make_array_from_single_device_arrays(shape, sharding, held))
    found = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [[np.asarray(part) for part in parts] for parts in found]


def assembled(parts: list[Any], placement: Placement) -> Any:
    """A whole array of the parts of devices; raises if copies are not the same."""
    whole = placement.assemble(parts, range(len(parts)))
    for device, part in enumerate(parts):
        if placement.shard(whole, device).tobytes() != part.tobytes():
            raise ValueError(f"device {device} has another copy of the same shard")
    return whole


def compare(text: str, passes: str, devices: int) -> str:
    """``"equal"``, why there was nothing to compare, or what differs."""
    module = emu.sdy.parse(text)
    mesh = mesh_of(module)
    if mesh is None or mesh.total_size > devices:
        return "left out: not one mesh of so few devices"
    if "callback" in text or "@my_kernel" in text:
        return "left out: calls what is not there"
    before, _ = sides(module)
    try:
        emu.sdy.run_passes(module, passes)
    except PassFailed as error:
        return f"left out: not converted: {str(error).splitlines()[1][:160]}"
    arguments, results = sides(module)
    emu.sdy.run_passes(module, "sdy-drop-sharding-and-mesh")
    local = str(module)
    rng = np.random.default_rng(0)
    wholes = [random_array(rng, type_) for type_ in before.types]
    count = mesh.total_size

    def cut(shardings: Sequence[TensorSharding | None]) -> list[list[Any]]:
        return [
            [Placement(type_, s, mesh).shard(whole, d) for d in range(count)]
            for whole, type_, s in zip(wholes, before.types, shardings, strict=True)
        ]

    mine = execute(as_replicas(local), count, cut(arguments.shardings), partitions=False)
    reference = emu.sdy.parse(text)
    replicate_results(reference)
    theirs_in, theirs_out = sides(reference)
    whole = without_shardings(reference)
    if whole is None:
        theirs = execute(str(reference), count, cut(theirs_in.shardings), partitions=True)
    else:
        theirs = execute(whole, 1, [[each] for each in wholes], partitions=False)
        theirs_out = Side(theirs_out.types, (None,) * len(theirs_out.types))
    lines = []
    for index, type_ in enumerate(theirs_out.types):
        a = assembled(mine[index], Placement(type_, results.shardings[index], mesh))
        b = assembled(theirs[index], Placement(type_, theirs_out.shardings[index], mesh))
        wide = np.complex128 if np.issubdtype(a.dtype, np.complexfloating) else np.float64
        x, y = a.astype(wide), b.astype(wide)
        coarse = a.dtype.itemsize < 4 and a.dtype.kind not in "iub"
        if not np.allclose(x, y, rtol=0.05 if coarse else 2e-3, atol=1e-3, equal_nan=True):
            worst = np.nanmax(np.abs(x - y)) if x.size else 0
            lines.append(f"result {index}: off by {worst:.3g}")
    return "; ".join(lines) or "equal"


def main() -> int:
    """Compare each program in a process of its own: some end it."""
    parser = argparse.ArgumentParser(prog="execute", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose names hold TEXT")
    parser.add_argument("--passes", default="emu-partition-pipeline", help="how to partition")
    parser.add_argument("--devices", type=int, default=24, help="at most (default: 24)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-v", action="store_true", help="print what processes say that end")
    options = parser.parse_args()
    if options.one:
        text = options.folder.read_text(encoding="utf-8")
        sys.stdout.write(compare(text, options.passes, options.devices) + "\n")
        return 0
    flags = f"--xla_force_host_platform_device_count={options.devices}"
    wrong = 0
    for path in sorted(options.folder.glob("*.mlir")):
        if options.only not in path.stem or path.stem.endswith(".locations"):
            continue
        command = [sys.executable, __file__, str(path), "--one", "--passes", options.passes]
        command += ["--devices", str(options.devices)]
        done = subprocess.run(
            command,
            env={**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout.strip() or f"ended with status {done.returncode}"
        if not done.stdout.strip():
            said += ": " + (done.stderr.strip().splitlines() or [""])[-1][:300]
            if options.v:
                sys.stdout.write(done.stderr)
        wrong += said != "equal" and not said.startswith("left out")
        sys.stdout.write(f"{path.stem}: {said}\n")
        sys.stdout.flush()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
