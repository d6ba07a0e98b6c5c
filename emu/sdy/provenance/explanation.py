"""``explain``: runs propagation, records its steps, and answers "why" for each value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check_module, check_text
from emu.mlir.diagnostics import Diagnostic, Location, PassFailed
from emu.mlir.gc_pause import paused_collection
from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.functions import func_result_sharding, function_type
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.passes.base import Pass, Session, run_pass
from emu.sdy.passes.text import passes_of
from emu.sdy.provenance import names as names_
from emu.sdy.provenance.history import Recorder
from emu.sdy.provenance.html import CostData, to_html
from emu.sdy.provenance.names import ValueName
from emu.sdy.provenance.report import ValueReport, sharding_text


@dataclass(slots=True)
class Explanation:
    """Propagation of a module, step by step.

    Iterating gives a report for each value that has a sharding or was
    considered for one, in the order of the text.

    Attributes:
        module: The module after the passes.
        original: The module before the passes.
        recorder: The recorded steps.
        diagnostics: Diagnostics that the passes emitted.
        failure: The failure that ended the passes, if one did; the steps up to
            it are explained nevertheless.
    """

    module: Operation
    original: Operation
    recorder: Recorder
    diagnostics: list[Diagnostic]
    failure: PassFailed | None
    _reports: dict[ValueName, list[ValueReport]] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[ValueReport]:
        for reports in self._reports.values():
            yield from reports

    @property
    def names(self) -> list[ValueName]:
        """Names of the values that have a report, in the order of the text."""
        return list(self._reports)

    def value(self, name: str, function: str | None = None) -> list[ValueReport]:
        """Return the reports of a value.

        Args:
            name: Its name in the text, with or without "%"; "result#0" is the
                first result of the function.
            function: Name of its function, if several functions have a value of
                that name. Default: the main function, else the first that has it.

        Returns:
            One report, or several where the passes made copies of the value
            (a function that is called twice, a constant that is used twice),
            or where sibling regions have values of that name.

        Raises:
            ArgumentError: No value has the name, or an argument is not a string.
        """
        check_text("name", name, "the name of a value")
        if function is not None:
            check_text("function", function, "the name of a function or None")
        full = name if name.startswith(("%", "result#")) else f"%{name}"
        found = [key for key in self._reports if key.name == full]
        if function is not None:
            found = [key for key in found if key.function == function.lstrip("@")]
        if not found:
            where = f" in @{function.lstrip('@')}" if function is not None else ""
            some = ", ".join(key.name for key in list(self._reports)[:8])
            raise ArgumentError(f"no value is called {full!r}{where}; there are {some} …")
        main = next((key for key in found if key.function == "main"), found[0])
        chosen = [key for key in found if key.function == main.function]
        return [report for key in chosen for report in self._reports[key]]

    def __str__(self) -> str:
        # Copies of a value with the same outcome share a line.
        found: Counter[tuple[ValueName, str, str, str]] = Counter()
        for report in self:
            count = len(report.rejections)
            rejected = f"{count} not taken" if count else ""
            found[report.name, report.operation, sharding_text(report.after), rejected] += 1
        rows = [((str(name), *cells), copies) for (name, *cells), copies in found.items()]
        widths = [max((len(row[i]) for row, _ in rows), default=0) for i in range(3)]
        lines = []
        for row, copies in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            many = f"({copies} copies)" if copies > 1 else ""
            lines.append("  ".join([*cells, row[3], many]).rstrip())
        steps = len(self.recorder.steps)
        return "\n".join([*lines, f"{len(self.names)} values, {steps} steps"]) + "\n"

    def html(self, *, cost: CostData | str | None = None) -> str:
        """Return a self-contained HTML page: the module with its shardings, step by step.

        Args:
            cost: The predicted cost of the module, from ``emu.sdy.cost``, which the page then shows, or a
                text that says why there is none. Default: the page has no such part.

        Raises:
            ArgumentError: ``cost`` is of another type.
        """
        if cost is not None and not isinstance(cost, str) and not hasattr(cost, "to_data"):
            wanted = "a Cost of emu.sdy.cost, a text or None"
            raise ArgumentError(f"cost must be {wanted}, but got {shown(cost, with_type=True)}")
        return to_html(list(self), self.recorder, self.original, cost)


@paused_collection()
def explain(
    module: Operation | str, passes: str | Pass | Sequence[Pass] | None = None, *, file: str = "-"
) -> Explanation:
    """Propagate shardings through a module and record every step.

    Args:
        module: A module, which is not changed and whose values have the names
            that the printer gives them, or a text, in which values keep their names.
        passes: The passes to run, as for ``emu.sdy.run_passes``. Default: the whole of
            Shardy's propagation, ``sdy-propagation-pipeline``.
        file: Name of the text in reported locations. Default: "-".

    Returns:
        The steps, and for each value how its sharding came about.

    Raises:
        MlirError: The text cannot be parsed.
        ArgumentError: An argument has the wrong type, or names an unknown pass
            or option.
    """
    chosen = passes_of("sdy-propagation-pipeline" if passes is None else passes)
    check_text("file", file, "the name of a file")
    if not isinstance(module, str):
        check_module(module)
    original, called, copy = names_.named_copy(module, file)
    recorder = Recorder()
    session = Session(listener=recorder, verify_each=False)
    failure = None
    try:
        for each in chosen:
            run_pass(each, copy, session)
    except PassFailed as error:
        failure = error
    for diagnostic in session.diagnostics.emitted:
        diagnostic.location = names_.without_name(diagnostic.location)
    reports = _reports(called, recorder, copy)
    for report in _result_reports(original, recorder, copy):
        reports[report.name] = [report]
    # The recorded steps refer to the values of ``copy`` by their names; the printed module
    # is a clone without names.
    end = copy.clone()
    names_.remove_names(end)
    return Explanation(end, original, recorder, session.diagnostics.emitted, failure, reports)


def _reports(
    called: Mapping[Value, ValueName], recorder: Recorder, final: Operation
) -> dict[ValueName, list[ValueReport]]:
    """Return the reports by name, in the order of the original text."""
    seen = _by_name(v for v in recorder.owners if isinstance(v, Value))
    exported = _by_name(_values(final))
    reports: dict[ValueName, list[ValueReport]] = {}
    for value, name in called.items():
        if not isinstance(value.type, TensorType):
            continue
        ends = [get_sharding(v) for v in exported.get(name, [])]
        copies = seen.get(name, [])
        for index, copy in enumerate(copies or [value]):
            end = ends[index] if len(ends) == max(1, len(copies)) else None
            reports.setdefault(name, []).append(_report(name, value, copy, end, recorder))
    return reports


def _report(
    name: ValueName, value: Value, copy: Value, end: TensorSharding | None, recorder: Recorder
) -> ValueReport:
    history = recorder.histories.get(recorder.owner(copy))
    after = history.final if history is not None else get_sharding(value)
    defining = value.defining_op
    location = value.location if isinstance(value, BlockArgument) else _location(value)
    return ValueReport(
        name,
        copy,
        value.type,
        names_.place_of(location),
        "argument" if defining is None else defining.name,
        get_sharding(value),
        after,
        end,
        tuple(recorder.rejections(copy)),
        recorder,
    )


def _result_reports(
    original: Operation, recorder: Recorder, final: Operation
) -> Iterator[ValueReport]:
    """Yield the reports of the results of functions, which are not values."""
    before = {op.symbol_name: op for op in original.body() if op.name == "func.func"}
    after = {op.symbol_name: op for op in final.body() if op.name == "func.func"}
    for place in sorted(recorder.results(), key=lambda place: place.index):
        function = place.function.symbol_name
        if function not in before or function not in after:
            continue
        yield ValueReport(
            ValueName(function or "", f"result#{place.index}"),
            place,
            function_type(before[function]).results[place.index],
            names_.place_of(before[function].location),
            "result",
            func_result_sharding(before[function], place.index),
            recorder.histories[place].final,
            func_result_sharding(after[function], place.index),
            tuple(recorder.rejections(place)),
            recorder,
        )


def _location(value: Value) -> Location:
    if not isinstance(value, OpResult):
        raise TypeError(f"{value!r} is neither a result nor a block argument")
    return value.owner.location


def _by_name(values: Iterable[Value]) -> dict[ValueName, list[Value]]:
    found: dict[ValueName, list[Value]] = {}
    for value in values:
        name = names_.name_of(value)
        if name is not None:
            found.setdefault(name, []).append(value)
    return found


def _values(module: Operation) -> Iterator[Value]:
    for op in module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.arguments
