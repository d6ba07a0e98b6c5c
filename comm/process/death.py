"""How a PE's process died, in words."""

from __future__ import annotations

from collections.abc import Sequence

from emu.comm.fault_options import ENOSPC, KILL, Fault
from emu.comm.process.fork_server import signal_name

_CHECK = "(emu run --check bounds finds the Triton kernel that does)"
_SIGNAL_OF = {KILL: "SIGKILL", ENOSPC: "SIGBUS"}


def how_it_died(exitcode: int | None, free_bytes: int, faults: Sequence[Fault] = ()) -> str:
    """Return how a process died.

    Args:
        exitcode: Its exit status; negative: the signal that killed it; None: it cannot be known.
        free_bytes: Bytes of shared memory that are free.
        faults: Those that were to kill this PE.
    """
    if exitcode is None:
        return "exited without reporting a result"
    if exitcode >= 0:
        return f"ended with exit status {exitcode} before its function returned"
    name = signal_name(-exitcode)
    hint = {
        "SIGBUS": (
            "; it touched memory that could not be had: shared memory (/dev/shm) may be full, "
            f"{free_bytes} bytes of it are free now. Use smaller arrays or fewer PEs, or enlarge it "
            "(docker: --shm-size)"
        ),
        "SIGKILL": "; the system may have run out of memory",
        "SIGABRT": f"; the C library does that when memory was written outside its bounds {_CHECK}",
        "SIGSEGV": f"; memory that was written outside its bounds may have held a pointer {_CHECK}",
    }.get(name, "")
    meant = [fault for fault in faults if _SIGNAL_OF.get(fault.kind) == name]
    if meant and name == "SIGKILL":
        hint = ""
    for fault in meant:
        hint += f"; the fault {fault} was to do that"
    return f"was killed by {name}{hint}"
