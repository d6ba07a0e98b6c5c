"""Explanations as a page: the module with its shardings, drawn and steppable."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import DimensionSharding, Mesh, TensorSharding
from emu.sdy.dialect.axes import pre_size
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.propagation.events import StepEvent
from emu.sdy.provenance.history import Holder, what
from emu.sdy.provenance.names import place_of
from emu.sdy.provenance.page import PAGE
from emu.sdy.provenance.text import value_text

if TYPE_CHECKING:
    from emu.mlir.ir import Operation
    from emu.sdy.provenance.explanation import Explanation, ValueReport

__all__ = ["page"]

_PLACES = 12
"""Of a way that are told: those before are told of the value that comes first."""


def page(explanation: Explanation) -> str:
    """An HTML page that needs nothing else."""
    data = {
        "values": [_value(report, explanation.original) for report in explanation],
        "steps": _steps(explanation),
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return PAGE.replace("/*DATA*/null", text)


def _value(report: ValueReport, scope: Operation) -> dict[str, Any]:
    return {
        "name": report.name.name,
        "function": report.name.function,
        "operation": report.operation,
        "type": str(report.type),
        "shape": list(report.type.shape) if isinstance(report.type, TensorType) else [],
        "place": report.place,
        "before": _sharding(report.before, scope),
        "after": _sharding(report.after, scope),
        "refused": len(report.rejections),
        "why": value_text(report, _PLACES),
    }


def _steps(explanation: Explanation) -> list[dict[str, Any]]:
    """The steps that changed a value of the text, with what they changed."""
    recorder = explanation.recorder
    numbers: dict[Holder, list[int]] = {}
    now: dict[Holder, TensorSharding | None] = {}
    for number, report in enumerate(explanation):
        home = recorder.home(report.value)
        numbers.setdefault(home, []).append(number)
        now.setdefault(home, report.before)
    found = []
    for number, event in enumerate(recorder.steps):
        after = event.after if isinstance(event, StepEvent) else (event.sharding,)
        changes = []
        for holder, sharding in zip(recorder.holders(event), after, strict=True):
            if holder in numbers and now[holder] != sharding:
                now[holder] = sharding
                drawn = _sharding(sharding, explanation.original)
                changes += [[each, drawn] for each in numbers[holder]]
        if changes:
            step: dict[str, Any] = {"n": number, "what": what(event), "place": "", "round": []}
            if isinstance(event, StepEvent):
                step |= {"place": place_of(event.op.location), "round": list(event.round)}
            found.append({**step, "changes": changes})
    return found


def _sharding(sharding: TensorSharding | None, scope: Operation) -> dict[str, Any] | None:
    """What the page draws: for each dimension, how a device's number gives its shard.

    An axis is ``[stride, size]``: the digit ``device // stride % size``, where
    the device is counted by its position in the mesh.
    """
    if sharding is None:
        return None
    mesh = find_mesh(scope, sharding.mesh)
    if mesh is None:  # a module that propagation refused
        return None
    return {
        "text": sharding.stripped_text(),
        "devices": mesh.total_size,
        "ids": list(mesh.device_ids),
        "dims": [_digits(dim, mesh) for dim in sharding.dims],
    }


def _digits(dim: DimensionSharding, mesh: Mesh) -> list[list[int]]:
    digits = []
    for axis in dim.axes:
        index = mesh.axis_index(axis.name)
        behind = math.prod(a.size for a in mesh.axes[index + 1 :])
        size = axis.size(mesh)
        inside = mesh.axes[index].size // (pre_size(axis) * size)
        digits.append([behind * inside, size])
    return digits
