"""Pending nodes of several local ops."""

from __future__ import annotations

from emu.pypto.node import Node, find_origin
from emu.pypto.operation import LocalOp


class Gathering:
    """A pending node that local ops may join.

    Attributes:
        node: The node.
    """

    __slots__ = ("_deps", "_ops", "node")

    def __init__(self, node: Node, ops: list[LocalOp], deps: set[Node]) -> None:
        self.node = node
        self._ops = ops
        self._deps = deps

    def takes(self, deps: set[Node]) -> bool:
        """Return whether an op with these dependencies, none of them complete, is held up by no more if it joins."""
        if self.node.done:
            return False
        needed = {node for node in self._deps if not node.done}
        return deps == needed or (self.node in deps and deps - {self.node} <= needed)

    def add(self, op: LocalOp, seq: int) -> None:
        """Let an op join."""
        self._ops.append(op)
        self.node.more.append((seq, op[0].name, find_origin()))
