"""The planner: gives each value its place and each operation its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.ir import Operation, Value
from emu.stablehlo.checks import Invalid
from emu.stablehlo.compiled.collectives import COLLECTIVES
from emu.stablehlo.compiled.communication import SHARED_BYTES, Collective, collective_form
from emu.stablehlo.compiled.control import Choice, Copies, Window
from emu.stablehlo.compiled.control import While as WhileForm
from emu.stablehlo.compiled.fallback import Fallback
from emu.stablehlo.compiled.forms import PLANS, Context, Form, Step
from emu.stablehlo.compiled.lifetimes import Lifetimes, is_contiguous, is_invariant
from emu.stablehlo.compiled.storage import Kind, Layout, Root, contiguous_strides, place_buffers
from emu.stablehlo.compiled.units import Unit, Units, number, units_of
from emu.stablehlo.compiled.views import offset_of
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array

_FOREVER = 1 << 60


@dataclass(frozen=True)
class Planned:
    """The plan of a function.

    Attributes:
        steps: What it does, in order.
        roots: Stretches of memory.
        layouts: Layout per slot.
        constants: Arrays of the constants.
        results: Slot of each result.
        arena: Bytes of the buffers.
        shared: Bytes of the buffers that other processes use as well.
    """

    steps: tuple[Step, ...]
    roots: tuple[Root, ...]
    layouts: tuple[Layout, ...]
    constants: tuple[Array, ...]
    results: tuple[int, ...]
    arena: int
    shared: int


def plan(module: Operation, function: Operation, donated: Sequence[int] = ()) -> Planned:
    """Plan a prepared function.

    Args:
        module: The module, which numbers the operations.
        function: A function without calls.
        donated: Inputs whose memory results may take.
    """
    main = units_of(function.body())
    main.end = number(main)
    return _Planner(module, main, donated).run()


class _Planner:
    """Walks the program once, in the order in which it runs."""

    def __init__(self, module: Operation, main: Units, donated: Sequence[int]) -> None:
        self._main = main
        self._numbers = {op: index for index, op in enumerate(module.walk())}
        self._lives = Lifetimes(main)
        self._roots: list[Root] = []
        self._busy: list[int] = []
        self._layouts: list[Layout] = []
        self._slots: dict[Layout, int] = {}
        self._constants: list[Array] = []
        self._place: dict[Value, int] = {}  # root per owner
        self._wanted: dict[Value, int] = {}  # root that an owner is best put into
        self._donated = donated

    def run(self) -> Planned:
        """Plan the whole function."""
        for index, argument in enumerate(self._main.block.arguments):
            root = self._root(Kind.INPUT, index, self._nbytes(argument))
            self._put(argument, root)
            if index not in self._donated:
                # What nobody donated is never written.
                self._busy[root] = _FOREVER
        targets = self._result_roots()
        steps = self._block(self._main)
        places = [self._whole_slot(v, t) for v, t in zip(self._main.returned, targets, strict=True)]
        steps += self._returns(self._main, places)
        for each, busy in zip(self._roots, self._busy, strict=True):
            each.end = max(each.end, busy)
        self._share(steps)
        arenas = [
            place_buffers([r for r in self._roots if r.is_shared is is_shared])
            for is_shared in (False, True)
        ]
        return Planned(
            tuple(steps), tuple(self._roots), tuple(self._layouts), tuple(self._constants),
            tuple(places), *arenas,
        )  # fmt: skip

    def _share(self, steps: Sequence[Step]) -> None:
        """Mark the buffers that processes can read from each other, or write to, in collectives."""
        for step in steps:
            for block in step.blocks:
                self._share(block)
            if isinstance(step.form, Collective):
                for slot in step.form.shared_slots(step):
                    root = self._roots[self._memory_of(self._layouts[slot].root)]
                    root.is_shared = root.kind is Kind.BUFFER and root.nbytes >= SHARED_BYTES

    def _result_roots(self) -> list[int]:
        """Return a root per result: an output, or a donated input that is as large."""
        donated = {index: self._main.block.arguments[index] for index in self._donated}
        kept: dict[int, int] = {}
        for index, value in enumerate(self._main.returned):
            same = next((i for i, argument in donated.items() if argument is value), None)
            if same is not None:  # what is returned as it came stays where it is
                kept[index] = self._place[donated.pop(same)]
        found = []
        for index, value in enumerate(self._main.returned):
            if index in kept:
                found.append(kept[index])
                continue
            owner = self._lives.owner(value)
            made = self._lives.home[owner] is self._main and owner not in self._main.block.arguments
            whole = self._lives.stems[value].is_whole
            match = next((i for i, a in donated.items() if a.type == value.type), None)
            root = -1
            if match is not None and made and whole:
                root = self._place[donated.pop(match)]
            if root < 0:
                root = self._root(Kind.OUTPUT, index, self._nbytes(value))
            if made and whole and owner not in self._wanted:
                self._wanted[owner] = root
            found.append(root)
        return found

    # Memory

    def _nbytes(self, value: Value) -> int:
        shadow = self._lives.stems[value].shadow
        return int(shadow.size) * shadow.dtype.itemsize

    def _root(self, kind: Kind, index: int, nbytes: int, start: int = 0) -> int:
        self._roots.append(Root(kind, index, nbytes, start))
        self._busy.append(0)
        return len(self._roots) - 1

    def _put(self, owner: Value, root: int) -> None:
        """Put an owner into a root, which is then busy until the owner's last use."""
        self._place[owner] = root
        self._busy[root] = max(self._lives.last.get(owner, 0), 0)
        self._roots[root].end = max(self._roots[root].end, self._busy[root])

    def _slot_of(self, layout: Layout) -> int:
        slot = self._slots.get(layout)
        if slot is None:
            slot = self._slots[layout] = len(self._layouts)
            self._layouts.append(layout)
        return slot

    def _array_slot(self, root: int, array: Array) -> int:
        """Return the slot of what a shadow shows of a root."""
        strides = array.strides
        return self._slot_of(Layout(root, offset_of(array), array.shape, strides, array.dtype))

    def _slot(self, value: Value) -> int:
        """Return the slot of a value."""
        stem = self._lives.stems[value]
        if stem.owner not in self._place:
            array = self._lives.constants[stem.owner]
            self._constants.append(array)
            self._put(stem.owner, self._root(Kind.CONSTANT, len(self._constants) - 1, array.nbytes))
            self._busy[self._place[stem.owner]] = _FOREVER
        return self._array_slot(self._place[stem.owner], stem.shadow)

    def _whole_slot(self, value: Value, root: int) -> int:
        """Return the slot of a root seen as an array of a value's shape."""
        shadow = self._lives.stems[value].shadow
        strides = contiguous_strides(shadow.shape, shadow.dtype.itemsize)
        return self._slot_of(Layout(root, 0, shadow.shape, strides, shadow.dtype))

    def _buffer(self, nbytes: int, time: int) -> int:
        root = self._root(Kind.BUFFER, 0, nbytes, time)
        self._busy[root] = self._roots[root].end = time
        return root

    # Choosing memory for results

    def _choose(
        self, unit: Unit, form: Form, index: int, slots: Sequence[int], taken: set[int]
    ) -> int:
        """Return the root that a result is put into; other results have taken some."""
        result, time = unit.results[index], unit.time
        wanted = self._wanted.get(result)
        wanted = None if wanted in taken else wanted
        candidates = [
            self._layouts[slots[operand]].root
            for operand, which in form.in_place
            if which == index
            and self._layouts[slots[operand]].root not in taken
            and self._can_overwrite(unit, operand, index, slots)
        ]
        if wanted is not None and (self._busy[wanted] < time or wanted in candidates):
            return wanted
        for root in candidates:
            if self._roots[root].kind is Kind.BUFFER:
                return root
        return self._buffer(self._nbytes(result), time)

    def _can_overwrite(self, unit: Unit, operand: int, index: int, slots: Sequence[int]) -> bool:
        """Return whether a result may take the memory of an operand."""
        stem = self._lives.stems[unit.operands[operand]]
        root = self._layouts[slots[operand]].root
        mine = self._lives.stems[unit.results[index]].shadow
        return (
            stem.is_whole
            and stem.shadow.shape == mine.shape
            and stem.shadow.dtype.itemsize == mine.dtype.itemsize
            and self._busy[root] <= unit.time
            and self._roots[root].nbytes == mine.nbytes
            and self._shares_nothing(root, slots, slots[operand])
        )

    def _shares_nothing(self, root: int, slots: Sequence[int], same: int) -> bool:
        """Return whether no operand but the same one lies in a root."""
        return all(s == same or self._memory_of(self._layouts[s].root) != root for s in slots)

    def _memory_of(self, root: int) -> int:
        """Return the root that has the memory of a window."""
        while self._roots[root].kind is Kind.WINDOW:
            root = self._roots[root].index
        return root

    # Steps

    def _block(self, units: Units) -> list[Step]:
        self._want(units)
        steps: list[Step] = []
        for unit in units.units:
            if unit in self._lives.is_view:
                continue
            if unit.op.name == "stablehlo.while" and unit.blocks:
                steps += self._while(unit)
            elif unit.blocks:
                steps.append(self._branches(unit))
            elif unit.results and unit.results[0] in self._lives.windows:
                steps.append(self._window(unit))
            else:
                steps += self._plain(unit)
        return steps

    def _want(self, units: Units) -> None:
        """Tell what a loop starts from, and what is updated, where its result is wanted."""
        for unit in reversed(units.units):
            if unit.op.name == "stablehlo.dynamic_update_slice":
                pairs = [(unit.operands[0], unit.results[0])]
            elif unit.op.name == "stablehlo.while" and unit.blocks:
                pairs = list(zip(unit.operands, unit.results, strict=True))
            else:
                continue
            for source, result in pairs:
                stem, wanted = self._lives.stems[source], self._wanted.get(result)
                is_near = self._lives.home.get(stem.owner) is units
                if wanted is not None and stem.is_whole and is_near:
                    self._wanted.setdefault(stem.owner, wanted)

    def _form(self, unit: Unit) -> Form:
        if unit.form is not None:
            return unit.form
        if unit.op.name in COLLECTIVES:
            return collective_form(unit.op) or Fallback()
        make = PLANS.get(unit.op.name)
        if make is not None:
            operands = tuple(self._lives.stems[v].shadow for v in unit.operands)
            try:
                return make(Context(unit.op, operands)) or Fallback()
            except (EvaluationError, Invalid):
                return Fallback()  # The reference says what is wrong, if the operation runs.
        return Fallback()

    def _plain(self, unit: Unit) -> list[Step]:
        form = self._form(unit)
        operands = tuple(self._slot(v) for v in unit.operands)
        before: list[Step] = []
        if form.contiguous:
            operands, before = self._contiguous(unit, operands)
        results, taken = [], set[int]()
        for index, result in enumerate(unit.results):
            root = self._choose(unit, form, index, operands, taken)
            taken.add(root)
            self._put(result, root)
            results.append(self._slot(result))
        scratch = -1
        if form.scratch:
            root = self._buffer(form.scratch, unit.time)
            strides = (1,)
            dtype = np.dtype(np.uint8)
            scratch = self._slot_of(Layout(root, 0, (form.scratch,), strides, dtype))
        step = Step(self._numbers[unit.op], form, operands, tuple(results), scratch)
        return [*before, step]

    def _contiguous(self, unit: Unit, slots: tuple[int, ...]) -> tuple[tuple[int, ...], list[Step]]:
        """Return slots of C-contiguous operands, and the copies that make them so."""
        found, moved = [], []
        for slot, value in zip(slots, unit.operands, strict=True):
            if is_contiguous(self._lives.stems[value].shadow):
                found.append(slot)
                continue
            shadow = self._lives.stems[value].shadow
            spare = self._whole_slot(value, self._buffer(shadow.nbytes, unit.time))
            moved.append((slot, spare))
            found.append(spare)
        return tuple(found), self._copies(unit.op, moved, unit.time)

    def _window(self, unit: Unit) -> Step:
        source, result = unit.operands[0], unit.results[0]
        seen = self._lives.stems[source].shadow
        parent = self._layouts[self._slot(source)].root
        root = self._root(Kind.WINDOW, parent, 0)
        self._put(result, root)
        slot = self._slot(result)
        shape = self._lives.stems[result].shadow.shape
        room = tuple(full - size for full, size in zip(seen.shape, shape, strict=True))
        form = Window(parent, offset_of(seen), seen.strides, room)
        starts = tuple(self._slot(v) for v in unit.operands[1:])
        return Step(self._numbers[unit.op], form, starts, (slot,), window=root)

    def _branches(self, unit: Unit) -> Step:
        roots = []
        for result in unit.results:
            wanted = self._wanted.get(result)
            if wanted is not None and self._busy[wanted] < unit.time and wanted not in roots:
                root = wanted
            else:
                root = self._buffer(self._nbytes(result), unit.time)
            self._busy[root] = 0
            roots.append(root)
        blocks = []
        for inner in unit.blocks:
            for value, root in zip(inner.returned, roots, strict=True):
                self._wish(value, inner, root)
            steps = self._block(inner)
            places = [self._whole_slot(v, r) for v, r in zip(inner.returned, roots, strict=True)]
            steps += self._returns(inner, places)
            blocks.append(tuple(steps))
            for root in roots:
                self._busy[root] = 0
        for result, root in zip(unit.results, roots, strict=True):
            self._put(result, root)
            self._roots[root].end = max(self._roots[root].end, unit.end)
        chosen = (self._slot(unit.operands[0]),)
        return Step(self._numbers[unit.op], Choice(), chosen, (), blocks=tuple(blocks))

    def _wish(self, value: Value, units: Units, root: int) -> None:
        """Want what a block returns to be made where it is returned."""
        stem = self._lives.stems[value]
        if stem.is_whole and self._lives.home.get(stem.owner) is units:
            self._wanted.setdefault(stem.owner, root)

    def _while(self, unit: Unit) -> list[Step]:
        carried = [i for i in range(len(unit.results)) if not is_invariant(unit, i)]
        roots: dict[int, int] = {}
        copied: list[tuple[int, int]] = []
        starts = [self._slot(unit.operands[i]) for i in carried]
        for i, slot in zip(carried, starts, strict=True):
            root = self._carry_root(unit, i, slot, set(roots.values()))
            roots[i] = root
            target = self._whole_slot(unit.results[i], root)
            if target != slot:
                copied.append((slot, target))
        condition, body = unit.blocks
        for i, root in roots.items():
            self._place[condition.block.arguments[i]] = root
            self._place[body.block.arguments[i]] = root
            # The condition must leave them to the body.
            self._busy[root] = _FOREVER
        tests = self._block(condition)
        flag = self._slot(condition.returned[0])
        for i, root in roots.items():
            self._put(body.block.arguments[i], root)
            self._wish(body.returned[i], body, root)
        steps = self._block(body)
        places = [self._whole_slot(unit.results[i], roots[i]) for i in carried]
        steps += self._returns(body, places, [body.returned[i] for i in carried])
        for i, root in roots.items():
            self._put(unit.results[i], root)
            self._busy[root] = max(self._busy[root], unit.end)
            self._roots[root].end = max(self._roots[root].end, self._busy[root])
        found = self._copies(unit.op, copied, unit.time)
        blocks = (tuple(tests), tuple(steps))
        return [*found, Step(self._numbers[unit.op], WhileForm(flag), (), (), blocks=blocks)]

    def _carry_root(self, unit: Unit, index: int, slot: int, taken: set[int]) -> int:
        """Return the root of what a loop carries: where it is wanted, or where it starts."""
        result = unit.results[index]
        wanted = self._wanted.get(result)
        source = self._layouts[slot].root
        stem = self._lives.stems[unit.operands[index]]
        starts = [self._layouts[self._slot(v)].root for v in unit.operands]
        is_alone = sum(self._memory_of(r) == source for r in starts) == 1
        can_start = (
            stem.is_whole
            and is_alone
            and self._busy[source] <= unit.time
            and self._roots[source].nbytes == self._nbytes(result)
            and source not in taken
        )
        if can_start and (source == wanted or self._roots[source].kind is Kind.BUFFER):
            return source
        if wanted is not None and self._busy[wanted] < unit.time and wanted not in taken:
            self._busy[wanted] = unit.end
            return wanted
        return self._buffer(self._nbytes(result), unit.time)

    # Values that blocks return

    def _returns(
        self, units: Units, places: Sequence[int], values: Sequence[Value] | None = None
    ) -> list[Step]:
        """Return the copies that bring what a block returns to its places."""
        returned = units.returned if values is None else values
        sources = [self._slot(v) for v in returned]
        moved = [(s, p) for s, p in zip(sources, places, strict=True) if s != p]
        return self._copies(units.block.terminator, moved, units.end)

    def _copies(self, op: Operation, moved: Sequence[tuple[int, int]], time: int) -> list[Step]:
        """Return copies that happen at once: sources that are targets too are saved before."""
        if not moved:
            return []
        written = {self._layouts[target].root for _, target in moved}
        saved, direct = [], []
        for source, target in moved:
            if self._memory_of(self._layouts[source].root) in written:
                like = self._layouts[target]
                root = self._buffer(self._roots[like.root].nbytes, time)
                spare = self._slot_of(Layout(root, 0, like.shape, like.strides, like.dtype))
                saved.append((source, spare))
                direct.append((spare, target))
            else:
                direct.append((source, target))
        steps = []
        for pairs in (saved, direct):
            if pairs:
                sources, targets = zip(*pairs, strict=True)
                steps.append(Step(self._numbers[op], Copies(), tuple(sources), tuple(targets)))
        return steps
