"""Explanations as text, for the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.text import factor_symbol
from emu.sdy.dialect.walker import FunctionResult
from emu.sdy.provenance.names import name_of, place_of

if TYPE_CHECKING:
    from emu.sdy.provenance.explanation import Explanation, ValueReport
    from emu.sdy.provenance.history import Holder, Link, Rejection
    from emu.sdy.provenance.names import ValueName

__all__ = ["explanation_text", "value_text"]


def explanation_text(explanation: Explanation) -> str:
    """A line for each value, and how many steps there were."""
    found: Counter[tuple[ValueName, str, str, str]] = Counter()
    for report in explanation:
        refused = len(report.rejections)
        told = f"{refused} not taken" if refused else ""
        found[report.name, report.operation, _sharding(report.after), told] += 1
    rows = [((str(name), *told), copies) for (name, *told), copies in found.items()]
    widths = [max((len(row[i]) for row, _ in rows), default=0) for i in range(3)]
    lines = []
    for row, copies in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        many = f"({copies} copies)" if copies > 1 else ""
        lines.append("  ".join([*cells, row[3], many]).rstrip())
    steps = len(explanation.recorder.steps)
    return "\n".join([*lines, f"{len(explanation.names)} values, {steps} steps"]) + "\n"


def value_text(report: ValueReport, most: int | None = None) -> str:
    """All about one value.

    Args:
        report: What is known of it.
        most: How many places of each way. Default: all.
    """
    place = f", {report.place}" if report.place else ""
    lines = [
        f"{report.name} : {report.type}   ({report.operation}{place})",
        f"  before  {_sharding(report.before)}",
        f"  after   {_sharding(report.after)}",
    ]
    if report.exported is not None and _axes(report.exported) != _axes(report.after):
        lines.append(f"  export  {_sharding(report.exported)}")
    for dim, axes in enumerate(report.ways(most)):
        size = report.type.shape[dim] if isinstance(report.type, TensorType) else "?"
        if not axes:
            refused = any(r.dim == dim for r in report.rejections)
            why = "refused, see below" if refused else "nothing brought it an axis"
            lines.append(f"  dim {dim} (size {size}): not sharded ({why})")
        for axis, way in axes:
            lines.append(f"  dim {dim} (size {size}): {axis.stripped_text()}")
            if len(way) == most and way[0].step is not None:
                lines.append(f"      … (as it came to {_holder(way[0].value)})")
            lines += [f"      {_link(link)}" for link in way]
    if report.rejections:
        lines.append("  not taken:")
        lines += [f"      {_rejection(r)}" for r in report.rejections]
    return "\n".join(lines) + "\n"


def _axes(sharding: TensorSharding | None) -> list[tuple[object, ...]]:
    return [dim.axes for dim in sharding.dims] if sharding is not None else []


def _sharding(sharding: TensorSharding | None) -> str:
    return "none" if sharding is None else sharding.stripped_text()


def _link(link: Link) -> str:
    here = f"{_holder(link.value)} dim {link.dim}"
    if link.step is None:
        return f"from {here}: {link.cause}"
    factor = f", factor {factor_symbol(link.factor)}" if link.factor is not None else ""
    place = place_of(link.op.location) if link.op is not None else ""
    where = f", {place}" if place else ""
    return f"-> {here}: {link.cause}{factor}{where} [step {link.step}]"


def _rejection(rejection: Rejection) -> str:
    cut = rejection.cut
    text = (
        f"{rejection.axis.stripped_text()} on dim {rejection.dim} at {rejection.op.name}, "
        f"factor {factor_symbol(cut.factor)}: {cut.reason.value}"
    )
    if rejection.other is not None:
        factor = "" if cut.other_factor is None else f", factor {factor_symbol(cut.other_factor)}"
        text += f" ({_holder(rejection.other)}{factor})"
    place = place_of(rejection.op.location)
    return f"{text}, {place}" if place else text


def _holder(holder: Holder) -> str:
    if isinstance(holder, FunctionResult):
        return f"result {holder.index} of @{holder.function.symbol_name}"
    name = name_of(holder)
    return "a value that passes made" if name is None else str(name)
