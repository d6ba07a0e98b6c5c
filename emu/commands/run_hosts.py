"""``emu run`` over several hosts: what MPI's launchers have started, or are asked to start."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # they load Numba
    from emu.comm.hosts.places import Places


def check_hosts(options: argparse.Namespace) -> None:
    """Check that the options for hosts fit each other, and what has started this process.

    Raises:
        ArgumentError: They don't.
    """
    from emu.comm.errors import ArgumentError
    from emu.comm.process.mpi import started_processes

    started = started_processes()
    if options.hosts is not None and started > 1:
        raise ArgumentError(
            f"--hosts must not be given where mpiexec or srun has started this command {started} times already, but got "
            f"--hosts {shown(options.hosts)}"
        )
    if options.pes_per_node is None:
        if options.hosts is not None:
            raise ArgumentError(
                f"--hosts must be given with --pes-per-node, but got --hosts {shown(options.hosts)} alone"
            )
        if started > 1:
            raise ArgumentError(
                f"--pes-per-node must be given where mpiexec or srun has started this command {started} times: with it "
                "they are one World, without it each would run the program for itself"
            )
        return
    for name, value in {
        "-n": options.n_pes,
        "--link": options.link,
        "--explore": options.explore,
        "--replay": options.replay,
        "--fault": options.fault or None,
        "--check": options.check,
        "--report": options.report,
        "--progress": options.progress or None,
        "--ranks-per-node": options.ranks_per_node,
    }.items():
        if value is not None:
            raise ArgumentError(
                f"{name} must not be given with --pes-per-node: a World over several hosts does not have it yet"
            )
    if options.script == "-":
        raise ArgumentError(
            "SCRIPT must be a file with --pes-per-node, but got -: only one host has the standard input"
        )


def bound(n_pes: int, usable: int, there: int) -> str:
    """Return what is to be told if PEs share few cores, to which a launcher may have bound this process; else nothing.

    Args:
        n_pes: PEs of this host.
        usable: Cores that this process may use.
        there: Cores of the host.
    """
    if usable >= min(n_pes, there):
        return ""
    return (
        f"{n_pes} PEs share {usable} of {there} cores, to which this process is bound; if its launcher has done it: "
        "mpiexec --bind-to none (Open MPI), I_MPI_PIN=0 (Intel MPI), srun --cpus-per-task"
    )


def over_hosts(fn: Callable[..., object], n_pes: int, **fields: Any) -> object:
    """Start the PEs of this host, called as ``emu.launch``."""
    from emu.comm.process.hosts import launch_over_hosts
    from emu.comm.process.launch_options import LaunchOptions

    args: Sequence[Any] = fields.pop("args")
    fields["stdin"] = "none"
    return launch_over_hosts(fn, n_pes, args=args, options=LaunchOptions(**fields))


def torchrun_environment_of(my_pe: int, places: Places) -> dict[str, str]:
    """Return the variables in which a PE of several hosts differs, as torchrun sets them.

    Args:
        my_pe: The PE.
        places: Where PEs are.
    """
    return {
        "MASTER_PORT": str(places.port),
        "TORCHELASTIC_RUN_ID": f"emu-{places.names[0]}-{places.port}",
        "MASTER_ADDR": places.names[0],
        "WORLD_SIZE": str(places.n_pes),
        "ROLE_WORLD_SIZE": str(places.n_pes),
        "LOCAL_RANK": str(my_pe - places.local.start),
        "GROUP_RANK": str(places.here),
        "NODE_RANK": str(
            places.here
        ),  # torchrun's option, which some launchers leave in the environment
        "GROUP_WORLD_SIZE": str(places.n_hosts),
    }


def start_on_hosts(options: argparse.Namespace) -> None:
    """Replace this process by mpiexec, which starts the same command on each host.

    Raises:
        ArgumentError: There is no mpiexec, or no host is named.
    """
    from emu.comm.errors import ArgumentError

    hosts = [host for host in options.hosts.split(",") if host]
    if len(hosts) < 2:
        raise ArgumentError(
            f"--hosts must name at least 2 hosts with commas between them, but got {shown(options.hosts)}"
        )
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise ArgumentError(
            "--hosts needs mpiexec on the PATH or beside Python, but there is none: pip install 'tile-emu[mpi]', or "
            "start the command by your site's launcher"
        )
    words = list(options.words)
    at = next(i for i, word in enumerate(words) if word.split("=")[0] == "--hosts")
    del words[at : at + (1 if "=" in words[at] else 2)]
    os.execv(
        mpiexec, [mpiexec, *_on_each(mpiexec, hosts), sys.executable, "-m", "emu", "run", *words]
    )


def find_mpiexec() -> str | None:
    """Return the mpiexec beside this Python, else that on the PATH; None: there is none."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def _on_each(mpiexec: str, hosts: Sequence[str]) -> list[str]:
    """Return the options with which an mpiexec starts one process on each host."""
    said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False)
    count = ["-n", str(len(hosts))]
    if "Open MPI" in said.stdout or "OpenRTE" in said.stdout:
        # A host may be named twice, so "ppr:1:node" would refuse it; PEs are bound to no core, as everywhere else.
        return [*count, "--host", ",".join(hosts), "--map-by", "node", "--bind-to", "none"]
    return [*count, "-hosts", ",".join(hosts), "-ppn", "1"]
