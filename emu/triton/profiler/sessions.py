"""Sessions: what is collected between ``start`` and ``finalize``."""

from __future__ import annotations

import functools
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from emu.kernels.core.messages import shown
from emu.triton import knobs
from emu.triton.profiler.tree import COUNT, TIME, Node
from emu.triton.runtime import checks

FORMATS = ("hatchet",)
"""Formats of files that :func:`finalize` writes."""


@dataclass
class Session:
    """One profile.

    Attributes:
        path: File without its ending.
        hooked: Whether launches of kernels are measured.
        is_active: Whether anything is collected.
        root: The tree.
        path_now: The scopes that are open, from the root.
    """

    path: str
    hooked: bool
    is_active: bool = True
    root: Node = field(default_factory=lambda: Node("ROOT"))
    open: list[Node] = field(default_factory=list)

    @property
    def now(self) -> Node:
        """The innermost open scope."""
        return self.open[-1] if self.open else self.root


_sessions: dict[int, Session] = {}
_numbers = itertools.count()
_begun: list[tuple[int, Mapping[str, object]]] = []  # of launches under way: time, facts


def active() -> list[Session]:
    """Return the sessions that collect."""
    return [session for session in _sessions.values() if session.is_active]


def start(
    name: str | None = None,
    *,
    context: str | None = "shadow",
    data: str | None = "tree",
    backend: str | None = None,
    mode: object = None,
    hook: object = None,
) -> int | None:
    """Begin a session, which is active.

    Args:
        name: File of the profile, without its ending. Default: ``proton``.
        context: ``"shadow"``: the tree is that of the open scopes.
        data: ``"tree"``.
        backend: Accepted: there is one clock.
        mode: Accepted.
        hook: ``"triton"``: also measure every launch of a kernel. Default: scopes only.

    Returns:
        The session's number; None if ``knobs.proton.disable`` is set.

    Raises:
        ValueError: An argument asks for what there is not.
    """
    del backend, mode
    if knobs.proton.disable:
        return None
    for what, value, known in (
        ("context", context, ("shadow", None)),
        ("data", data, ("tree", None)),
        ("hook", hook, ("triton", None)),
    ):
        if value is not None and not (isinstance(value, str) and value in known):
            raise ValueError(f"{what} must be {known[0]!r} or None in emu, but got {value!r:.60}")
    if name is not None and "\0" in checks.check_text("name", name):
        raise ValueError(f"name must be that of a file, but got {name!r:.60}")
    session = next(_numbers)
    _sessions[session] = Session("proton" if name is None else name, hook == "triton")
    _hook()
    return session


def _hook() -> None:
    """Measure launches as long as a session wants it."""
    wanted = any(session.hooked for session in _sessions.values())
    for chain, function in (
        (knobs.runtime.launch_enter_hook, _enter_launch),
        (knobs.runtime.launch_exit_hook, _leave_launch),
    ):
        if wanted:
            chain.add(function)
        else:
            chain.remove(function)


def _enter_launch(facts: Any) -> None:
    _begun.append((time.perf_counter_ns(), facts.get()))


def _leave_launch(facts: Any) -> None:
    if not _begun:  # the session began within the launch
        return
    begin, told = _begun.pop()
    metrics: dict[str, float] = {TIME: time.perf_counter_ns() - begin, COUNT: 1}
    metrics |= {
        name: value
        for name, value in told.items()
        if name not in ("name", "function", "stream") and isinstance(value, (int, float))
    }
    for session in active():
        if session.hooked:
            session.now.child(str(told["name"])).add(metrics)


def _chosen(session: int | None) -> list[Session]:
    if session is None:
        return list(_sessions.values())
    if not isinstance(session, int) or session not in _sessions:
        raise ValueError(f"session must be one of {sorted(_sessions)}, but got {session!r:.60}")
    return [_sessions[session]]


def activate(session: int | None = None) -> None:
    """Go on with a session; None: with all.

    Raises:
        ValueError: There is no such session.
    """
    if not knobs.proton.disable:
        for one in _chosen(session):
            one.is_active = True


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Let a session rest; None: all.

    Args:
        session: Its number.
        flushing: Accepted: nothing is under way.

    Raises:
        ValueError: There is no such session.
    """
    del flushing
    if not knobs.proton.disable:
        for one in _chosen(session):
            one.is_active = False


def finalize(session: int | None = None, output_format: str | None = "hatchet") -> None:
    """End a session and write its file, ``<name>.hatchet``; None: all.

    Args:
        session: Its number.
        output_format: ``"hatchet"``; None and ``""`` mean that, too.

    Raises:
        ValueError: There is no such session or format.
        OSError: The file cannot be written.
    """
    if knobs.proton.disable:
        return
    ending = FORMATS[0] if output_format is None else output_format
    if not isinstance(ending, str) or ending not in (*FORMATS, ""):
        raise ValueError(f"output_format must be one of {FORMATS}, but got {shown(output_format)}")
    ended = _chosen(session)
    for number in [n for n, one in _sessions.items() if one in ended]:
        one = _sessions.pop(number)
        write(f"{one.path}.{ending or FORMATS[0]}", one.root)
    _hook()


def write(path: str, root: Node) -> None:
    """Write a tree, and the facts of the device, as Hatchet reads them."""
    from emu.triton.runtime.driver import driver

    properties = driver.active.utils.get_device_properties()
    device = {
        "arch": str(driver.active.get_current_target().arch),
        "num_sms": properties["multiprocessor_count"],
        "clock_rate": properties["sm_clock_rate"],
        "memory_clock_rate": properties["mem_clock_rate"],
        "bus_width": properties["mem_bus_width"],
    }
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w") as file:
        json.dump([root.to_json(), {"EMU": {"0": device}}], file)
    os.replace(temporary, path)


@overload
def profile(func: Callable[..., Any], **settings: Any) -> Callable[..., Any]: ...


@overload
def profile(
    func: None = None, **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...


def profile(func: Any = None, **settings: Any) -> Any:
    """Make each call of a function a session of its own.

    Args:
        func: The function; None to get a decorator.
        **settings: Arguments of :func:`start`.
    """
    if func is None:
        return functools.partial(profile, **settings)

    @functools.wraps(func)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        session = start(**settings)
        try:
            return func(*args, **kwargs)
        finally:
            finalize(session)

    return profiled
