"""Schedules keep every dependence of a program; the check finds a scheduler that does not."""

from __future__ import annotations

import copy
import inspect
import textwrap

import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_dependences import WrongScheduleError, check_schedule
from tile_harness import Program
from tile_kernels import KERNELS
from tile_programs import programs
from tile_sequences import check_stretch, held_back, is_found

from emu.tile.cpu import compiling
from emu.tile.cpu.depth import deep
from emu.tile.cpu.emit import emitter
from emu.tile.cpu.options import Options
from emu.tile.cpu.plan import schedule
from emu.tile.ir import Module
from emu.tile.passes import CarryOffsets, simplify
from emu.tile.types import F32, I32


class Scheduling:
    """Checks every schedule that the compiler makes."""

    def __init__(self, monkeypatch):
        self.checkers = {}
        self.overwritten = 0
        self.may_overwrite = emitter.may_overwrite
        monkeypatch.setattr(emitter, "Schedule", self.schedule)
        monkeypatch.setattr(emitter, "may_overwrite", self.check_overwriting)

    def schedule(self, analysis, operations, in_place):
        made = schedule.Schedule(analysis, operations, in_place)
        self.checkers[made] = check_schedule(analysis, operations, made)
        return made

    def check_overwriting(self, analysis, made, value, old, terminator):
        may = self.may_overwrite(analysis, made, value, old, terminator)
        if may and old is not None:
            self.overwritten += 1
            self.checkers[made].check_overwriting(value, old, terminator)
        return may


@pytest.fixture
def scheduling(monkeypatch):
    return Scheduling(monkeypatch)


def emit(module: Module):
    """Do all that a compilation does before LLVM's part."""
    with deep():
        module = simplify(copy.deepcopy(module))
        CarryOffsets().apply(module)
        compiling._emit(module.kernel, Options())


def emit_all():
    for program in (*KERNELS.values(), *CASES[::3]):  # a third of each family of dtypes
        emit(program.module)


def test_schedules_of_all_kinds_of_programs_keep_every_dependence(scheduling):
    emit_all()
    assert len(scheduling.checkers) > 100
    assert scheduling.overwritten > 3


@settings(deadline=None, max_examples=25)
@given(program=programs(steps=25))
def test_schedules_of_random_programs_keep_every_dependence(program: Program) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        scheduling = Scheduling(monkeypatch)
        emit(program.module)
        assert scheduling.checkers


@pytest.mark.parametrize("dtype", [I32, F32], ids=str)
def test_a_token_holds_a_tile_back_until_all_its_values_are_there(dtype):
    check_stretch(held_back(dtype))


FAULTS = {
    "a tile is read in the loop that computes another part of it": (
        "_may_fuse",
        "is_direct\n        and",
        "True and",
    ),
    "a tile is ready in the level that computes it": (
        "_ready",
        "self._fusion_level[root.owner] + 1",
        "self._fusion_level[root.owner]",
    ),
    "a scalar is ready at once": (
        "_ready",
        "return max(ready, self._issue_slot[root.owner])",
        "return 0",
    ),
    "a tile does not wait for its token": ("_after_tokens", "is Code.AFTER", "is None"),
    "an inline tile is read as it is written": ("_ready_in_memory", "level + 1", "level"),
    "an operand is read where it was computed": (
        "_earliest_level",
        "reads_memory(operation, operand)",
        "False",
    ),
    "a scalar ignores the order of memory": (
        "_earliest_slot",
        "operation.code in ops.MEMORY",
        "False",
    ),
    "an operation is delayed past its first reader": (
        "_latest_level",
        "min(latest, level)",
        "max(latest, level)",
    ),
    "a load is delayed to a store that may overlap": (
        "_is_overwritten",
        "at <= latest and not (at == latest and self._are_checked(load, other))",
        "at < latest",
    ),
    "a load is delayed past a store": ("_is_overwritten", "return True", "return False"),
    "a value is lost with its loop": ("_is_read", "group_of.get(user) is not group or ", ""),
    "an atomic shares a loop": ("_group", "and not group.is_serial and not is_serial", ""),
    "an operation is forgotten": ("_costs_nothing", "is_view(operation) or all", "any"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_rule_is_found(monkeypatch, scheduling, fault):
    name, old, new = FAULTS[fault]
    source = textwrap.dedent(inspect.getsource(inspect.getattr_static(schedule.Schedule, name)))
    assert source.count(old) == 1
    names = dict(vars(schedule))
    names["staticmethod"] = staticmethod
    exec(source.replace(old, new), names)  # noqa: S102 - our own text
    monkeypatch.setattr(schedule.Schedule, name, names[name])
    if not is_found():
        with pytest.raises(WrongScheduleError):
            emit_all()
