"""Reading profiles: ``triton.profiler.viewer``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from emu.triton.profiler.tree import COUNT, TIME, Node

_PER_SECOND = {"time/s": 1e9, "time/ms": 1e6, "time/us": 1e3, "time/ns": 1.0, "avg_time/s": 1e9}
_PER_SECOND |= {"avg_time/ms": 1e6, "avg_time/us": 1e3, "avg_time/ns": 1.0}
_RATE = re.compile(r"(?P<scale>[tg]?)(?P<kind>flop|byte)(?P<width>[0-9]*)/s")
_SCALES = {"t": 1e12, "g": 1e9, "": 1.0}


def read(path: str) -> Node:
    """Return the tree of a file that ``finalize`` wrote.

    Raises:
        ValueError: The file is not a profile.
    """
    try:
        with open(path) as file:
            return Node.from_json(json.load(file)[0])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{path} must be a profile in Hatchet's format: {error!r}") from None


def total(node: Node, metric: str) -> float:
    """Return a metric of a scope and of all in it."""
    return node.metrics.get(metric, 0) + sum(total(c, metric) for c in node.children.values())


def value(node: Node, metric: str) -> float | None:
    """Return a metric of a scope: a name in the file, ``time/ms`` and the like, or a rate such as ``tflop/s``.

    A rate is what the scope's metrics count by its time: ``tflop/s`` of ``flops``, ``flops8``, ``flops16`` and so on,
    ``tflop16/s`` of ``flops16`` alone, ``gbyte/s`` of ``bytes``; None if it has none.
    """
    spent = total(node, TIME)
    if metric in _PER_SECOND:
        runs = total(node, COUNT) if metric.startswith("avg_") else 1
        return spent / _PER_SECOND[metric] / runs if runs else None
    rate = _RATE.fullmatch(metric)
    if rate is not None:
        kind = f"{rate['kind']}s{rate['width']}"
        names = (name for name in _counted(node) if name.startswith(kind))
        done = sum(total(node, name) for name in names if name == kind or not rate["width"])
        return done / _SCALES[rate["scale"]] / (spent / 1e9) if spent and done else None
    return node.metrics.get(metric)


def _counted(node: Node) -> set[str]:
    return set(node.metrics).union(*(_counted(child) for child in node.children.values()))


def parse(metrics: Sequence[str], filename: str, *_: Any, **__: Any) -> tuple[Node, list[str]]:
    """Return the tree of a file, and the metrics to show."""
    return read(filename), list(metrics)


def text(node: Node, metrics: Sequence[str], depth: int = 0) -> str:
    """Return a tree as lines, each a scope with its metrics."""
    found = [value(node, metric) for metric in metrics]
    shown = " ".join("-" if number is None else f"{number:.3f}" for number in found)
    lines = [f"{'  ' * depth}{shown} {node.name}"]
    lines += [text(child, metrics, depth + 1) for child in node.children.values()]
    return "\n".join(lines)


def print_tree(tree: Node, metrics: Sequence[str], *_: Any, **__: Any) -> None:
    """Print a tree with its metrics.

    Args:
        tree: What :func:`parse` returned.
        metrics: Names of metrics, such as ``time/ms``, ``tflop/s``, ``count``.
    """
    print(" ".join(metrics))  # noqa: T201 - it is there to print
    print(text(tree, metrics))  # noqa: T201 - it is there to print
