"""Explanations as an HTML page: the module with its shardings, drawn step by step."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import DimensionSharding, Mesh, TensorSharding
from emu.sdy.dialect.axes import pre_size
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.propagation.events import StepEvent
from emu.sdy.provenance.history import Recorder, ShardingOwner, cause_of
from emu.sdy.provenance.names import place_of
from emu.sdy.provenance.report import ValueReport

_PATH_STEPS = 12
"""Number of steps shown per path; earlier ones are elided."""

_DATA = "/*DATA*/null"
"""The expression in ``page.html`` that the page's data replaces."""


def to_html(reports: Sequence[ValueReport], recorder: Recorder, module: Operation) -> str:
    """Return a self-contained HTML page.

    Args:
        reports: Reports of the values to show.
        recorder: The recorded steps.
        module: The module before propagation, where the meshes are defined.
    """
    data = {
        "values": [_value(report, module) for report in reports],
        "steps": _steps(reports, recorder, module),
    }
    # "</script>" in a string of the module must not end the page's script.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _template().replace(_DATA, text)


@cache
def _template() -> str:
    return files("emu.sdy.provenance").joinpath("page.html").read_text("utf-8")


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
        "why": report.text(_PATH_STEPS),
    }


def _steps(
    reports: Sequence[ValueReport], recorder: Recorder, module: Operation
) -> list[dict[str, Any]]:
    """Return the steps that changed a reported value, with their changes."""
    numbers: dict[ShardingOwner, list[int]] = {}
    now: dict[ShardingOwner, TensorSharding | None] = {}
    for number, report in enumerate(reports):
        owner = recorder.owner(report.value)
        numbers.setdefault(owner, []).append(number)
        now.setdefault(owner, report.before)
    found = []
    for number, event in enumerate(recorder.steps):
        after = event.after if isinstance(event, StepEvent) else (event.sharding,)
        changes = []
        for owner, sharding in zip(recorder.tensor_owners(event), after, strict=True):
            if owner in numbers and now[owner] != sharding:
                now[owner] = sharding
                drawn = _sharding(sharding, module)
                changes += [[each, drawn] for each in numbers[owner]]
        if changes:
            step: dict[str, Any] = {"n": number, "what": cause_of(event), "place": "", "round": []}
            if isinstance(event, StepEvent):
                step |= {"place": place_of(event.op.location), "round": list(event.round)}
            found.append({**step, "changes": changes})
    return found


def _sharding(sharding: TensorSharding | None, scope: Operation) -> dict[str, Any] | None:
    """Return the page's data of a sharding: per dimension, the digits that select the shard.

    An axis is ``[stride, size]``: the digit ``device // stride % size``, where
    ``device`` is the device's position in the mesh.
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
        # A sub-axis is a digit of the axis: ``inside`` values of it are minor to that digit.
        inside = mesh.axes[index].size // (pre_size(axis) * size)
        digits.append([behind * inside, size])
    return digits
