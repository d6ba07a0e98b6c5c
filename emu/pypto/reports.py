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
    return lines + _queued_lines(others)


def _queued_lines(nodes: list[Node]) -> list[str]:
    """Describe ops that have not started: communication one by one, the others by name or count."""
    if not nodes:
        return []
    described = [node for node in nodes if node.detail is not None]
    count = sum(1 + len(node.more) for node in nodes)
    lines = [f"not started: {count} op{'s' * (count > 1)} behind what is waited for"]
    for node in described[:MAX_QUEUED]:
        assert node.detail is not None
        lines.append(f"  {node.title}: {node.detail()}")
    rest = [title for node in nodes if node.detail is None for title in node.titles]
    if len(described) > MAX_QUEUED:
        lines.append(f"  … and {len(described) - MAX_QUEUED} more that communicate")
    if rest:
        names = ", ".join(rest[:4])
        more = f" and {len(rest) - 4} more" if len(rest) > 4 else ""
        lines.append(f"  {names}{more}")
    return lines
