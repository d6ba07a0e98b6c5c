"""Trees of profiles: scopes within scopes, each with its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COUNT = "count"
TIME = "time (ns)"


@dataclass
class Node:
    """A scope or kernel, below those that it ran in.

    Attributes:
        name: Its name.
        metrics: Numbers by name; those of several runs are added up.
        children: Scopes and kernels in it, by name.
    """

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)

    def child(self, name: str) -> Node:
        """Return the scope of a name in this one; make it if there is none."""
        return self.children.setdefault(name, Node(name))

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add numbers to the metrics."""
        for name, number in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + number

    def to_json(self) -> dict[str, Any]:
        """Return the tree in Hatchet's format."""
        return {
            "frame": {"name": self.name, "type": "function"},
            "metrics": self.metrics,
            "children": [child.to_json() for child in self.children.values()],
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Node:
        """Return the tree of which :meth:`to_json` gave the form."""
        children = [cls.from_json(child) for child in told["children"]]
        return cls(told["frame"]["name"], dict(told["metrics"]), {c.name: c for c in children})
