"""``LaunchOptions``: the settings of a launch, each with its default."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError
from emu.comm.fault_options import Faults
from emu.comm.link_model import Link
from emu.comm.process.input import ALL, NONE
from emu.comm.process.launch_arguments import as_integer, check_integer
from emu.comm.schedule_options import Schedule

DEFAULT_TIMEOUT = 60.0
DEFAULT_HEAP_SIZE = 8 << 30
MAX_HEAP_SIZE = 1 << 42
TRACES = (".emutrace", ".pftrace", ".json")
"""Ends of the names of traces."""
SHM, MPI = "shm", "mpi"


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Settings of :func:`emu.launch`.

    Raises:
        ArgumentError: A value breaks a rule.
    """

    timeout: float = DEFAULT_TIMEOUT
    """Seconds without any progress anywhere after which waiting PEs get a DeadlockError. Default: 60, also for
    None. ``math.inf`` turns it off. Slow programs don't trip it. Where nobody can release PEs that wait, they
    get the error at once, whatever the time-out."""

    heap_size: int = DEFAULT_HEAP_SIZE
    """Bytes of symmetric heap per PE, 1 to 2**42. Default: 8 GiB of address space; memory is only taken where
    touched."""

    poison: bool = False
    """Fill fresh symmetric memory with NaN or 0xA5 instead of zeros. Default: False."""

    prefix_output: bool = True
    """Put the PE's number before each line of its output. Default: True."""

    link: Link | None = None
    """Emulated link between each two PEs: what passes between them then takes at least the time that it
    models. Default: None, as fast as memory is."""

    preload: Sequence[str] = ()
    """Modules that are imported once for all PEs rather than in each, in the process that PEs are forked from:
    it starts anew for modules that it lacks, unless PEs of another launch run. Modules that cannot be imported
    are left out. Default: none."""

    checks: Checks | None = None
    """What is looked for while the PEs run; what is found is raised as :class:`emu.CheckError` when all have ended.
    Default: what ``EMU_CHECK`` names."""

    schedule: Schedule | None = None
    """In which order the operations of the PEs take place: one at a time, the same each time. Default: as it
    happens."""

    faults: Faults | None = None
    """What goes wrong on purpose: PEs that die, signals that get lost, and others. Default: what ``EMU_FAULT`` has."""

    trace: str | Path | Sequence[str | Path] = ()
    """Files that are to say what each PE did, and when; each begins anew. The end of a name says what is written: ``.emutrace``
    (emu's own, which ``emu trace`` reads), ``.pftrace`` (Perfetto) or ``.json`` (Kineto's dialect of Chrome's traces). One
    path will do. Default: none, and then nothing is recorded."""

    transport: str = SHM
    """What carries data between PEs. ``"shm"``: shared memory, all PEs are on this machine. ``"mpi"``: this process is one of those
    that ``mpiexec`` or ``srun`` has started, one on each host; all of them make the same call, and each starts an equal part of
    the PEs (docs/many-machines.md). Default: ``"shm"``."""

    stdin: int | str = NONE
    """Number of the PE that gets this process's standard input, or ``"all"`` for a copy to each. Default:
    ``"none"``; a PE without input finds its end at once."""

    def __post_init__(self) -> None:
        heap_rule = "in [1, 2**42] bytes, an integer"
        checked = {
            "timeout": DEFAULT_TIMEOUT if self.timeout is None else _check_seconds(self.timeout),
            "heap_size": check_integer("heap_size", self.heap_size, MAX_HEAP_SIZE, heap_rule),
            "poison": _check_flag("poison", self.poison),
            "prefix_output": _check_flag("prefix_output", self.prefix_output),
            "preload": _check_modules(self.preload),
            "trace": _check_files(self.trace),
        }
        if self.link is not None and not isinstance(self.link, Link):
            raise ArgumentError(f"link must be an emu.Link or None, but got {self.link!r}")
        if self.checks is not None and not isinstance(self.checks, Checks):
            raise ArgumentError(f"checks must be an emu.Checks or None, but got {self.checks!r}")
        if self.schedule is not None and not isinstance(self.schedule, Schedule):
            raise ArgumentError(
                f"schedule must be an emu.Schedule or None, but got {self.schedule!r}"
            )
        if self.faults is not None and not isinstance(self.faults, Faults):
            raise ArgumentError(f"faults must be an emu.Faults or None, but got {self.faults!r}")
        if not isinstance(self.transport, str) or self.transport not in (SHM, MPI):
            raise ArgumentError(f"transport must be 'shm' or 'mpi', but got {self.transport!r}")
        # The values as checked replace the given ones: NumPy's numbers become Python's, None the default.
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def traces(self) -> tuple[str, ...]:
        """The files of ``trace``."""
        return _check_files(self.trace)

    @property
    def modules(self) -> tuple[str, ...]:
        """What is to be loaded before PEs are forked: ``preload``, and what records them."""
        return (*self.preload, *(("emu.trace.preload",) if self.trace else ()))

    def check_stdin(self, n_pes: int) -> int | str:
        """Return ``stdin`` after checking that it names one of ``n_pes`` PEs, all of them or none.

        Raises:
            ArgumentError: It does not.
        """
        if isinstance(self.stdin, str) and self.stdin in (ALL, NONE):
            return self.stdin
        number = as_integer(self.stdin)
        if number is None or not 0 <= number < n_pes:
            raise ArgumentError(
                f"stdin must be a PE in [0, {n_pes}), 'all' or 'none', but got {self.stdin!r}"
            )
        return number


class LaunchFields(TypedDict, total=False):
    """The fields of :class:`LaunchOptions` as keyword arguments."""

    timeout: float | None
    heap_size: int
    poison: bool
    prefix_output: bool
    link: Link | None
    preload: Sequence[str]
    checks: Checks | None
    schedule: Schedule | None
    faults: Faults | None
    trace: str | Path | Sequence[str | Path]
    transport: str
    stdin: int | str


def _check_seconds(value: object) -> float:
    seconds = math.nan
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    if not seconds > 0:
        raise ArgumentError(
            f"timeout must be positive (seconds, math.inf for none) or None, but got {value!r}"
        )
    return seconds


def _check_flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name} must be True or False, but got {value!r}")
    return bool(value)


def _check_modules(value: object) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, (Sequence, set, frozenset)) else (None,)
    if isinstance(value, (str, bytes)) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"preload must be a sequence of module names, but got {value!r}")
    return tuple(str(name) for name in names)


def _check_files(value: object) -> tuple[str, ...]:
    given = (value,) if isinstance(value, (str, Path)) else value
    files = tuple(given) if isinstance(given, (list, tuple)) else (None,)
    if not all(isinstance(file, (str, Path)) for file in files):
        raise ArgumentError(f"trace must be a path or a sequence of paths, but got {value!r}")
    for file in files:
        if Path(str(file)).suffix not in TRACES:
            raise ArgumentError(
                f"trace must be files whose names end in {', '.join(TRACES)}, but got {str(file)!r}"
            )
    return tuple(str(file) for file in files)
