"""``emu doctor``: a report of what this machine offers, and of what each missing piece costs."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from emu.commands.mpi_found import find_mpi
from emu.kernels.core.environment import usable_cores

if TYPE_CHECKING:
    from rich.console import Console

_REQUIRED = ("numpy", "numba", "llvmlite", "ml_dtypes", "lazy-loader", "rich")
_SMALL_SHM = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    name: str
    value: str
    present: bool = True
    required: bool = False
    cost: str = ""
    """Consequence of its absence; empty when nothing is missing."""


def examine() -> list[Finding]:
    """Examine the machine without changing anything or starting a PE.

    Returns:
        The findings, the required ones first.
    """
    parts: tuple[Callable[[], Iterator[Finding]], ...] = (
        _platform,
        _packages,
        _shared_memory,
        _waiting,
        _numba,
        _products,
        _optional,
        _cache,
    )
    return [finding for part in parts for finding in part()]


def run_doctor(console: Console | None = None) -> int:
    """Print the report.

    Args:
        console: Where to print. Default: standard output.

    Returns:
        1 if something required is missing, else 0.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console(highlight=False)
    findings = examine()
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "what it costs"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        mark = (
            "[green]yes[/]"
            if finding.present
            else "[red]NO[/]"
            if finding.required
            else "[yellow]no[/]"
        )
        # Brackets in what was found are no markup.
        table.add_row(mark, *(Text(t) for t in (finding.name, finding.value, finding.cost)))
    console.print(table)
    missing = [finding.name for finding in findings if finding.required and not finding.present]
    if missing:
        console.print(f"\nemu cannot run here: {', '.join(missing)} missing.")
        return 1
    console.print("\nEverything that emu requires is here.")
    return 0


def precompile(console: Console | None = None) -> None:
    """Compile every kernel that is not in the cache yet, those of PEs too, and print what it took.

    Args:
        console: Where to print. Default: standard output.
    """
    from rich.console import Console

    from emu.comm.process.launching import launch
    from emu.kernels.core.jit import cache_dir
    from emu.kernels.precompile import STEPS
    from emu.stablehlo.compiled.precompile import precompile as precompile_programs

    console = console or Console(highlight=False)
    begin = time.monotonic()
    steps: dict[str, Callable[[], object]] = {
        **STEPS,
        "a world of PEs": partial(launch, _compile_machine, 1),
        "a communication server": partial(launch, _communicate, 1),
        "sharded programs": precompile_programs,
    }
    for name, step in steps.items():
        start = time.monotonic()
        with console.status(f"compiling {name}"):
            step()
        console.print(f"{time.monotonic() - start:8.2f} s  {name}")
    console.print(
        f"\nAll kernels are compiled, in {time.monotonic() - begin:.1f} s; "
        f"their code is below {cache_dir().parent}."
    )


def _compile_machine() -> None:
    """Compile, as a PE, every kernel of the machine."""
    from emu.comm.process.preload import compile_all

    compile_all()


def _communicate() -> None:
    """Start, as a PE, a communication server, which compiles its kernels."""
    from emu.comm.server.ends import server_of
    from emu.comm.world.current import world

    server_of(world())


def _platform() -> Iterator[Finding]:
    system, machine = platform.system(), platform.machine()
    windows = sys.platform == "win32"
    proved = (system, machine) == ("Linux", "x86_64")
    yield Finding(
        name="platform",
        value=f"{system} {machine}, kernel {platform.release()}",
        present=not windows,
        required=True,
        cost="PEs need POSIX shared memory; use a Linux virtual machine"
        if windows
        else ""
        if proved
        else "tested on Linux x86_64 only; the same code should run here",
    )
    yield Finding(
        name="python",
        value=platform.python_version(),
        present=sys.version_info >= (3, 11),
        required=True,
        cost="" if sys.version_info >= (3, 11) else "3.11 or newer is needed",
    )
    cores = os.cpu_count() or 1
    usable = usable_cores()
    yield Finding(
        name="cores",
        value=f"{usable} usable of {cores}",
        cost="" if usable > 1 else "PEs take turns; results are the same, speed-ups cannot be seen",
    )


def _packages() -> Iterator[Finding]:
    for name in _REQUIRED:
        found = _version(name)
        yield Finding(
            name=name,
            value=found or "not installed",
            present=found is not None,
            required=True,
            cost="" if found else "emu does not start",
        )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _shared_memory() -> Iterator[Finding]:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        yield Finding(
            name="/dev/shm",
            value="none",
            cost="size unknown: the system keeps shared memory elsewhere",
        )
        return
    usage = shutil.disk_usage(folder)
    enough = usage.free >= _SMALL_SHM
    yield Finding(
        name="/dev/shm",
        value=f"{_bytes(usage.free)} free of {_bytes(usage.total)}",
        present=enough,
        cost="" if enough else "symmetric arrays are bounded by it (in a container: --shm-size)",
    )


def _waiting() -> Iterator[Finding]:
    if importlib.util.find_spec("numba") is None:
        return
    from emu.comm.sync.futex import HAVE_FUTEX

    yield Finding(
        name="futex",
        value="available" if HAVE_FUTEX else "not on this system",
        present=HAVE_FUTEX,
        cost="" if HAVE_FUTEX else "a waiting PE polls every 100 us instead of being woken",
    )


def _numba() -> Iterator[Finding]:
    if importlib.util.find_spec("numba") is None:
        return
    from numba import cuda
    from numba.core import config

    layers = [
        name
        for name, module in (("tbb", "tbbpool"), ("omp", "omppool"), ("workqueue", "workqueue"))
        if importlib.util.find_spec(f"numba.np.ufunc.{module}") is not None
    ]
    yield Finding(
        name="threading layer",
        value=f"{vars(config).get('THREADING_LAYER', 'default')} (built: {', '.join(layers) or 'none'})",
        cost="used by matrix products, and in a PE only on request: each PE is one thread",
    )
    try:
        devices = len(cuda.list_devices()) if cuda.is_available() else 0
    except Exception as error:  # noqa: BLE001 - a broken driver raises what it likes
        yield Finding(
            name="CUDA", value=f"broken: {error}", present=False, cost="kernels run on the CPU"
        )
        return
    yield Finding(
        name="CUDA",
        value=f"{devices} device(s)" if devices else "no device",
        present=devices > 0,
        cost="used by emu.kernels.cuda only; all else runs on the CPU"
        if devices
        else "emu.kernels.cuda runs in the simulator only; all else runs on the CPU",
    )


def _products() -> Iterator[Finding]:
    """Say whether AMX is used, where the CPU has it."""
    if importlib.util.find_spec("numba") is None:
        return
    from emu.kernels.gemm.arguments import has_amx
    from emu.kernels.gemm.microkernel import LAYOUT

    if not LAYOUT.amx:
        return
    yield Finding(
        name="AMX",
        value="used by products of int8 and native bf16" if has_amx() else "refused by the system",
        present=has_amx(),
        cost=""
        if has_amx()
        else "products of int8 and native bf16 use vector registers, and take longer",
    )


def _optional() -> Iterator[Finding]:
    mpi = find_mpi(_version("mpi4py"))
    yield Finding(name="MPI", value=mpi.value, present=mpi.present, cost=mpi.cost)
    torch = _version("torch")
    yield Finding(
        name="torch",
        value=torch or "not installed",
        present=torch is not None,
        cost=""
        if torch
        else "no torch tensors, no scripts for cuda or npu, no tests that compare with torch",
    )
    jax = _version("jax")
    yield Finding(
        name="jax",
        value=jax or "not installed",
        present=jax is not None,
        cost="" if jax else "no emu.sdy.from_jax, no tests that compare with Shardy's own passes",
    )


def _cache() -> Iterator[Finding]:
    if importlib.util.find_spec("numba") is None:
        return
    from emu.kernels.core import cache_folder
    from emu.kernels.errors import CacheFolderError

    folder = cache_folder.base()
    try:
        cache_folder.check()
    except CacheFolderError as error:
        yield Finding(
            name="kernel cache", value=str(folder), present=False, required=True, cost=str(error)
        )
        return
    size = sum(path.stat().st_size for path in folder.glob("*/*") if path.is_file())
    above = next(path for path in (folder, *folder.parents) if path.exists())
    writable = os.access(above, os.W_OK)
    yield Finding(
        name="kernel cache",
        value=f"{folder} ({_bytes(size)})",
        present=writable,
        cost=""
        if writable
        else "not writable: every run compiles what is not in it; set EMU_CACHE_DIR",
    )


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
