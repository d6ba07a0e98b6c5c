"""Control flow: blocks that run as planned steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emu.stablehlo.compiled.forms import Action, Form, Site


@dataclass(frozen=True)
class While(Form):
    """A loop: its steps are those of the condition and of the body.

    Attributes:
        condition: Slot of what the condition returns.
    """

    condition: int

    def bind(self, site: Site) -> Action:
        """Return what runs the loop."""
        test, body = site.blocks
        env, slot = site.memory.env, self.condition

        def run() -> None:
            test()
            while env[slot]:
                body()
                test()

        return run


@dataclass(frozen=True)
class Choice(Form):
    """``case`` and ``if``: one of the blocks runs."""

    def bind(self, site: Site) -> Action:
        """Return what runs a block."""
        env, slot, blocks = site.memory.env, site.step.operands[0], site.blocks
        last = len(blocks) - 1
        if site.op.name == "stablehlo.if":
            return lambda: blocks[0]() if env[slot] else blocks[1]()

        def run() -> None:
            # An index that is out of range, a negative one too, takes the last branch.
            index = int(env[slot])
            blocks[index if 0 <= index <= last else last]()

        return run


@dataclass(frozen=True)
class Copies(Form):
    """Copies of values to where others are expected; no source shares memory with a target."""

    def bind(self, site: Site) -> Action:
        """Return what copies each operand to the result of its number."""
        pairs = zip(site.step.operands, site.step.results, strict=True)
        actions = [site.call(np.copyto, target, source) for source, target in pairs]
        if len(actions) == 1:
            return actions[0]

        def run() -> None:
            for action in actions:
                action()

        return run


@dataclass(frozen=True)
class Window(Form):
    """A dynamic slice, which shows a part of its operand.

    Attributes:
        parent: Root that the operand lies in.
        offset: Where the operand starts in it, in bytes.
        strides: Strides of the operand, in bytes.
        room: How far the slice may move along each dimension.
    """

    parent: int
    offset: int
    strides: tuple[int, ...]
    room: tuple[int, ...]

    def bind(self, site: Site) -> Action:
        """Return what moves the window."""
        env, memory, window, offset = site.memory.env, site.memory, site.step.window, self.offset
        parent = self.parent
        # A dimension in which the slice cannot move needs no index.
        moving = [
            (slot, stride, room)
            for slot, stride, room in zip(site.step.operands, self.strides, self.room, strict=True)
            if room > 0
        ]

        def run() -> None:
            place = offset
            for slot, stride, room in moving:
                place += min(max(int(env[slot]), 0), room) * stride
            memory.place_window(window, parent, place)

        return run
