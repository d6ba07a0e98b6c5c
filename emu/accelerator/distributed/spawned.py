"""``torch.multiprocessing.spawn``: the processes that it starts become PEs of a World of their own.

They do when they call ``init_process_group`` with one of our backends. All else is torch's: how the processes are
started, what they get and print, and how an error of one ends the others. ``torch.distributed.launcher`` starts
functions in the same way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from multiprocessing import process
from typing import TYPE_CHECKING, Any

import torch
import torch.multiprocessing

import emu.accelerator
from emu.accelerator.patches import replace
from emu.comm.process.invitation import Gathering, Invitation
from emu.comm.world.current import set_world

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.world import World

_DEVICES = "EMU_DEVICES"
_MOST = 1024  # PEs of a World


class _Here:
    """The invitation of this process, and its number, while it runs a function that was spawned."""

    invitation: Invitation | None = None
    pe = -1
    process = 0


def accept() -> World | None:
    """Return the World that this process is invited to, of which it becomes a PE; None if it is not invited."""
    if _Here.invitation is None or _Here.process != os.getpid():  # one that was forked is not
        return None
    return _Here.invitation.accept(_Here.pe)


class _Entry:
    """What a spawned process calls in place of the program's function."""

    def __init__(self, function: Callable[..., Any], invitation: Invitation, n_pes: int) -> None:
        self.function = function
        self.invitation = invitation
        self.n_pes = n_pes

    def __call__(self, pe: int, *args: Any) -> None:
        os.environ.setdefault(_DEVICES, str(self.n_pes))
        emu.accelerator.install()  # where the program itself does it under `if __name__ == "__main__":`
        set_world(None)  # a forked process has that of the one that started it
        _Here.invitation, _Here.pe, _Here.process = self.invitation, pe, os.getpid()
        self.function(pe, *args)
        self.invitation.leave(pe)


def install() -> None:
    """Replace the function behind ``spawn``, under both its names."""
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    start: Callable[..., Any] = module.start_processes

    def start_processes(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> Any:
        if not (isinstance(nprocs, int) and 1 <= nprocs <= _MOST):
            return start(fn, args, nprocs, join, daemon, start_method)
        gathering = Gathering(nprocs)
        entry = _Entry(fn, gathering.invitation, nprocs)
        try:
            context = start(entry, args, nprocs, False, daemon, start_method)
        except BaseException:
            gathering.close()
            raise
        started: list[process.BaseProcess] = context.processes
        gathering.watch(started)
        if not join:
            return context
        while not context.join():
            pass
        return None

    for owner in (module, torch.multiprocessing):
        replace(owner, "start_processes", start_processes, "spawned processes become PEs")
