"""``Counts``: what launches of a kernel did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

from emu.kernels.core.messages import shown
from emu.tile.counting.work import FLOPS, OTHERS

VERSION = 1


@dataclass(frozen=True)
class TensorCounts:
    """What was done to the memory of one argument.

    Attributes:
        name: The argument's; of pointers that may come from several, all with ``or`` between; ``"(memory)"`` of pointers that
            were read from memory.
        element: Dtype of the elements.
        loaded: Bytes that were loaded.
        stored: Bytes that were stored.
        atomic: Bytes of the elements of atomic operations, each once.
        unique_loaded: Bytes of these that were read at least once, in each launch; None: not known.
        unique_stored: Bytes that were written at least once.
        unique: Bytes that were read or written.
        lanes: Lanes of its memory operations.
        masked_off: Lanes whose mask was false.
        loaded_by: The working sets of what is read: numbers of programs that follow each other, and the bytes of the lines (of 128 bytes, of memory
            beyond 16 MiB of longer ones) that so many load on average. Beyond 128 programs groups of them count as one. Empty: not known.
    """

    name: str
    element: str
    loaded: int
    stored: int
    atomic: int
    unique_loaded: int | None
    unique_stored: int | None
    unique: int | None
    lanes: int
    masked_off: int
    loaded_by: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class DotCounts:
    """Products of tiles of one shape: ``[batch, m, k] @ [batch, k, n]``."""

    batch: int
    m: int
    n: int
    k: int
    a: str
    b: str
    accumulator: str
    times: int


@dataclass(frozen=True)
class ProgramCounts:
    """Programs that did alike; numbers are those of all of them together.

    Attributes:
        programs: How many there are.
        operations: Operations of tiles and scalars.
        flops: Floating-point operations.
        loaded: Bytes loaded, atomic operations included.
        stored: Bytes stored, atomic operations included.
        is_uniform: Whether each of them did the same; else these are the rest.
    """

    programs: int
    operations: int
    flops: int
    loaded: int
    stored: int
    is_uniform: bool


@dataclass(frozen=True)
class Counts:
    """What launches of one kernel did; docs/counting.md defines each number.

    Of a call into torch, an operation of PyPTO or an operator of MC2: what calls at one line did. It has no programs, launches are its
    calls, and operations are the operators that it is made of, of torch those of ATen.

    Attributes:
        name: Name of the kernel.
        file: File of its source.
        line: First line of it.
        launches: Number of launches.
        programs: Number of programs of all launches.
        operations: Number of operations of tiles and scalars that programs have executed.
        work: Unit (``"dot"``, ``"vector"``, ``"special"``, ``"integer"``, ``"compare"``, ``"select"``, ``"cast"``,
            ``"address"``) to dtype to number of operations on elements.
        dots: The products, by shape and dtypes.
        tensors: What was done to each argument's memory.
        atomics: Elements of atomic operations by kind and dtype, as in ``"add f32"``.
        unique: Bytes of all arguments' memory that were touched at least once, in each launch; memory that arguments share counts
            once; None: not known.
        by_program: Programs that did alike.
    """

    name: str
    file: str
    line: int
    launches: int
    programs: int
    operations: int
    work: dict[str, dict[str, int]]
    dots: tuple[DotCounts, ...]
    tensors: tuple[TensorCounts, ...]
    atomics: dict[str, int]
    unique: int | None
    by_program: tuple[ProgramCounts, ...]

    @property
    def flops(self) -> int:
        """Floating-point operations, and products of integers."""
        return sum(sum(self.work.get(unit, {}).values()) for unit in FLOPS)

    @property
    def loaded(self) -> int:
        """Bytes loaded, without atomic operations."""
        return sum(t.loaded for t in self.tensors)

    @property
    def stored(self) -> int:
        """Bytes stored, without atomic operations."""
        return sum(t.stored for t in self.tensors)

    @property
    def bytes(self) -> int:
        """Bytes loaded and stored; an element of an atomic operation counts once."""
        return self.loaded + self.stored + sum(t.atomic for t in self.tensors)

    @property
    def lanes(self) -> int:
        """Lanes of memory operations."""
        return sum(t.lanes for t in self.tensors)

    @property
    def masked_off(self) -> int:
        """Lanes of memory operations whose mask was false."""
        return sum(t.masked_off for t in self.tensors)

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: flops per byte loaded or stored; infinite without any."""
        return self.flops / self.bytes if self.bytes else float("inf")

    @property
    def unique_intensity(self) -> float | None:
        """Flops per byte if each byte moved but once, the intensity that an ideal cache gives; None: not known."""
        if self.unique is None:
            return None
        return self.flops / self.unique if self.unique else float("inf")

    def __add__(self, other: Counts) -> Counts:
        """Return what both did; of launches of the same kernel."""
        if not isinstance(other, Counts):
            return NotImplemented
        if (self.name, self.file, self.line) != (other.name, other.file, other.line):
            raise ValueError(
                f"other must be of kernel {self.name} ({self.file}:{self.line}), but got {other.name} "
                f"({other.file}:{other.line})"
            )
        work = {
            unit: _joined(self.work.get(unit, {}), other.work.get(unit, {}))
            for unit in {**self.work, **other.work}
        }
        return replace(
            self,
            launches=self.launches + other.launches,
            programs=self.programs + other.programs,
            operations=self.operations + other.operations,
            work=work,
            dots=_merged(self.dots, other.dots, ("times",)),
            tensors=_merged(self.tensors, other.tensors, _SUMS_OF_TENSORS),
            atomics=_joined(self.atomics, other.atomics),
            unique=_sum(self.unique, other.unique),
            by_program=(*self.by_program, *other.by_program)
            if len(self.by_program) + len(other.by_program) <= MOST_CLASSES
            else (_rest((*self.by_program, *other.by_program)),),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON can hold."""
        return {"version": VERSION, **asdict(self)}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Counts:
        """Return the counts of :meth:`to_json`.

        Raises:
            ValueError: It is something else.
        """
        version = stored.get("version") if isinstance(stored, Mapping) else None
        if not isinstance(stored, Mapping) or type(version) is not int or version != VERSION:
            raise ValueError(
                f"stored must be what Counts.to_json() of version {VERSION} returned, but got {shown(stored)}"
            )
        fields = {name: value for name, value in stored.items() if name != "version"}
        try:
            fields["dots"] = tuple(DotCounts(**d) for d in fields["dots"])
            fields["tensors"] = tuple(_tensor(t) for t in fields["tensors"])
            fields["by_program"] = tuple(ProgramCounts(**p) for p in fields["by_program"])
            return Counts(**fields)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"stored must be what Counts.to_json() returned, but: {error}"
            ) from None

    def table(self) -> str:
        """Return the counts as text."""
        return _table_of(self)


MOST_CLASSES = 16
"""Groups of programs that did alike; the others are the rest."""

_SUMS_OF_TENSORS = (
    *("loaded", "stored", "atomic", "unique_loaded", "unique_stored", "unique"),
    *("lanes", "masked_off"),
)


def _tensor(stored: Mapping[str, Any]) -> TensorCounts:
    """Return what JSON holds of a tensor; counts of earlier releases have no working sets."""
    sets = tuple((int(n), int(b)) for n, b in stored.get("loaded_by", ()))
    return TensorCounts(**{**stored, "loaded_by": sets})


def _joined(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _sum_of_sets(
    first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """Return the sum of working sets of the same numbers of programs; of others there is none."""
    if [n for n, _ in first] != [n for n, _ in second]:
        return ()
    return tuple((n, one + other) for (n, one), (_, other) in zip(first, second, strict=True))


def _merged(first: tuple[Any, ...], second: tuple[Any, ...], sums: tuple[str, ...]) -> Any:
    """Return rows that are alike but for what is summed, as one."""
    found: dict[Any, Any] = {}
    for row in (*first, *second):
        values = asdict(row)
        sets = ["loaded_by"] if "loaded_by" in values else []
        key = tuple(v for n, v in values.items() if n not in sums and n not in sets)
        if key in found:
            before = found[key]
            joined = {n: _sum(getattr(before, n), values[n]) for n in sums}
            joined_sets = {n: _sum_of_sets(getattr(before, n), getattr(row, n)) for n in sets}
            row = replace(before, **joined, **joined_sets)
        found[key] = row
    return tuple(found.values())


def _rest(rows: tuple[ProgramCounts, ...]) -> ProgramCounts:
    names = ("programs", "operations", "flops", "loaded", "stored")
    sums: dict[str, Any] = {n: sum(getattr(r, n) for r in rows) for n in names}
    return ProgramCounts(**sums, is_uniform=False)


def _table_of(counts: Counts) -> str:
    """Return the counts of a kernel as a table."""
    lines = [
        f"{counts.name} ({PurePath(counts.file).name}:{counts.line})",
        f"  launches {counts.launches:,}, programs {counts.programs:,}, operations {counts.operations:,}"
        if counts.programs
        else f"  calls {counts.launches:,}, operators {counts.operations:,}",
        f"  flops {counts.flops:,}",
    ]
    for unit in FLOPS:
        lines += [f"    {unit:<8} {d:<9} {n:>20,}" for d, n in counts.work.get(unit, {}).items()]
    others = [f"{unit} {d} {n:,}" for unit in OTHERS for d, n in counts.work.get(unit, {}).items()]
    if others:
        lines.append(f"  other operations: {'; '.join(others)}")
    for dot in counts.dots:
        batch = f"{dot.batch}x" if dot.batch > 1 else ""
        lines.append(
            f"  {dot.times:,} products {batch}{dot.m}x{dot.n}x{dot.k} of {dot.a} and {dot.b} in {dot.accumulator}"
        )
    lines.append(f"  {'bytes':<22}{'loaded':>16}{'stored':>16}{'unique':>16}{'masked off':>12}")
    for t in counts.tensors:
        off = 100 * t.masked_off / t.lanes if t.lanes else 0.0
        moved = f"{t.loaded:>16,}{t.stored:>16,}{_known(t.unique):>16}"
        lines.append(f"    {f'{t.name} {t.element}':<20}{moved}{off:>11.1f}%")
    total = f"{counts.loaded:>16,}{counts.stored:>16,}{_known(counts.unique):>16}"
    off = 100 * counts.masked_off / counts.lanes if counts.lanes else 0.0
    lines.append(f"    {'together':<20}{total}{off:>11.1f}%")
    if counts.atomics:
        found = ", ".join(f"{kind} {n:,}" for kind, n in counts.atomics.items())
        lines.append(f"  atomic operations: {found}")
    intensity = f"  arithmetic intensity {counts.intensity:.2f} flops a byte"
    unique = counts.unique_intensity
    lines.append(intensity if unique is None else f"{intensity}, {unique:.2f} a unique byte")
    return "\n".join(lines)


def _known(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"
