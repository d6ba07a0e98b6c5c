"""Reports of deadlocks: who waits for whom, the cycle or the missing party, and the likely causes.

Every launch looks for deadlocks, whatever is checked; nothing has to be turned on. The exceptions that the launcher
raises carry the report:

    try:
        emu.launch(program, 4)
    except ExceptionGroup as error:
        found = deadlock_of(error)
        if found is not None:
            Path("deadlock.svg").write_text(found.to_svg())
"""

from __future__ import annotations

from emu.comm.deadlock.report import Cause, Deadlock, EndedPE, Kind, WaitingPE
from emu.comm.errors import DeadlockError

__all__ = ["Cause", "Deadlock", "EndedPE", "Kind", "WaitingPE", "deadlock_of", "deadlocks_of"]


def deadlock_of(error: BaseException) -> Deadlock | None:
    """Return the report of the deadlock that ended a launch.

    Args:
        error: What ``emu.launch`` raised, or one of the exceptions in it.

    Returns:
        The report; None: the launch ended otherwise.
    """
    found = deadlocks_of(error)
    return found[0] if found else None


def deadlocks_of(error: BaseException) -> tuple[Deadlock, ...]:
    """Return the reports of all deadlocks in an error, each once: those of PEs that waited together are one.

    Args:
        error: What ``emu.launch`` raised, or a group that has such errors.
    """
    found: dict[tuple[object, ...], Deadlock] = {}
    if isinstance(error, DeadlockError) and error.deadlock is not None:
        found[error.deadlock.pair] = error.deadlock
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            for deadlock in deadlocks_of(each):
                found.setdefault(deadlock.pair, deadlock)
    return tuple(found.values())
