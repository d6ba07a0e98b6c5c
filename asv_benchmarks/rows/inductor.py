"""inductor: functions that torch.compile fuses, as Triton kernels on emu, beside Inductor's own C++."""

from __future__ import annotations

import functools
import importlib
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import torch_or_none
from rows.team import HERE, TeamError, environment
from rows.triton import NO_TORCH

PEERS = HERE.parent / "peers"
CPP, EAGER = "Inductor C++", "eager"
NAMES = (
    *("layer norm, GELU", "softmax of a sum", "RMS norm", "SwiGLU", "Adam update"),
    *("sum of columns", "log-softmax, mean", "sin, cos, ReLU"),
)
STEP = "train step"
_measured: dict[tuple[int, str], dict[str, Outcome]] = {}


def _programs() -> Any:
    """Return the functions, Inductor's Triton being emu's."""
    import emu.inductor

    emu.inductor.install()
    if str(PEERS) not in sys.path:
        sys.path.insert(0, str(PEERS))
    return importlib.import_module("inductor_programs")


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(settings: Settings, name: str, threads: int, peer: str) -> Outcome:
    torch = torch_or_none()
    if torch is None:
        return Outcome(note=NO_TORCH)
    programs = _programs()
    other = "cpp" if peer == CPP else None
    with _threads(threads):
        if name == STEP:
            ours, theirs = programs.train_step("triton"), programs.train_step(other)
        else:
            given = programs.operands(64 if settings.quick else programs.ROWS)
            ours, theirs = (_fused(programs.FUSED[name], b, given) for b in ("triton", other))
        torch.testing.assert_close(ours(), theirs(), rtol=1e-3, atol=1e-3)
        outcome = duel(settings, clock(ours), clock(theirs))
    _measured.setdefault((threads, peer), {})[name] = outcome
    return outcome


def _fused(
    function: Callable[..., Any], backend: str | None, given: list[Any]
) -> Callable[[], Any]:
    if backend is None:
        return functools.partial(function, *given)
    import torch

    # The options are part of what Dynamo knows compiled code by: both stay.
    return functools.partial(torch.compile(function, options={"cpu_backend": backend}), *given)


def _mean(settings: Settings, threads: int, peer: str) -> Outcome:
    """Return the geometric mean of the functions' times, which were measured before this."""
    del settings
    found = [o for n, o in _measured.get((threads, peer), {}).items() if n != STEP]
    if len(found) < len(NAMES) or any(not o.ours or not o.theirs for o in found):
        return Outcome(note="not all of its functions were measured")
    ours, theirs = (
        math.exp(sum(math.log(t) for t in times) / len(found))
        for times in ([o.ours or 1 for o in found], [o.theirs or 1 for o in found])
    )
    return Outcome(ours, theirs)


def _first(settings: Settings, name: str) -> Outcome:
    """Return the seconds of a first call in fresh processes, nothing being cached."""
    if torch_or_none() is None:
        return Outcome(note=NO_TORCH)
    times: dict[str, list[float]] = {"triton": [], "cpp": []}
    for _ in range(1 if settings.quick else 3):
        for backend, found in times.items():
            found.append(_probe(backend, name))
    return Outcome(min(times["triton"]), min(times["cpp"]))


def _probe(backend: str, name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, str(PEERS / "inductor_programs.py"), backend, name],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**environment(), "EMU_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
        )
    if done.returncode:
        raise TeamError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return float(done.stdout.splitlines()[-1])


def _rows() -> list[Bench]:
    found = []
    for threads in (1, 2):
        where = f"{threads} thread{'s' if threads > 1 else ''}"
        for peer in (CPP, EAGER):
            for name in (*NAMES, STEP):
                run = functools.partial(_run, name=name, threads=threads, peer=peer)
                goal = Goal(ratio=1.0) if name == STEP and peer == CPP else Goal()
                found.append(Bench(f"inductor/{name}, {where}", peer, "us", goal, run))
            run = functools.partial(_mean, threads=threads, peer=peer)
            goal = Goal(ratio=1.0) if peer == CPP else Goal()
            found.append(Bench(f"inductor/geometric mean, {where}", peer, "us", goal, run))
    for name in ("layer norm, GELU", "Adam update", STEP):
        run = functools.partial(_first, name=name)
        goal = Goal(ratio=2.0)
        found.append(Bench(f"inductor/first call of {name}", CPP, "s", goal, run))
    return found


ROWS = _rows()
