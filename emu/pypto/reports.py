"""Report of the ops that are pending on a PE whose program hangs."""

from __future__ import annotations

from emu.pypto.node import Node

MAX_WAITS = 3
MAX_QUEUED = 6
MAX_CLUES = 4


def pending_lines(blocked: list[Node], others: list[Node]) -> list[str]:
    """Describe pending ops: waits with what was found in place of their signals, then what they hold up.

    Args:
        blocked: Waits that have not matched.
        others: All other pending nodes.
    """
    lines = []
    for node in blocked[:MAX_WAITS]:
        if node.wait is not None:
            first, *clues = node.wait.explain()
            lines += [f"{node.title}: {first}", *(f"  {clue}" for clue in clues[:MAX_CLUES])]
    if len(blocked) > MAX_WAITS:
        lines.append(f"… and {len(blocked) - MAX_WAITS} waits more")
    return lines + _queued_lines(others, _holders(blocked))


def _holders(blocked: list[Node]) -> dict[Node, list[int]]:
    """Return, for each node that waits for a blocked one, the numbers of those that hold it up."""
    holders: dict[Node, list[int]] = {}
    for wait in blocked:
        found, open_nodes = {wait}, [wait]
        while open_nodes:
            for node in open_nodes.pop().dependents:
                if node not in found:
                    found.add(node)
                    open_nodes.append(node)
                    holders.setdefault(node, []).append(wait.seq)
    return holders


def _behind(numbers: list[int]) -> str:
    if not numbers:
        return ""
    if len(numbers) > 4:
        shown = f"{', '.join(map(str, numbers[:3]))} and {len(numbers) - 3} more"
    else:
        shown = " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))
    return f", behind op{'s' * (len(numbers) > 1)} {shown}"


def _done(node: Node) -> str:
    """Say how much of an op is done, if some of its pieces are."""
    pieces = node.pieces
    # It waits for nothing but its pieces.
    if pieces is None or node.missing == pieces.count:
        return ""
    return f" ({pieces.count - node.missing} of {pieces.count} pieces done)"


def _queued_lines(nodes: list[Node], holders: dict[Node, list[int]]) -> list[str]:
    """Describe ops that have not started, each with the waits that hold it up.

    Communication is described op by op, the others by name or count.
    """
    if not nodes:
        return []
    described = [node for node in nodes if node.detail is not None]
    count = sum(1 + len(node.more) for node in nodes)
    lines = [f"not started: {count} op{'s' * (count > 1)} behind what is waited for"]
    for node in described[:MAX_QUEUED]:
        assert node.detail is not None
        behind = _behind(holders.get(node, []))
        lines.append(f"  {node.title}: {node.detail()}{_done(node)}{behind}")
    if len(described) > MAX_QUEUED:
        lines.append(f"  … and {len(described) - MAX_QUEUED} more that communicate")
    groups: dict[tuple[int, ...], list[str]] = {}
    for node in nodes:
        if node.detail is None:
            groups.setdefault(tuple(holders.get(node, ())), []).extend(node.titles)
    for numbers, rest in list(groups.items())[:MAX_WAITS]:
        more = f" and {len(rest) - 4} more" if len(rest) > 4 else ""
        lines.append(f"  {', '.join(rest[:4])}{more}{_behind(list(numbers))}")
    left = sum(len(rest) for rest in list(groups.values())[MAX_WAITS:])
    if left:
        lines.append(f"  … and {left} more that compute")
    return lines
