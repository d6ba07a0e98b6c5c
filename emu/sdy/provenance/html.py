"""Explanations as an HTML page: the values with their shardings, step by step, and why.

The page is one file that works without a network. Its data is a table of strings and of
shardings, to which values and steps refer by number, so that thousands of values stay small;
the paths of axes are links between steps, which the page follows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, Mesh, TensorSharding
from emu.sdy.dialect.axes import pre_size
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.dialect.text import factor_symbol
from emu.sdy.propagation.events import StepEvent
from emu.sdy.provenance.history import Gain, Recorder, ShardingOwner, cause_of
from emu.sdy.provenance.names import given_name, place_of
from emu.sdy.provenance.report import ValueReport, owner_text, rejection_text

_DATA = "/*DATA*/null"
"""The expression in ``page.html`` that the page's data replaces."""
_CONSTANTS = {"stablehlo.constant", "sdy.constant", "stablehlo.iota"}


class CostData(Protocol):
    """What the page shows of a predicted cost: ``emu.sdy.Cost`` is one."""

    def to_data(self) -> dict[str, Any]:
        """Return the cost as dicts and lists."""


def to_html(
    reports: Sequence[ValueReport],
    recorder: Recorder,
    module: Operation,
    cost: CostData | str | None = None,
) -> str:
    """Return a self-contained HTML page.

    Args:
        reports: Reports of the values to show.
        recorder: The recorded steps.
        module: The module before propagation, where the meshes are defined.
        cost: The predicted cost, or why there is none. Default: the page has no such part.
    """
    page = _Page(reports, recorder, module)
    data = {
        "values": [page.value(report) for report in reports],
        "steps": page.steps(),
        "nodes": page.nodes,
        "shardings": page.shardings,
        "meshes": page.meshes,
        "strings": list(page.strings),
        "cost": cost if cost is None or isinstance(cost, str) else cost.to_data(),
    }
    # "</script>" in a string of the module must not end the page's script.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _template().replace(_DATA, text)


@cache
def _template() -> str:
    return files("emu.sdy.provenance").joinpath("page.html").read_text("utf-8")


class _Page:
    """Tables of the page's data.

    Attributes:
        strings: Numbers of texts.
        shardings: Shardings; the first is null, for values without one.
        meshes: Meshes that the shardings refer to.
        nodes: Steps of paths: ``[owner, number of value or -1, dim, step or 0, cause, place, factor,
            node before it or -1]``, texts as numbers.
    """

    def __init__(
        self, reports: Sequence[ValueReport], recorder: Recorder, module: Operation
    ) -> None:
        self.strings: dict[str, int] = {}
        self.shardings: list[dict[str, Any] | None] = [None]
        self.meshes: list[dict[str, Any]] = []
        self.nodes: list[list[int]] = []
        self._recorder = recorder
        self._module = module
        self._sharding_numbers: dict[TensorSharding | None, int] = {None: 0}
        self._mesh_numbers: dict[Mesh, int] = {}
        self._node_numbers: dict[tuple[int, AxisRef], int] = {}
        self._numbers: dict[ShardingOwner, list[int]] = {}
        for number, report in enumerate(reports):
            self._numbers.setdefault(recorder.owner(report.value), []).append(number)
        self._reports = reports

    def text(self, text: str) -> int:
        """Return the number of a text."""
        return self.strings.setdefault(text, len(self.strings))

    # Values

    def value(self, report: ValueReport) -> dict[str, Any]:
        """Return the data of a value."""
        owner = self._recorder.owner(report.value)
        last = len(self._recorder.steps) + 1
        axes = [
            [dim, self.text(axis.stripped_text()), self._node(owner, dim, axis, last)]
            for dim, sharding in enumerate(report.after.dims if report.after is not None else ())
            for axis in sharding.axes
        ]
        return {
            "name": report.name.name,
            "function": self.text(report.name.function),
            "operation": self.text(report.operation),
            "label": self.text(given_name(report.value)),
            "type": self.text(str(report.type)),
            "shape": list(report.type.shape) if isinstance(report.type, TensorType) else [],
            "place": self.text(report.place),
            "constant": int(report.operation in _CONSTANTS),
            "before": self._sharding(report.before),
            "after": self._sharding(report.after),
            "axes": axes,
            "refused": [self.text(rejection_text(each)) for each in report.rejections],
        }

    def _node(self, owner: ShardingOwner, dim: int, axis: AxisRef, before: int) -> int:
        """Return the number of the last step of a path; steps before it get numbers too."""
        found: list[tuple[ShardingOwner, int, Gain | None]] = []
        following: ShardingOwner | None = owner
        parent = -1
        # Backwards to what is known already, or to the origin; the numbers of gains fall.
        while following is not None:
            gain = self._recorder.last_gain(following, dim, axis, before)
            known = self._node_numbers.get((id(gain), axis)) if gain is not None else None
            if known is not None:
                parent = known
                break
            found.append((following, dim, gain))
            if gain is None:
                break
            following, before = gain.source, gain.step
            dim = dim if gain.source_dim is None else gain.source_dim
        for place, at, gain in reversed(found):
            parent = self._add_node(place, at, gain, parent)
            if gain is not None:
                self._node_numbers[id(gain), axis] = parent
        return parent

    def _add_node(self, owner: ShardingOwner, dim: int, gain: Gain | None, parent: int) -> int:
        number = self._numbers.get(owner, [-1])[0]
        name = self.text(owner_text(owner))
        if gain is None:
            cause = self.text(self._recorder.origin(owner))
            node = [name, number, dim, 0, cause, self.text(""), self.text(""), parent]
        else:
            event = self._recorder.steps[gain.step - 1]
            place = place_of(event.op.location) if isinstance(event, StepEvent) else ""
            factor = "" if gain.factor is None else factor_symbol(gain.factor)
            texts = (cause_of(event), place, factor)
            node = [name, number, gain.dim, gain.step, *map(self.text, texts), parent]
        self.nodes.append(node)
        return len(self.nodes) - 1

    # Steps

    def steps(self) -> list[dict[str, Any]]:
        """Return all steps, with what they change of the reported values."""
        now: dict[ShardingOwner, TensorSharding | None] = {}
        for report in self._reports:
            now.setdefault(self._recorder.owner(report.value), report.before)
        found = []
        for event in self._recorder.steps:
            after = event.after if isinstance(event, StepEvent) else (event.sharding,)
            changes = []
            for owner, sharding in zip(self._recorder.tensor_owners(event), after, strict=True):
                if owner in now and now[owner] != sharding:
                    now[owner] = sharding
                    drawn = self._sharding(sharding)
                    changes += [[each, drawn] for each in self._numbers[owner]]
            step: dict[str, Any] = {"what": self.text(cause_of(event)), "changes": changes}
            if isinstance(event, StepEvent):
                step |= {"place": self.text(place_of(event.op.location)), "round": event.round}
            found.append(step)
        return found

    # Shardings

    def _sharding(self, sharding: TensorSharding | None) -> int:
        number = self._sharding_numbers.get(sharding)
        if number is not None or sharding is None:
            return number or 0
        mesh = find_mesh(self._module, sharding.mesh)
        if mesh is None:  # a module that propagation refused
            return 0
        self._sharding_numbers[sharding] = len(self.shardings)
        self.shardings.append(
            {
                "text": sharding.stripped_text(),
                "short": f"[{', '.join(dim.stripped_text() for dim in sharding.dims)}]",
                "mesh": self._mesh(mesh),
                "dims": [_digits(dim, mesh) for dim in sharding.dims],
            }
        )
        return self._sharding_numbers[sharding]

    def _mesh(self, mesh: Mesh) -> int:
        if mesh not in self._mesh_numbers:
            self._mesh_numbers[mesh] = len(self.meshes)
            axes = [[axis.name, axis.size] for axis in mesh.axes]
            self.meshes.append(
                {"axes": axes, "devices": mesh.total_size, "ids": list(mesh.device_ids)}
            )
        return self._mesh_numbers[mesh]


def _digits(dim: DimensionSharding, mesh: Mesh) -> list[list[Any]]:
    """Return the digits that select the shard of a dimension.

    Each is ``[axis, stride, size]``: the digit ``device // stride % size``, where ``device`` is the
    device's position in the mesh.
    """
    digits = []
    for axis in dim.axes:
        index = mesh.axis_index(axis.name)
        behind = math.prod(a.size for a in mesh.axes[index + 1 :])
        size = axis.size(mesh)
        # A sub-axis is a digit of the axis: ``inside`` values of it are minor to that digit.
        inside = mesh.axes[index].size // (pre_size(axis) * size)
        digits.append([axis.stripped_text().replace('"', ""), behind * inside, size])
    return digits
