"""Operators of torch on symmetric memory under ``--check race``: what they read and write there races with other PEs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
import emu.accelerator
from emu import CheckError, Checks
from emu.check import Race

torch = pytest.importorskip("torch")

RACE = Checks(race=True)


def shared(shape: Any) -> tuple[Any, Any, Any]:
    """Return the World, a symmetric array of it, and this PE's part of that as a tensor."""
    emu.accelerator.install()
    world = emu.world()
    x = world.alloc(shape, np.float32, name="x", poison=False)
    world.barrier()
    return world, x, torch.from_numpy(x.local)


def sum_of_what_is_put(repaired: bool) -> None:
    world, x, tensor = shared(64)
    if world.my_pe == 1:
        world.put(x, np.ones(64, np.float32), 0)  # A
    world.barrier() if repaired else None
    if world.my_pe == 0:
        tensor.sum()  # B


def written_in_place(repaired: bool) -> None:
    """The operator writes even columns; PE 1 gets odd ones, or all of the last row."""
    world, x, tensor = shared((4, 10))
    part = x[:, 1::2] if repaired else x[3]
    if world.my_pe == 1:
        world.get(part, 0)  # A
    else:
        tensor[:, ::2].add_(1)  # B


def written_as_a_result(repaired: bool) -> None:
    world, x, tensor = shared(8)
    if world.my_pe == 0:
        torch.add(torch.ones(8), 1, out=tensor)  # A
    world.barrier() if repaired else None
    if world.my_pe == 1:
        world.get(x, 0)  # B


def copied_to_a_device(repaired: bool) -> None:
    world, x, tensor = shared(8)
    part = x[:4] if repaired else x[4:]
    if world.my_pe == 1:
        world.put(part, np.ones(4, np.float32), 0)  # A
    else:
        assert tensor[4:].cuda().is_cuda  # B


def a_list_of_tensors(repaired: bool) -> None:
    world, x, tensor = shared(8)
    part = x[:4] if repaired else x[4:]
    if world.my_pe == 1:
        world.put(part, np.ones(4, np.float32), 0)  # A
    else:
        torch.cat([torch.ones(3), tensor[4:]])  # B


def in_a_thread(repaired: bool) -> None:
    world, x, tensor = shared(8)

    def work() -> None:
        tensor.mul_(2)  # B

    if world.my_pe == 1:
        world.put(x, np.ones(8, np.float32), 0)  # A
    world.barrier() if repaired else None
    if world.my_pe == 0:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


PROGRAMS = [
    sum_of_what_is_put,
    written_in_place,
    written_as_a_result,
    copied_to_a_device,
    a_list_of_tensors,
    in_a_thread,
]


def races(program: Callable[..., object], *args: Any) -> list[Race]:
    try:
        emu.launch(program, 2, args=args, checks=RACE, preload=["torch"])
    except CheckError as error:
        return [r for r in error.reports if isinstance(r, Race)]
    return []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_race_is_found_and_its_repair_is_silent(program: Callable[[bool], None]) -> None:
    assert races(program, True) == []
    found = races(program, False)
    lines, first = inspect.getsourcelines(program)
    marks = {first + i for i, text in enumerate(lines) if re.search("# [AB]$", text)}
    assert found
    assert all({r.first.line, r.second.line} == marks for r in found)
    assert any(s.operation.startswith("torch ") for r in found for s in (r.first, r.second))


def views_and_other_memory() -> None:
    world, x, tensor = shared((4, 4))
    if world.my_pe == 1:
        world.put(x, np.ones((4, 4), np.float32), 0)
    else:
        assert tensor.t()[1:].stride() == (1, 4)
        torch.empty_like(tensor)
        torch.ones(16).sum()
    emu.accelerator.uninstall()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_views_read_nothing() -> None:
    assert races(views_and_other_memory) == []


def modes() -> int:
    emu.accelerator.install()
    return int(torch._C._len_torch_dispatch_stack())


@pytest.mark.parametrize(("checks", "count"), [(Checks(), 0), (Checks(leak=True), 0), (RACE, 1)])
def test_there_is_a_mode_only_where_races_are_looked_for(checks: Checks, count: int) -> None:
    assert emu.launch(modes, 1, checks=checks) == [count]


SCRIPT = """
import numpy as np, torch, emu
world = emu.world()
x = world.alloc(8, np.float32, name="x", poison=False)
tensor = torch.from_numpy(x.local)
if world.my_pe:
    world.put(x, np.ones(8, np.float32), 0)
else:
    tensor.add_(1)
"""


def test_the_command_sees_operators(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "emu", "run", "-n", "2", "--check", "race", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 3, ended.stderr
    assert "script.py:9: torch add_ of PE 0 writes" in ended.stderr
