"""Explanations as text, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.printing import stripped
from emu.sdy.explain.names import name_of, place_of
from emu.sdy.mlir.types import TensorType
from emu.sdy.rules.names import factor_symbol

if TYPE_CHECKING:
    from emu.sdy.explain.explanation import Explanation, ValueReport
    from emu.sdy.explain.history import Link, Rejection
    from emu.sdy.mlir.ir import Value

__all__ = ["explanation_text", "value_text"]


def explanation_text(explanation: Explanation) -> str:
    """A line for each value, and how many steps there were."""
    rows = []
    for report in explanation:
        refused = len(report.rejections)
        rows.append(
            (
                str(report.name),
                report.operation,
                _sharding(report.after),
                f"{refused} not taken" if refused else "",
            )
        )
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    ]
    steps = len(explanation.recorder.steps)
    return "\n".join([*lines, f"{len(rows)} values, {steps} steps"]) + "\n"


def value_text(report: ValueReport) -> str:
    """All about one value."""
    place = f", {report.place}" if report.place else ""
    lines = [
        f"{report.name} : {report.type}   ({report.operation}{place})",
        f"  before  {_sharding(report.before)}",
        f"  after   {_sharding(report.after)}",
    ]
    if report.exported is not None and _axes(report.exported) != _axes(report.after):
        lines.append(f"  export  {_sharding(report.exported)}")
    for dim, axes in enumerate(report.axes):
        size = report.type.shape[dim] if isinstance(report.type, TensorType) else "?"
        if not axes:
            lines.append(f"  dim {dim} (size {size}): not sharded")
        for axis, way in axes:
            lines.append(f"  dim {dim} (size {size}): {stripped(axis)}")
            lines += [f"      {_link(link)}" for link in way]
    if report.rejections:
        lines.append("  not taken:")
        lines += [f"      {_rejection(r)}" for r in report.rejections]
    return "\n".join(lines) + "\n"


def _axes(sharding: TensorSharding | None) -> list[tuple[object, ...]]:
    return [dim.axes for dim in sharding.dims] if sharding is not None else []


def _sharding(sharding: TensorSharding | None) -> str:
    return "none" if sharding is None else stripped(sharding)


def _link(link: Link) -> str:
    here = f"{_value(link.value)} dim {link.dim}"
    if link.step is None:
        return f"from {here}: {link.cause}"
    factor = f", factor {factor_symbol(link.factor)}" if link.factor is not None else ""
    place = place_of(link.op.location) if link.op is not None else ""
    where = f", {place}" if place else ""
    return f"-> {here}: {link.cause}{factor}{where} [step {link.step}]"


def _rejection(rejection: Rejection) -> str:
    cut = rejection.cut
    text = (
        f"{stripped(rejection.axis)} on dim {rejection.dim} at {rejection.op.name}, "
        f"factor {factor_symbol(cut.factor)}: {cut.reason.value}"
    )
    if rejection.other is not None:
        factor = "" if cut.other_factor is None else f", factor {factor_symbol(cut.other_factor)}"
        text += f" ({_value(rejection.other)}{factor})"
    place = place_of(rejection.op.location)
    return f"{text}, {place}" if place else text


def _value(value: Value) -> str:
    name = name_of(value)
    return "a value that passes made" if name is None else str(name)
