"""What a planned program does, in order: operations and fused groups of them, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from emu.mlir.ir import Block, Operation, Value
from emu.stablehlo.compiled.forms import Form
from emu.stablehlo.compiled.fused import Fused
from emu.stablehlo.compiled.fusion import Group, compile_group, find_groups
from emu.stablehlo.regions import captured

CONTROL = {"stablehlo.while", "stablehlo.if", "stablehlo.case"}
"""Operations whose blocks are planned."""


@dataclass(eq=False)
class Unit:
    """An operation, or a group of them that one form computes.

    Attributes:
        op: The operation; of a group, the one that stands for it in messages.
        operands: Values that it reads.
        results: Values that it makes.
        time: When it runs.
        end: When it is done: behind all that its blocks hold.
        blocks: Its planned blocks.
        form: What it does, if that is known already.
    """

    op: Operation
    operands: list[Value]
    results: list[Value]
    time: int = 0
    end: int = 0
    blocks: list[Units] = field(default_factory=list)
    form: Form | None = None


@dataclass(eq=False)
class Units:
    """A block that is planned.

    Attributes:
        block: The block.
        units: What it does, in order.
        parent: The block around it; None for a function's.
        holder: What runs it; None for a function's.
        end: Time of its terminator.
    """

    block: Block
    units: list[Unit]
    parent: Units | None = None
    holder: Unit | None = None
    end: int = 0

    @property
    def returned(self) -> Sequence[Value]:
        """Values that its terminator returns."""
        return self.block.terminator.operands


def units_of(block: Block, parent: Units | None = None, holder: Unit | None = None) -> Units:
    """Return what a block does, and what the blocks within it do."""
    found = Units(block, [], parent, holder)
    for op in find_groups(block):
        if isinstance(op, Group):
            found.units.append(_fused(op))
            continue
        inner = captured(op) if op.regions and not is_planned(op) else []
        unit = Unit(op, [*op.operands, *inner], list(op.results))
        if is_planned(op):
            unit.blocks = [units_of(r.blocks[0], found, unit) for r in op.regions]
        found.units.append(unit)
    return found


def _fused(group: Group) -> Unit:
    """Return the unit of a group."""
    kernel = compile_group(group)
    form = Fused(kernel, in_place=kernel.in_place, contiguous=True)
    return Unit(group.operations[-1], list(group.inputs), list(group.outputs), form=form)


def is_planned(op: Operation) -> bool:
    """Return whether an operation's blocks are planned."""
    return op.name in CONTROL and all(len(region.blocks) == 1 for region in op.regions)


def number(units: Units, start: int = 1) -> int:
    """Set all times; return the time behind them."""
    time = start
    for unit in units.units:
        unit.time = time
        time += 1
        for inner in unit.blocks:
            time = number(inner, time)
        unit.end = time
        time += 1
    units.end = time
    return time + 1


def walk(units: Units) -> Iterator[tuple[Units, Unit]]:
    """Iterate over all units with their blocks, each before those that it holds."""
    for unit in units.units:
        yield units, unit
        for inner in unit.blocks:
            yield from walk(inner)


def walk_blocks(units: Units) -> Iterator[Units]:
    """Iterate over all planned blocks, outer before inner."""
    yield units
    for unit in units.units:
        for inner in unit.blocks:
            yield from walk_blocks(inner)
