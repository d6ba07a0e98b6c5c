"""``emu sdy run``: runs a sharded program on PEs."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from emu.comm.errors import ArgumentError as LaunchArgumentError
from emu.comm.errors import HostsError
from emu.comm.process.launch_options import MPI, SHM, LaunchOptions
from emu.comm.process.mpi import initialise, started_processes
from emu.commands.sdy.files import read_text
from emu.mlir import parse
from emu.mlir.arguments import ArgumentError
from emu.mlir.diagnostics import MlirError, PassFailed
from emu.mlir.types import TensorType
from emu.sdy.execution.errors import ExecutionError, MismatchError
from emu.sdy.execution.executable import Executable
from emu.sdy.execution.program import DEFAULT_PIPELINE
from emu.sdy.execution.shards import Placement
from emu.stablehlo.reference.dtypes import dtype_of, is_integer
from emu.stablehlo.reference.elementwise import convert
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array


@dataclass(frozen=True)
class Request:
    """What the command line asked for.

    Attributes:
        file: MLIR text; "-" is standard input.
        inputs: Files of the inputs. Default: random inputs.
        seed: Seed of the random inputs.
        check: What to compare with the program without shardings. Default: nothing.
        output: File for the results. Default: none.
        passes: How to partition. Default: "emu-partition-pipeline".
        timeout: Seconds without progress after which the PEs are stopped.
        reference: Whether to compute operation by operation in NumPy, without compiling.
        mesh: Other sizes of the mesh's axes, as "x=4,y=8". Default: the module's.
        transport: "mpi": several hosts run this command, and share the PEs; the first tells of the results.
    """

    file: str
    inputs: Sequence[Path] = ()
    seed: int = 0
    check: Literal["outputs", "unsharded"] | None = None
    output: Path | None = None
    passes: str | None = None
    timeout: float = 60.0
    reference: bool = False
    mesh: str | None = None
    transport: str = SHM


def run_program(
    request: Request, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> int:
    """Run the command.

    Returns:
        0 on success; 1 if the module, a pass, an operation or a PE failed, or results differ; 2 for a file
        that cannot be read, or inputs that do not fit.
    """
    out: TextIO = stdout or sys.stdout
    err: TextIO = stderr or sys.stderr
    try:
        is_first = _is_first(request.transport)
        if not is_first:
            out = io.StringIO()
        _check_output(request.output)
        module = parse(read_text(request.file), file=request.file)
        program = Executable(
            module,
            passes=request.passes or DEFAULT_PIPELINE,
            check=request.check,
            mesh=request.mesh,
            path="reference" if request.reference else "compiled",
        )
        given = _inputs(request, program.partitioned.inputs)
        out.write(_heading(request, program))
        out.flush()
        with program:
            options = LaunchOptions(timeout=request.timeout, transport=request.transport)
            results = program(*given, options=options)
        out.writelines(_lines(program, results))
        if request.output is not None and is_first:
            np.savez(request.output, *results)
    except ExceptionGroup as group:  # of PEs
        err.write(f"emu sdy run: {_told(group)}\n")
        return 1
    except MismatchError as error:
        err.write(f"{error}\n")
        if len(error.findings) > 1:
            err.write(f"  and {len(error.findings) - 1} more\n")
        return 1
    except (EvaluationError, MlirError, PassFailed) as error:
        err.write(f"{error}\n")
        return 1
    except (ArgumentError, ExecutionError, HostsError, LaunchArgumentError, OSError) as error:
        err.write(f"emu sdy run: {error}\n")
        return 2
    return 0


def _is_first(transport: str) -> bool:
    """Return whether this is the first of the hosts that run the command.

    Raises:
        LaunchArgumentError: Several were started, but are not to share the PEs.
        HostsError: There is no MPI.
    """
    if transport == MPI:
        return int(initialise().COMM_WORLD.Get_rank()) == 0
    started = started_processes()
    if started > 1:
        raise LaunchArgumentError(
            f"--transport must be mpi where mpiexec or srun has started this command {started} times, but got "
            f"{transport}: each would run the whole program"
        )
    return True


def _told(group: ExceptionGroup[Exception]) -> str:
    """Return what PEs failed of: each text once, without the tracebacks, which lie in emu."""
    texts: dict[str, list[int]] = {}
    for each in group.exceptions:
        text = str(each) if isinstance(each, EvaluationError) else f"{type(each).__name__}: {each}"
        texts.setdefault(text, []).append(getattr(each, "pe", -1))
    told = [f"{group.message}"]
    for text, pes in texts.items():
        where = f"PE {pes[0]}" if len(pes) == 1 else f"{len(pes)} PEs, the first is PE {pes[0]}"
        told.append(f"{where}: {text}")
    return "\n".join(told)


def _check_output(output: Path | None) -> None:
    """Raise OSError, before anything runs, where results cannot be written."""
    if output is None:
        return
    if output.is_dir() or not output.parent.is_dir():
        raise OSError(f"--output must be a file in a folder that exists, but got {str(output)!r}")


def _heading(request: Request, program: Executable) -> str:
    meshes = {p.mesh for p in (*program.partitioned.inputs, *program.partitioned.results)}
    axes = "; ".join(", ".join(f"{a.name}={a.size}" for a in m.axes) for m in meshes if m.axes)
    count = program.n_devices
    where = f"{count} PEs" if count > 1 else "one PE"
    origin = "inputs as given" if request.inputs else f"random inputs (seed {request.seed})"
    return f"@main on {where}{f' ({axes})' if axes else ''}, {origin}\n"


def _inputs(request: Request, placements: Sequence[Placement]) -> list[Array]:
    if not request.inputs:
        rng = np.random.default_rng(request.seed)
        return [random_array(rng, placement.type) for placement in placements]
    found: list[Array] = []
    for path in request.inputs:
        try:
            loaded = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise OSError(
                f"{path} must be an .npy or .npz file, but cannot be read: {error}"
            ) from None
        found += [loaded[name] for name in loaded.files] if hasattr(loaded, "files") else [loaded]
    # NumPy's files have no bfloat16 and no fp8: those come as floats or as raw bytes.
    return [
        _typed(value, placement) for value, placement in zip(found, placements, strict=False)
    ] + found[len(placements) :]


def _typed(value: Array, placement: Placement) -> Array:
    dtype = dtype_of(placement.type.element)
    if value.dtype.kind == "V" and value.dtype.itemsize == dtype.itemsize:
        return value.view(dtype)
    if dtype.kind not in "biufc" and value.dtype.kind in "iuf":
        return convert(value, dtype)
    return value


def random_array(rng: np.random.Generator, type_: TensorType) -> Array:
    """Return random numbers: normal floats, integers from 0 to 7 (which may be indices), booleans."""
    dtype, shape = dtype_of(type_.element), type_.static_shape
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if is_integer(dtype):
        return convert(rng.integers(0, 8, shape), dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def _lines(program: Executable, results: Sequence[Array]) -> list[str]:
    lines = []
    for index, (value, placement) in enumerate(
        zip(results, program.partitioned.results, strict=True)
    ):
        sharding = placement.sharding
        dims = (
            "" if sharding is None else f" [{', '.join(d.stripped_text() for d in sharding.dims)}]"
        )
        lines.append(f"result {index}: {placement.type}{dims}{_statistics(value)}\n")
    verdict = program.verdict
    if verdict is not None:
        what = "results" if program.check == "outputs" else "values"
        lines.append(
            f"equal to the unsharded program: {verdict.compared} {what} compared, largest error "
            f"{verdict.largest_error:.2g}\n"
        )
    return lines


def _statistics(value: Array) -> str:
    if not value.size or value.dtype.kind in "bc":
        return ""
    wide = value.astype(np.float64)
    if not np.isfinite(wide).all():
        return f", {int((~np.isfinite(wide)).sum())} of {value.size} not finite"
    return f", from {wide.min():.4g} to {wide.max():.4g}, mean {wide.mean():.4g}"
