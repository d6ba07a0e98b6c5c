"""Dominance of blocks, and of values over their uses."""

from __future__ import annotations

from emu.mlir.ir import Block, Operation, Region, Value

GRAPH_OPS = frozenset({"builtin.module"})
"""Operations with graph regions: the order of the operations inside has no meaning."""


class Dominance:
    """Dominance in the regions of an operation; trees are made when they are first needed."""

    def __init__(self) -> None:
        self._immediate: dict[Region, dict[Block, Block]] = {}

    def _tree(self, region: Region) -> dict[Block, Block]:
        """Return the immediate dominator of each block that can be reached."""
        tree = self._immediate.get(region)
        if tree is None:
            tree = self._immediate[region] = _dominators(region.blocks[0])
        return tree

    def is_reachable(self, block: Block) -> bool:
        """Return whether a block can be reached from its region's first one."""
        region = block.parent
        return region is None or region.blocks[0] is block or block in self._tree(region)

    def block_dominates(self, upper: Block, lower: Block) -> bool:
        """Return whether every path to ``lower`` (of the same region) goes through ``upper``."""
        region = lower.parent
        if upper is lower or region is None:
            return upper is lower
        tree = self._tree(region)
        if lower not in tree:
            return True  # no path reaches ``lower``
        while lower is not upper:
            above = tree[lower]
            if above is lower:
                return False
            lower = above
        return True

    def value_dominates(self, value: Value, user: Operation) -> bool:
        """Return whether a value is defined wherever an operation runs."""
        block = value.parent_block
        region = block.parent if block is not None else None
        if block is None or region is None:
            return False
        op: Operation | None = user
        while op is not None and (op.parent is None or op.parent.parent is not region):
            op = op.parent_op
        if op is None or op.parent is None:
            return False
        definer = value.defining_op
        if op.parent is block:
            if definer is None or block.parent_op is None:
                return True
            if block.parent_op.name in GRAPH_OPS:
                return definer is not op or op is user
            return definer is not op and definer.is_before(op)
        return self.block_dominates(block, op.parent)


def _successors(block: Block) -> list[Block]:
    return list(block.last.successors) if block.last is not None else []


def _post_order(entry: Block) -> list[Block]:
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, following = stack[-1]
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def _dominators(entry: Block) -> dict[Block, Block]:
    """Compute immediate dominators by Cooper, Harvey and Kennedy's iteration."""
    order = _post_order(entry)
    rank = {block: number for number, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            predecessors[successor].append(block)
    # The entry is its own dominator: that ends the walks up the tree.
    tree = {entry: entry}
    changed = True
    while changed:
        changed = False
        # Predecessors come first, except along back edges, which need another round.
        for block in reversed(order[:-1]):
            known = [p for p in predecessors[block] if p in tree]
            best = known[0]
            for other in known[1:]:
                best = _meet(tree, rank, best, other)
            if tree.get(block) is not best:
                tree[block] = best
                changed = True
    return tree


def _meet(tree: dict[Block, Block], rank: dict[Block, int], a: Block, b: Block) -> Block:
    while a is not b:
        while rank[a] < rank[b]:
            a = tree[a]
        while rank[b] < rank[a]:
            b = tree[b]
    return a
