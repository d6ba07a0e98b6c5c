"""Profiles of scopes and kernels: ``triton.profiler``, the Python face of Triton's Proton.

A session collects a tree of scopes. With ``hook="triton"`` it also counts every launch of a kernel and measures its
time on the host's clock, which is the kernel's own time, as launches return when their programs have ended.
:func:`finalize` writes the tree in Hatchet's JSON format.

Internal: names may change in any release.
"""

from emu.triton.profiler import viewer
from emu.triton.profiler.scopes import (
    cpu_timed_scope,
    enter_scope,
    enter_state,
    exit_scope,
    exit_state,
    scope,
    state,
)
from emu.triton.profiler.sessions import activate, deactivate, finalize, profile, start

DEFAULT_PROFILE_NAME = "proton"
"""Name of the file of a session that was given none."""

__all__ = [
    "DEFAULT_PROFILE_NAME",
    "activate",
    "cpu_timed_scope",
    "deactivate",
    "enter_scope",
    "enter_state",
    "exit_scope",
    "exit_state",
    "finalize",
    "profile",
    "scope",
    "start",
    "state",
    "viewer",
]
