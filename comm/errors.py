"""Exceptions of the communication layer, one per cause of failure."""

from __future__ import annotations

from emu.comm.deadlock.report import Deadlock
from emu.kernels import errors


class CommError(Exception):
    """Base of every error of the communication layer."""

    pe: int | None = None
    """World number of the PE that raised it; set by the launcher."""


class ArgumentError(CommError, errors.ArgumentError):
    """An argument breaks a rule; nothing was changed."""


class CollectiveMismatchError(ArgumentError):
    """Members of a group called different barriers or collectives, or one with different arguments.

    Every member of the group raises it, with the same text, and nothing was changed.
    """


class IndexRangeError(ArgumentError, IndexError):
    """An index lies outside a symmetric array; iteration over one ends with it."""


class UnknownGroupError(ArgumentError):
    """No member has made the group of this name yet."""


class SymmetricMemoryError(CommError):
    """Symmetric memory could not be allocated, or PEs disagree about it."""


class PlatformError(CommError):
    """This operating system cannot run PEs."""


class HostsError(CommError):
    """A World over several hosts cannot be started, or does not have what was asked of it."""


class StoppedError(CommError):
    """This PE was stopped because of something that happened elsewhere."""


class PeerFailedError(StoppedError):
    """Another PE raised an exception."""


class PEDiedError(StoppedError):
    """A PE's process ended without a result.

    In the launcher's ExceptionGroup it stands for the dead PE; the others raise it too.
    """

    def __init__(self, message: str, exitcode: int | None = None) -> None:
        super().__init__(message)
        self.exitcode = exitcode
        """Exit status of the process; negative: the signal that killed it."""

    def __reduce__(self) -> tuple[type[PEDiedError], tuple[str, int | None]]:
        return type(self), (str(self), self.exitcode)


class DeadlockError(StoppedError):
    """PEs wait that nobody can release, or nothing moved for the time-out; the text is the whole report."""

    deadlock: Deadlock | None = None
    """The report as a graph with likely causes, on the exceptions that the launcher raises."""


class PEExitError(CommError):
    """A PE called ``sys.exit`` with a status that means failure."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
        """Exit status that the PE asked for."""

    def __reduce__(self) -> tuple[type[PEExitError], tuple[str, int]]:
        return type(self), (str(self), self.code)


class PERaisedError(CommError, RuntimeError):
    """A PE raised an exception that cannot be sent as it is.

    That is KeyboardInterrupt, GeneratorExit and anything else that is not an ``Exception``; exceptions that cannot
    be pickled or rebuilt; and those without a readable text. The text gives the type and the original text.
    """

    def __init__(self, message: str, raised: str = "") -> None:
        super().__init__(message)
        self.raised = raised
        """Name of the exception's class."""

    def __reduce__(self) -> tuple[type[PERaisedError], tuple[str, str]]:
        return type(self), (str(self), self.raised)


class ForkServerError(CommError):
    """The process that PEs are forked from died; the next launch starts another one."""


class ServerError(CommError):
    """A communication server was given a task that it cannot execute, or was left in the middle of one."""


class TaskMismatchError(ServerError):
    """The members of a communicator prepared tasks that don't fit together."""


__all__ = [
    "ArgumentError",
    "CollectiveMismatchError",
    "CommError",
    "DeadlockError",
    "ForkServerError",
    "HostsError",
    "IndexRangeError",
    "PEDiedError",
    "PEExitError",
    "PERaisedError",
    "PeerFailedError",
    "PlatformError",
    "ServerError",
    "StoppedError",
    "SymmetricMemoryError",
    "TaskMismatchError",
    "UnknownGroupError",
]
