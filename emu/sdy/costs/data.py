"""Predicted costs as data, and as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from emu.kernels.core.figures import bytes_text, count_text, seconds_text
from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check
from emu.sdy.costs.units import aligned, mesh_text


@dataclass(frozen=True)
class AxisSource:
    """How an axis of a collective came to a value.

    Attributes:
        axis: The axis as it is written: ``"x"``, ``"x":(1)2``, with quotes.
        value: The value that is sharded along it: ``%h in @main``.
        dim: The dimension of the value.
        step: Number of the step of propagation that brought the axis there, as in
            ``emu.sdy.explain``; None if no step did.
        cause: Name of the operation of that step; without a step, why the axis is there: "given".
        place: Source line of that operation, where it is known.
        origin: Where the axis came from first: ``%w in @main dim 1: given``, or where a front end named
            the argument ``weights (%arg2 in @main) dim 1: given``.
    """

    axis: str
    value: str
    dim: int
    step: int | None
    cause: str
    place: str
    origin: str


@dataclass(frozen=True)
class Collective:
    """A collective of the program of one device.

    Attributes:
        kind: What StableHLO calls it: ``all_reduce``, ``all_gather``, ``reduce_scatter``,
            ``all_to_all``, ``collective_permute``, ``collective_broadcast``.
        axes: Mesh axes along which the devices of a group differ, as they are written; none where
            groups do not follow axes.
        group_size: Number of devices that take part together; of a permutation, all that do.
        operand: Type of what a device brings.
        payload_bytes: Bytes of what a device brings.
        algorithm: How it is assumed to be carried out.
        reason: Why so.
        steps: Number of steps of the algorithm.
        bytes_sent: Bytes that the busiest device sends, in one run.
        seconds: Predicted time of one run.
        runs: Number of runs that are counted.
        uncertainty: Why the number of runs is not exact; empty if it is.
        operation: The operation that causes it: the one whose partial results are combined, or that
            needs the value to be elsewhere.
        value: The value that is combined or moved: ``%h in @main``; may be empty.
        place: Source line of the operation; empty where it is not known.
        function: Function of the program that it is in.
        sources: How each axis came to the operation's values; empty where that is not known, as of
            collectives that the module has itself.
    """

    kind: str
    axes: tuple[str, ...]
    group_size: int
    operand: str
    payload_bytes: int
    algorithm: str
    reason: str
    steps: int
    bytes_sent: int
    seconds: float
    runs: int
    uncertainty: str
    operation: str
    value: str
    place: str
    function: str
    sources: tuple[AxisSource, ...]

    @property
    def axes_text(self) -> str:
        """The axes with commas, or the size of the groups."""
        return ", ".join(self.axes) or f"groups of {self.group_size}"

    @property
    def total_bytes(self) -> int:
        """Bytes that the busiest device sends in all runs."""
        return self.bytes_sent * self.runs

    @property
    def total_seconds(self) -> float:
        """Predicted time of all runs."""
        return self.seconds * self.runs


@dataclass(frozen=True)
class Total:
    """Sums over some collectives.

    Attributes:
        name: What they have in common: a kind, axes, a source line.
        collectives: Number of collectives.
        runs: Number of their runs.
        bytes_sent: Bytes that the busiest device sends.
        seconds: Predicted time.
    """

    name: str
    collectives: int
    runs: int
    bytes_sent: int
    seconds: float


@dataclass(frozen=True)
class Cost:
    """Predicted cost of one run of a sharded program, for each device.

    ``str(cost)`` is a table.

    Attributes:
        mesh: Axes of the mesh with their sizes; none without a mesh.
        n_devices: Number of devices.
        link: Bandwidth and latency of a device's link: one for all axes, or one for each.
        flops_per_second: What a device computes per second, if it was given.
        collectives: Collectives in the order of the program; those within one device are left out.
        flops: Floating-point operations of one device.
        flops_by_kind: The same by kind.
        transcendentals: Results of transcendental functions; they are not among the FLOPs.
        peak_bytes: Largest number of bytes that live at a time.
        argument_bytes: Bytes of a device's arguments, which are among them.
        result_bytes: Bytes of a device's results.
        n_steps: Number of steps of propagation.
        notes: What could not be known, in words.
    """

    mesh: tuple[tuple[str, int], ...]
    n_devices: int
    link: str
    flops_per_second: float | None
    collectives: tuple[Collective, ...]
    flops: int
    flops_by_kind: tuple[tuple[str, int], ...]
    transcendentals: int
    peak_bytes: int
    argument_bytes: int
    result_bytes: int
    n_steps: int
    notes: tuple[str, ...]

    @property
    def communication_bytes(self) -> int:
        """Bytes that a device sends; the sum over collectives of what the busiest device sends."""
        return sum(each.total_bytes for each in self.collectives)

    @property
    def communication_seconds(self) -> float:
        """Predicted time of all collectives, one after the other."""
        return sum(each.total_seconds for each in self.collectives)

    @property
    def compute_seconds(self) -> float | None:
        """Predicted time of the FLOPs; None if ``flops_per_second`` was not given."""
        return None if self.flops_per_second is None else self.flops / self.flops_per_second

    @property
    def seconds(self) -> float:
        """Predicted time: communication, and computation where it is known, one after the other."""
        return self.communication_seconds + (self.compute_seconds or 0.0)

    @property
    def by_kind(self) -> tuple[Total, ...]:
        """Sums over the collectives of each kind, the longest first."""
        return _totals(self.collectives, lambda each: each.kind)

    @property
    def by_axes(self) -> tuple[Total, ...]:
        """Sums over the collectives along the same axes, the longest first."""
        return _totals(self.collectives, lambda each: each.axes_text)

    @property
    def by_place(self) -> tuple[Total, ...]:
        """Sums over the collectives that one source line causes, the longest first."""
        return _totals(self.collectives, lambda each: each.place or "(no location)")

    def to_data(self) -> dict[str, Any]:
        """Return the cost, its sums and its times as dicts and lists, as ``to_json`` writes them."""
        found = asdict(self)
        found["mesh"] = dict(self.mesh)
        found["flops_by_kind"] = dict(self.flops_by_kind)
        for name in ("communication_bytes", "communication_seconds", "compute_seconds", "seconds"):
            found[name] = getattr(self, name)
        for name in ("by_kind", "by_axes", "by_place"):
            found[name] = [asdict(total) for total in getattr(self, name)]
        return found

    def to_json(self, indent: int | None = 2) -> str:
        """Return the cost as JSON: all attributes, sums and times.

        Args:
            indent: Spaces of a level, at least 0; None writes one line. Default: 2.

        Raises:
            ArgumentError: ``indent`` is neither None nor such a number.
        """
        if indent is not None and check("indent", indent, int, "a whole number or None") < 0:
            raise ArgumentError(f"indent must be at least 0, but got {shown(indent)}")
        if indent is not None and indent > _MOST_SPACES:
            raise ArgumentError(f"indent must be at most {_MOST_SPACES}, but got {shown(indent)}")
        return json.dumps(self.to_data(), indent=indent, ensure_ascii=False, allow_nan=False)

    def table(self, limit: int | None = None) -> str:
        """Return the cost as text: a line per collective, the longest first, and the sums.

        Args:
            limit: Number of collectives to show. Default: all.

        Raises:
            ArgumentError: ``limit`` is neither None nor a number of at least 0.
        """
        if limit is not None and check("limit", limit, int, "a whole number or None") < 0:
            raise ArgumentError(f"limit must be at least 0, but got {shown(limit)}")
        return "\n".join([*_summary_lines(self), *_collective_lines(self, limit)]) + "\n"

    def __str__(self) -> str:
        return self.table()


_MOST_SPACES = 16
_MOST_SUMS = 12


def _totals(
    collectives: Iterable[Collective], key: Callable[[Collective], str]
) -> tuple[Total, ...]:
    found: dict[str, list[Collective]] = {}
    for each in collectives:
        found.setdefault(key(each), []).append(each)
    totals = [
        Total(
            name,
            len(some),
            sum(each.runs for each in some),
            sum(each.total_bytes for each in some),
            sum(each.total_seconds for each in some),
        )
        for name, some in found.items()
    ]
    return tuple(sorted(totals, key=lambda total: (-total.seconds, -total.bytes_sent)))


# The table


def _summary_lines(cost: Cost) -> Iterator[str]:
    """Yield the lines that sum up a cost."""
    devices = "1 device" if cost.n_devices == 1 else f"{cost.n_devices} devices"
    yield f"{devices} ({mesh_text(cost.mesh)}), link {cost.link}"
    compute = cost.compute_seconds
    rate = cost.flops_per_second
    rows = [
        (
            "communication",
            seconds_text(cost.communication_seconds),
            f"{bytes_text(cost.communication_bytes)} sent by a device in {_collectives(cost)}",
        ),
        (
            "computation",
            "unknown" if compute is None else seconds_text(compute),
            f"{count_text(cost.flops)} FLOPs a device"
            + ("; give its FLOP/s for a time" if rate is None else f" at {count_text(rate)}FLOP/s"),
        ),
        (
            "memory",
            bytes_text(cost.peak_bytes),
            f"at the peak of a device, {bytes_text(cost.argument_bytes)} of arguments among them",
        ),
    ]
    yield from aligned(rows)
    kinds = [f"{count_text(n)} {kind}" for kind, n in cost.flops_by_kind if n]
    if cost.transcendentals:
        kinds.append(f"and {count_text(cost.transcendentals)} transcendental functions")
    if kinds:
        yield f"FLOPs: {', '.join(kinds)}"
    for note in cost.notes:
        yield f"note: {note}"


def _collectives(cost: Cost) -> str:
    count, runs = len(cost.collectives), sum(each.runs for each in cost.collectives)
    collectives = "1 collective" if count == 1 else f"{count} collectives"
    return collectives if runs == count else f"{runs} runs of {collectives}"


def _collective_lines(cost: Cost, limit: int | None) -> Iterator[str]:
    """Yield a table of the collectives, the longest first, and of the sums."""
    if not cost.collectives:
        return
    order = sorted(cost.collectives, key=lambda each: -each.total_seconds)
    shown = order if limit is None else order[:limit]
    heading = ("time", "runs", "each", "sent", "steps", "collective", "axes", "algorithm", "for")
    rows = [heading, *(_row(each) for each in shown)]
    yield ""
    lines = aligned(rows, frozenset({0, 1, 2, 3, 4}))
    yield lines[0]
    for line, each in zip(lines[1:], shown, strict=True):
        yield line
        yield from (f"    {text}" for text in source_texts(each.sources))
        if each.uncertainty:
            yield f"    {each.uncertainty}"
    if len(shown) < len(order):
        rest = sum(each.total_seconds for each in order[len(shown) :])
        yield f"… and {len(order) - len(shown)} more: {seconds_text(rest)}"
    yield ""
    yield from _sums(cost)


def _sums(cost: Cost) -> Iterator[str]:
    rows = [("time", "runs", "sent", "in all", "")]
    hidden = 0
    for what, totals in (("kind", cost.by_kind), ("axes", cost.by_axes), ("line", cost.by_place)):
        hidden += max(0, len(totals) - _MOST_SUMS)
        rows += [
            (seconds_text(t.seconds), str(t.runs), bytes_text(t.bytes_sent), what, t.name)
            for t in totals[:_MOST_SUMS]
        ]
    yield from aligned(rows, frozenset({0, 1, 2}))
    if hidden:
        yield f"… and {hidden} more"


def _row(each: Collective) -> tuple[str, ...]:
    where = f", {each.place}" if each.place else ""
    value = f" of {each.value}" if each.value else ""
    return (
        seconds_text(each.total_seconds),
        f"{each.runs}{'?' if each.uncertainty else ''}",
        seconds_text(each.seconds),
        bytes_text(each.total_bytes),
        str(each.steps),
        each.kind,
        each.axes_text,
        each.algorithm,
        f"{each.operation}{value}{where}",
    )


def source_texts(sources: Iterable[AxisSource]) -> list[str]:
    """Return where axes came from, in words: a text for those that came the same way."""
    found: dict[AxisSource, list[str]] = {}
    for source in sources:
        found.setdefault(replace(source, axis=""), []).append(source.axis)
    return [_source_text(", ".join(axes), source) for source, axes in found.items()]


def _source_text(axes: str, source: AxisSource) -> str:
    here = f"{axes} on dim {source.dim} of {source.value}"
    if source.step is None:
        return f"{here}: {source.cause}"
    place = f", {source.place}" if source.place else ""
    return f"{here}: {source.cause}{place} [step {source.step}], from {source.origin}"
