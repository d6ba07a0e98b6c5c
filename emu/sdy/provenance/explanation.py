"""``explain``: run propagation, keep its steps, and answer "why" for each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emu.mlir import parse
from emu.mlir.arguments import ArgumentError, check, check_module, check_text
from emu.mlir.diagnostics import Diagnostic, Location, PassFailed
from emu.mlir.gc_pause import paused_collection
from emu.mlir.ir import BlockArgument, Operation, OpResult, Value
from emu.mlir.text.naming import Names
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import AxisRef, TensorSharding
from emu.sdy.dialect.functions import func_result_sharding, function_type
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.passes.base import Pass, Session, run_pass
from emu.sdy.passes.text import passes_of
from emu.sdy.provenance import names as names_
from emu.sdy.provenance.history import Holder, Link, Recorder, Rejection
from emu.sdy.provenance.names import ValueName

__all__ = ["Explanation", "ValueReport", "explain"]


@dataclass(frozen=True, slots=True)
class ValueReport:
    """What became of a value.

    Attributes:
        name: What it is called in the text.
        value: The value that propagation saw (a copy where passes copied it),
            or the function's result.
        type: Its type.
        place: ``file:line`` of what defines it.
        operation: The name of the operation that defines it, or "argument", or
            "result".
        before: The sharding it had before propagation.
        after: The sharding it had after propagation.
        exported: The sharding in the module at the end; None where the value
            is not there any more.
        rejections: The axes it was refused.
        recorder: The steps.
    """

    name: ValueName
    value: Holder
    type: Type
    place: str
    operation: str
    before: TensorSharding | None
    after: TensorSharding | None
    exported: TensorSharding | None
    rejections: tuple[Rejection, ...]
    recorder: Recorder = field(repr=False, compare=False)

    @property
    def axes(self) -> tuple[tuple[tuple[AxisRef, tuple[Link, ...]], ...], ...]:
        """By dimension: each axis with the way it took."""
        return self.ways()

    def ways(
        self, most: int | None = None
    ) -> tuple[tuple[tuple[AxisRef, tuple[Link, ...]], ...], ...]:
        """`axes`, of each way the last places only.

        Ways are followed when they are asked for: one can be as long as the program.

        Args:
            most: How many places. Default: all.

        Raises:
            ArgumentError: ``most`` is neither None nor a number of at least 1.
        """
        if most is not None and check("most", most, int, "a whole number or None") < 1:
            raise ArgumentError(f"most must be at least 1, but got {most}")
        follow = self.recorder.way
        return tuple(
            tuple((axis, tuple(follow(self.value, d, axis, most))) for axis in dim.axes)
            for d, dim in enumerate(self.after.dims if self.after is not None else ())
        )

    def __str__(self) -> str:
        from emu.sdy.provenance.text import value_text

        return value_text(self)


@dataclass(slots=True)
class Explanation:
    """The propagation of a module, step by step.

    Iterating gives a report for each value that has a sharding or was
    considered for one, in the order of the text.

    Attributes:
        module: The module at the end.
        original: The module as it was.
        recorder: The steps.
        diagnostics: What the passes emitted.
        failure: The failure that ended the passes, if one did; what had
            happened until then is explained all the same.
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
        """The names of the values there are reports of."""
        return list(self._reports)

    def value(self, name: str, function: str | None = None) -> list[ValueReport]:
        """The reports of a value.

        Args:
            name: Its name in the text, with or without "%"; "result#0" is the
                first result of the function.
            function: In which function, if several have the name. Default: the
                main function, else the first that has it.

        Returns:
            One report, or several where the passes made copies of the value
            (a function that is called twice, a constant that is used twice),
            or regions beside each other have values of that name.

        Raises:
            ArgumentError: No value has the name, or an argument is no text.
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
        from emu.sdy.provenance.text import explanation_text

        return explanation_text(self)

    def html(self) -> str:
        """A page of its own: the module with its shardings, steppable."""
        from emu.sdy.provenance.html import page

        return page(self)


@paused_collection()
def explain(
    module: Operation | str, passes: str | Pass | Sequence[Pass] | None = None, *, file: str = "-"
) -> Explanation:
    """Propagate shardings through a module and keep what happened.

    Args:
        module: A module, which stays as it is and whose values are called as
            they are printed, or a text, in which values keep their names.
        passes: What to run, as for `emu.sdy.run`. Default: the whole of
            Shardy's propagation, ``sdy-propagation-pipeline``.
        file: The name of the text in places. Default: "-".

    Returns:
        The steps, and for each value how its sharding came about.

    Raises:
        MlirError: The text cannot be read.
        ArgumentError: An argument has another type, or names a pass or an
            option that is not there.
    """
    chosen = passes_of("sdy-propagation-pipeline" if passes is None else passes)
    check_text("file", file, "the name of a file")
    if not isinstance(module, str):
        check_module(module)
    if isinstance(module, str):
        names: dict[Value, str] = {}
        original = parse(module, file=file, names=names)
    else:
        original, names = module, Names(module, generic=False).values
    called = names_.value_names(original, names)
    mapping: dict[Value, Value] = {}
    copy = original.clone(mapping)
    names_.mark(copy, {mapping[value]: name for value, name in called.items()})
    recorder = Recorder()
    session = Session(listener=recorder, verify_each=False)
    failure = None
    try:
        for each in chosen:
            run_pass(each, copy, session)
    except PassFailed as error:
        failure = error
    for diagnostic in session.diagnostics.emitted:
        diagnostic.location = names_.unmarked(diagnostic.location)
    reports = _reports(called, recorder, copy)
    for report in _result_reports(original, recorder, copy):
        reports[report.name] = [report]
    end = copy.clone()  # the values of the steps keep their names, what is printed has none
    names_.unmark(end)
    return Explanation(end, original, recorder, session.diagnostics.emitted, failure, reports)


def _reports(
    called: Mapping[Value, ValueName], recorder: Recorder, final: Operation
) -> dict[ValueName, list[ValueReport]]:
    """Reports by name, in the order of the original text."""
    seen = _by_name(v for v in recorder.homes if isinstance(v, Value))
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
    history = recorder.histories.get(recorder.home(copy))
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
    """Reports of the results of functions, which are places and no values."""
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
