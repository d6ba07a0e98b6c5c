"""``cost``: partitions a copy of a module, and predicts what each device's program takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emu.comm.link_model import Link
from emu.kernels.core.figures import count_text, seconds_text
from emu.mlir.arguments import check_module, check_text
from emu.mlir.diagnostics import PassFailed, Severity
from emu.mlir.gc_pause import paused_collection
from emu.mlir.ir import Operation
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType
from emu.mlir.verify import verify
from emu.sdy.costs import arguments as given
from emu.sdy.costs.arithmetic import TRANSCENDENTAL, Work, work_of
from emu.sdy.costs.causes import Cause, Causes, mark_of, mark_operations
from emu.sdy.costs.changes import (
    change_mesh,
    change_shardings,
    check_size,
    meshes_of,
    uneven,
)
from emu.sdy.costs.data import Collective, Cost
from emu.sdy.costs.groups import axes_between, axes_of, groups_of
from emu.sdy.costs.memory import Lifetimes, type_bytes
from emu.sdy.costs.model import Payload, Transfer, transfer
from emu.sdy.costs.program import RunCounter, Runs, uncounted
from emu.sdy.dialect.attributes import AxisRef, Mesh
from emu.sdy.dialect.functions import main_function
from emu.sdy.passes.base import Pass, Pipeline, Session, run_pass
from emu.sdy.passes.export.local.conversion import ConvertGlobalToLocal
from emu.sdy.passes.partition import PartitionPipeline
from emu.sdy.provenance.history import Recorder
from emu.sdy.provenance.names import ValueName, function_of, line_of, named_copy, without_name

_KINDS = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute"),
        *("cross-replica-sum", "reduce_scatter"),
    )
)
_MOST_WARNINGS = 5


@paused_collection()
def cost(
    module: Operation | str,
    *,
    mesh: str | Mapping[str, int] | None = None,
    shardings: Mapping[str, str] | None = None,
    link: given.LinkLike = "450GB/s,2us",
    flops: float | str | None = None,
    file: str = "-",
) -> Cost:
    """Predict what one run of a sharded program costs each device.

    A copy of the module is partitioned as ``emu.sdy.run`` does; the program of one device is
    read, not run. Nothing overlaps in the prediction: collectives go one after the other.

    Args:
        module: A module of ``emu.sdy.parse`` or ``emu.sdy.from_jax``, which is left as it is, or
            a text, in which values keep their names.
        mesh: Other sizes of axes of the module's mesh, as in "x=4,y=8" or a dict; from 1, and at most
            65,536 devices. Default: those of the module.
        shardings: Other shardings of arguments of the main function, as texts by name:
            ``{"%x": '[{"data"}, {}]'}``. Default: those of the module.
        link: Bandwidth, in each direction, and latency of a device's link, as text or ``emu.Link``; or
            a dict with one for each axis. Default: "450GB/s,2us".
        flops: What a device computes, in FLOP/s: a number, or a text as in "67T". Default: not
            known, so that the predicted time is that of the communication.
        file: Name of the text in locations. Default: "-".

    Returns:
        Collectives with their bytes, times and causes; FLOPs; the peak of memory.

    Raises:
        ArgumentError: An argument is wrong, or does not fit the module.
        MlirError: The text cannot be read.
        PassFailed: The module cannot be partitioned, or has no main function.
    """
    return analyse(module, mesh=mesh, shardings=shardings, link=link, flops=flops, file=file).cost()


def analyse(
    module: Operation | str,
    *,
    mesh: object = None,
    shardings: object = None,
    link: object = "450GB/s,2us",
    flops: object = None,
    file: str = "-",
) -> Analysis:
    """Partition a copy of a module; arguments and errors are those of ``cost``."""
    sizes = None if mesh is None else given.sizes_of(mesh)
    others = given.shardings_of(shardings)
    links, rate = given.links_of(link), given.rate_of(flops)
    check_text("file", file, "the name of a file")
    if not isinstance(module, str):
        check_module(module)
    _, called, copy = named_copy(module, file)
    session = Session(listener=Recorder(), verify_each=False)
    main = _main(copy, session)
    if sizes is not None:
        change_mesh(copy, main, sizes)
    if others:
        change_shardings(copy, main, others)
    check_size(copy)
    written = _axes(copy)
    if len(meshes_of(copy)) < 2:
        given.check_links(links, written)
    notes = [f"{problem}: passes make the shards even" for problem in uneven(main)]
    originals = {name: value.defining_op for value, name in called.items()}
    causes = _partition(copy, session, {n: op for n, op in originals.items() if op is not None})
    given.check_links(links, _axes(copy), written)  # several meshes are one now, of finer axes
    return Analysis(copy, session, causes, links, rate, notes)


def _axes(module: Operation) -> list[str]:
    return list(dict.fromkeys(axis.name for _, each in meshes_of(module) for axis in each.axes))


def _main(module: Operation, session: Session) -> Operation:
    return main_function(module, SymbolTable(module), session.diagnostics)


def _partition(
    module: Operation, session: Session, originals: dict[ValueName, Operation]
) -> dict[int, Cause]:
    """Make a module the program of one device; return the causes of its operations by their marks."""
    before, after = _split(PartitionPipeline())
    _run(before, module, session)
    assert isinstance(session.listener, Recorder)
    finder = Causes(session.listener, originals)
    names = _KINDS | {"sdy." + name.removeprefix("stablehlo.") for name in _KINDS}
    causes = {
        number: finder.of(op) for number, op in mark_operations(module).items() if op.name in names
    }
    _run(after, module, session)
    _check(module, session)
    return causes


def _check(module: Operation, session: Session) -> None:
    """Raise PassFailed if the program of one device is not valid: its cost would mean nothing."""
    if not verify(module, session.diagnostics):
        lines = [f"{without_name(d.location)}: {d.message}" for d in session.diagnostics.errors]
        raise PassFailed("\n".join(["the partitioned program is not valid", *lines]))


def _split(pipeline: Pipeline) -> tuple[list[Pass], list[Pass]]:
    """Return the passes before types become local, and those from there on."""
    passes = list(pipeline.passes())
    place = next(i for i, each in enumerate(passes) if isinstance(each, ConvertGlobalToLocal))
    return passes[:place], passes[place:]


def _run(passes: Sequence[Pass], module: Operation, session: Session) -> None:
    for each in passes:
        try:
            run_pass(each, module, session)
        except PassFailed as failure:
            lines = [f"{without_name(d.location)}: {d.message}" for d in session.diagnostics.errors]
            raise PassFailed("\n".join([f"{each.name} failed", *lines])) from failure.__cause__


@dataclass
class Analysis:
    """A program of one device, and what its cost is computed from.

    Attributes:
        module: The program of one device.
        session: The session of the passes; its listener has recorded the steps.
        causes: Causes of operations, by the marks of what they are made from.
        links: The link of all axes, or one for each.
        rate: FLOP/s of a device; None if unknown.
        notes: What could not be known.
    """

    module: Operation
    session: Session
    causes: dict[int, Cause]
    links: Link | dict[str, Link]
    rate: float | None
    notes: list[str]

    def __post_init__(self) -> None:
        self.main = _main(self.module, self.session)
        meshes = meshes_of(self.module)
        self.meshes = [mesh for _, mesh in meshes if mesh.total_size == meshes[0][1].total_size]
        self.mesh = self.meshes[0] if meshes else Mesh(())
        ids = [device + 1 for _, mesh in meshes for device in mesh.device_ids]
        self.n_devices = max([self.mesh.total_size, *ids])
        # Many collectives have the same groups, which may name every device.
        self._groups: dict[object, tuple[tuple[AxisRef, ...], int]] = {}

    def cost(self) -> Cost:
        """Return the cost."""
        works = Works()
        runs = self.runs(works)
        counts: Counter[str] = Counter()
        for op, each in runs.items():
            work = works.of(op)
            if work is not None and each.count:
                counts[work.kind] += work.count * each.count
        transcendentals = counts.pop(TRANSCENDENTAL, 0)
        collectives = tuple(self.collectives(runs).values())
        self._note(runs, collectives, works)
        body = self.main.body()
        results = body.terminator.operands
        recorder = self.session.listener
        assert isinstance(recorder, Recorder)
        return Cost(
            mesh=tuple((axis.name, axis.size) for axis in self.mesh.axes),
            n_devices=self.n_devices,
            link=_links_text(self.links),
            flops_per_second=self.rate,
            collectives=collectives,
            flops=sum(counts.values()),
            flops_by_kind=tuple(counts.most_common()),
            transcendentals=transcendentals,
            peak_bytes=Lifetimes(self.module).peak(self.main),
            argument_bytes=sum(type_bytes(argument.type) for argument in body.arguments),
            result_bytes=sum(type_bytes(result.type) for result in results),
            n_steps=len(recorder.steps),
            notes=tuple(self.notes),
        )

    def runs(self, works: Works) -> dict[Operation, Runs]:
        """Return how often each operation runs in one run of the program."""
        counter = RunCounter(self.module, lambda op: (self._seconds(op), works.flops(op)))
        return counter.runs(self.main)

    # Collectives

    def collectives(self, runs: Mapping[Operation, Runs]) -> dict[Operation, Collective]:
        """Return the collectives between devices, by their operations in ``module``."""
        collectives = {}
        for op, each in runs.items():
            found = self._transfer(op)
            if found is None:
                continue
            moved, axes, size = found
            mark = mark_of(op.location)
            cause = self.causes.get(-1 if mark is None else mark)
            if cause is None:  # a collective that the last pass made of another operation
                cause = Cause(op.name, "", line_of(op.location), function_of(op))
            collectives[op] = Collective(
                kind=op.name.removeprefix("stablehlo."),
                axes=tuple(axis.stripped_text() for axis in axes),
                group_size=size,
                operand=", ".join(str(value.type) for value in op.operands),
                payload_bytes=sum(type_bytes(value.type) for value in op.operands),
                algorithm=moved.algorithm,
                reason=moved.reason,
                steps=moved.steps,
                bytes_sent=moved.bytes_sent,
                seconds=moved.seconds,
                runs=each.count,
                uncertainty=each.uncertainty,
                operation=cause.operation,
                value=cause.value,
                place=cause.place,
                function=cause.function,
                sources=cause.sources,
            )
        return collectives

    def _seconds(self, op: Operation) -> float:
        found = self._transfer(op)
        return 0.0 if found is None else found[0].seconds

    def _transfer(self, op: Operation) -> tuple[Transfer, tuple[AxisRef, ...], int] | None:
        """Return what a collective takes; None for other operations, and for groups of one device."""
        if op.name not in _KINDS:
            return None
        axes, size = self._axes(op)
        if size < 2:
            return None
        payloads = [
            Payload(value.type.size, type_bytes(value.type) // max(1, value.type.size))
            for value in op.operands
            if isinstance(value.type, TensorType) and value.type.is_static
        ]
        link = given.slowest(self.links, {axis.name for axis in axes})
        kind = op.name.removeprefix("stablehlo.")
        return transfer(kind, size, payloads, link), axes, size

    def _axes(self, op: Operation) -> tuple[tuple[AxisRef, ...], int]:
        """Return the axes of a collective, and the size of its largest group."""
        key = (
            op.name,
            op.properties.get("source_target_pairs", op.properties.get("replica_groups")),
            op.properties.get("channel_handle") is None,
            "use_global_device_ids" in op.properties,
        )
        if key not in self._groups:
            self._groups[key] = self._axes_of_groups(op)
        axes, size = self._groups[key]
        mark = mark_of(op.location)
        cause = self.causes.get(-1 if mark is None else mark)
        # What the sdy collective says is exact, where it became this one collective.
        if cause is not None and cause.axes and cause.size == size:
            axes = cause.axes
        return axes, size

    def _axes_of_groups(self, op: Operation) -> tuple[tuple[AxisRef, ...], int]:
        groups = groups_of(op, self.n_devices)
        if groups is None:
            self.notes.append(
                f"{op.name} at {line_of(op.location) or 'an unknown place'}: its groups are not "
                "written as numbers, and it is left out"
            )
            return (), 1
        if op.name == "stablehlo.collective_permute":
            pairs = [pair for pair in groups if len(pair) == 2 and pair[0] != pair[1]]
            along = next((a for mesh in self.meshes if (a := axes_between(pairs, mesh))), ())
            return along, max(1, len({device for pair in pairs for device in pair}))
        axes = next((a for mesh in self.meshes if (a := axes_of(groups, mesh))), ())
        return axes, max((len(group) for group in groups), default=1)

    # Notes

    def _note(
        self, runs: dict[Operation, Runs], collectives: Sequence[Collective], works: Works
    ) -> None:
        uncertain = sum(1 for each in collectives if each.uncertainty)
        if uncertain:
            self.notes.append(
                f"how often {uncertain} of {len(collectives)} collectives run is not known"
            )
        others = [r for op, r in runs.items() if r.uncertainty and op.name not in _KINDS]
        if others and not uncertain:
            self.notes.append("some loops or branches run a number of times that is not known")
        unknown = list(uncounted(runs, lambda op: works.of(op) is not None))
        if unknown:
            self.notes.append(f"the FLOPs of these are not known: {', '.join(unknown)}")
        warnings = [
            each.message
            for each in self.session.diagnostics.emitted
            if each.severity is Severity.WARNING
        ]
        self.notes += [f"the passes warn: {message}" for message in warnings[:_MOST_WARNINGS]]
        if len(warnings) > _MOST_WARNINGS:
            self.notes.append(f"and of {len(warnings) - _MOST_WARNINGS} things more")


class Works:
    """What operations compute, looked up once."""

    def __init__(self) -> None:
        self._known: dict[Operation, Work | None] = {}

    def of(self, op: Operation) -> Work | None:
        """Return what one run of an operation computes; None where that is not known."""
        if op not in self._known:
            self._known[op] = work_of(op)
        return self._known[op]

    def flops(self, op: Operation) -> float:
        """Return the FLOPs of one run of an operation."""
        work = self.of(op)
        return 0.0 if work is None or work.kind == TRANSCENDENTAL else float(work.count)


def _links_text(links: Link | Mapping[str, Link]) -> str:
    if isinstance(links, Link):
        return f"{count_text(links.bandwidth)}B/s, {seconds_text(links.latency)}"
    return "; ".join(f"{axis}: {_links_text(link)}" for axis, link in links.items())
