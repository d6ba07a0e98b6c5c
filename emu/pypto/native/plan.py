"""Plans: what runs for a batch of a structure, found once and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from emu.pypto import operation
from emu.pypto.buffer import Buffer
from emu.pypto.local import run_alone, run_ops
from emu.pypto.native.addresses import address_of
from emu.pypto.native.batch import Batch, Key, Spot, Step
from emu.pypto.native.grouping import Group, find_groups
from emu.pypto.native.writer import Pointer, Written, write
from emu.pypto.operation import LocalOp
from emu.tile.fusion import FrontEnd, kernel_of
from emu.tile.fusion.emitters import Emit

MOST_PLANS = 4096
"""Plans that are kept; all are forgotten when there would be more."""


def _emitters() -> Mapping[str, Emit]:
    from emu.pypto.native.emitters import EMITTERS

    return EMITTERS


FRONT_END = FrontEnd("pypto", ("pypto/native",), _emitters)
"""PyPTO's local ops."""

_plans: dict[tuple[Key, int], Plan] = {}


def run_batch(ops: list[LocalOp], least: int | None = None) -> None:
    """Compute local ops in order; none may raise an error that depends on values.

    Args:
        ops: The ops.
        least: Elements from which on an op is compiled. Default: :data:`emu.pypto.operation.LEAST_ELEMENTS`.
    """
    batch = Batch(ops)
    if batch.is_mixed and _is_aliased(ops):
        run_ops(ops)
        return
    least = operation.LEAST_ELEMENTS if least is None else least
    key = batch.key, least
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = Plan(batch, least)
    plan.run(batch)


def _is_aliased(ops: list[LocalOp]) -> bool:
    """Return whether ops write arrays of the program that share memory with others: kernels tell buffers apart by identity."""
    foreign = {
        t.buffer
        for op in ops
        for t in op[1]
        if not isinstance(t, np.generic) and t.buffer.is_foreign
    }
    written = {t.buffer for op in ops for t in op[2] if t.buffer.is_foreign}
    return any(
        one is not other and np.may_share_memory(one.array, other.array)
        for one in written
        for other in foreign | written
    )


class Plan:
    """What runs for batches of one structure."""

    def __init__(self, batch: Batch, least: int) -> None:
        steps, stores = batch.steps(), batch.stores()
        groups = find_groups(steps, stores, least)
        numbers: list[np.dtype[np.generic]] = [x.dtype for x in batch.numbers]
        # Numbers lie eight bytes apart; kernels get their addresses.
        self._numbers = np.zeros(max(len(numbers), 1), np.int64)
        self._views = [self._numbers[n : n + 1].view(dtype)[:1] for n, dtype in enumerate(numbers)]
        base = address_of(self._numbers)
        self._actions: list[tuple[int | _Launch, tuple[int, ...]]] = []
        self._has_references = any(isinstance(group, int) for group in groups)
        last = {n: place for place, group in enumerate(groups) for n in _touched(group, steps)}
        for place, group in enumerate(groups):
            # Memory that nobody needs behind this group.
            unneeded = tuple(
                [n for n, at in last.items() if at == place and not stores[n].is_needed]
            )
            if isinstance(group, int):
                self._actions.append((group, unneeded))
                continue
            outside = _read_outside(groups, place, steps)
            outside |= {n for n, store in enumerate(stores) if store.is_needed}
            written = write(group, steps, stores, frozenset(outside))
            if written.recipe.outputs:
                self._actions.append((_Launch(written, base), unneeded))

    def run(self, batch: Batch) -> None:
        """Compute a batch of this structure."""
        for view, value in zip(self._views, batch.numbers, strict=True):
            view[0] = value
        if self._has_references:
            with np.errstate(all="ignore"):
                self._run(batch)
        else:
            self._run(batch)

    def _run(self, batch: Batch) -> None:
        buffers = batch.buffers
        for action, unneeded in self._actions:
            if isinstance(action, int):
                run_alone(batch.ops[action])
                # Its results go when they have been read for the last time.
                batch.ops[action] = None  # type: ignore[call-overload]  # it is not looked at again
            else:
                action.run(buffers)
            for number in unneeded:
                buffers[number].memory = None


class _Launch:
    """A launch of a kernel."""

    __slots__ = ("_grid", "_kernel", "_numbers", "_pointers")

    def __init__(self, written: Written, base: int) -> None:
        kernel = kernel_of(written.recipe, FRONT_END)
        self._kernel: Callable[[int, int, int, Sequence[object]], None] = kernel.bind(1)
        self._grid = written.launch.grid
        self._numbers = written.launch.numbers
        self._pointers = [_address(each, base) for each in written.pointers]

    def run(self, buffers: Sequence[Buffer]) -> None:
        """Launch, with the addresses that buffers have now."""
        values = [
            offset if number < 0 else address_of(buffers[number].array) + offset
            for number, offset in self._pointers
        ]
        x, y, z = self._grid
        self._kernel(x, y, z, (*values, *self._numbers))


def _address(pointer: Pointer, base: int) -> tuple[int, int]:
    """Return the number of a buffer and an offset; -1 and an address for a number of the batch."""
    if pointer.is_number:
        return -1, base + 8 * pointer.buffer
    return pointer.buffer, pointer.offset


def _read_outside(groups: Sequence[Group | int], place: int, steps: Sequence[Step]) -> set[int]:
    """Return the buffers that another group touches: what this one writes must be there."""
    others = [group for other, group in enumerate(groups) if other != place]
    return {n for group in others for n in _touched(group, steps)}


def _touched(group: Group | int, steps: Sequence[Step]) -> set[int]:
    """Return the buffers that a group touches."""
    numbers = [group] if isinstance(group, int) else group.steps
    spots = [x for n in numbers for x in (*steps[n].inputs, *steps[n].outputs)]
    return {x.buffer for x in spots if isinstance(x, Spot)}
