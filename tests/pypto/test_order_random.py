"""Random kernels of puts, gets and local ops: told of just where an op is not reached from another by preds and tensors."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from campaigns import shares

import emu
import emu.pypto as p
from emu.check.races import clocks
from emu.pypto import distributed as d

ROWS = 8


@dataclass
class _Value:
    """A tensor or a token, the ops that its values come after, and those that have read it since."""

    tensor: p.Tensor
    after: set[int]
    is_token: bool = False
    readers: set[int] = field(default_factory=set)


class _Kernel:
    """A kernel that is drawn as it runs, and which of its ops are not ordered.

    Args:
        chosen: Source of choices.
    """

    def __init__(self, chosen: random.Random) -> None:
        self.chosen = chosen
        self.care = chosen.choice([0.3, 0.8, 0.95])
        """How likely an op names another in ``pred``."""
        self.raced = False
        self.ops: list[tuple[int, bool, set[int]]] = []
        self.program: set[int] = set()
        """Ops that the program has waited for."""
        self.values: list[_Value] = []

    def run(self) -> None:
        """Draw and run it."""
        self.data = d.create_shmem_tensor("tp", 1, p.DT_FP32, [ROWS, 4])
        p.set_vec_tile_shapes(2, 4)
        self.values = [_Value(p.full([2, 4], 1.0, p.DT_FP32), set()) for _ in range(2)]
        for _ in range(self.chosen.choice([6, 12, 20])):
            kinds = ("put", "put", "get", "get", "add", "assign", "read")
            getattr(self, self.chosen.choice(kinds))()

    def _tensor(self) -> _Value:
        return self.chosen.choice([value for value in self.values if not value.is_token][-4:])

    def _pred(self) -> list[_Value]:
        if self.chosen.random() > self.care:
            return []
        count = min(len(self.values), self.chosen.choice([1, 2, 4]))
        return self.values[-count:]

    def _access(self, row: int, writes: bool, after: set[int]) -> set[int]:
        """Note an op on two rows; return what comes after those that come after it."""
        for number, (other, wrote, _) in enumerate(self.ops):
            if abs(other - row) < 2 and (writes or wrote) and number not in after:
                self.raced = True
        self.ops.append((row, writes, after))
        return after | {len(self.ops) - 1}

    def put(self) -> None:
        row, source = self.chosen.randrange(ROWS - 1), self._tensor()
        pred = [value for value in self._pred() if value.tensor is not source.tensor]
        tensors = [value.tensor for value in pred]
        after = source.after.union(self.program, *(value.after for value in pred))
        token = d.shmem_put(source.tensor, [row, 0], self.data, 0, pred=tensors)
        after = self._access(row, True, after)
        source.readers |= after
        self.values.append(_Value(token, after, is_token=True))

    def get(self) -> None:
        row, pred = self.chosen.randrange(ROWS - 1), self._pred()
        after = self.program.union(*(value.after for value in pred))
        tensors = [value.tensor for value in pred]
        out = d.shmem_get(self.data, 0, [2, 4], [row, 0], pred=tensors)
        self.values.append(_Value(out, self._access(row, False, after)))

    def add(self) -> None:
        one, two = self._tensor(), self._tensor()
        after = one.after | two.after
        self.values.append(_Value(p.add(one.tensor, two.tensor), after))
        one.readers |= after
        two.readers |= after

    def assign(self) -> None:
        one, two = self._tensor(), self._tensor()
        if one is not two:
            one.tensor[:, :] = two.tensor
            one.after = one.after | one.readers | two.after
            one.readers = set()
            two.readers |= one.after
            self.values.append(self.values.pop(self.values.index(one)))

    def read(self) -> None:
        if self.chosen.random() < 0.3:
            value = self._tensor()
            assert value.tensor.numpy().shape == (2, 4)
            self.program |= value.after


def _compare(first: int, count: int) -> tuple[int, int]:
    """Run kernels, in program order and in a random one; return how many race, and how many do not."""
    listener: Any = emu.world().listener
    found: list[int] = []

    def take(state: Any) -> None:
        found.append(int(state[clocks.S_FOUND]))
        state[clocks.S_FOUND] = 0

    listener.findings.take = take
    races = 0
    for seed in range(first, first + count):
        for schedule in ("program", "random"):
            found.clear()
            kernel = _Kernel(random.Random(seed))
            with p.set_schedule(schedule, seed):
                p.frontend.jit(kernel.run)()
            assert kernel.raced == bool(found), f"seed {seed}, order: {schedule}, {kernel.ops}"
        races += kernel.raced
    return races, count - races


def test_ops_race_just_where_nothing_leads_from_one_to_the_other() -> None:
    checks = emu.Checks(race=True)
    ((races, others),) = emu.launch(_compare, 1, args=(0, 200), checks=checks, timeout=100)
    assert races > 20
    assert others > 20


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", shares(4))
def test_many_kernels(share: int) -> None:
    checks = emu.Checks(race=True)
    first = 1000 * (share + 1)
    emu.launch(_compare, 1, args=(first, 1000), checks=checks, timeout=500)
