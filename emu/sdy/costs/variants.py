"""Costs side by side: of other meshes, of other shardings of an argument, of several modules."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emu.kernels.core.figures import bytes_text, count_text, seconds_text
from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check_module, check_text
from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.ir import BlockArgument, Operation
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType
from emu.sdy.costs.analysis import cost
from emu.sdy.costs.arguments import LinkLike, links_of, rate_of, sizes_of
from emu.sdy.costs.changes import meshes_of
from emu.sdy.costs.data import Cost, Total
from emu.sdy.costs.units import aligned
from emu.sdy.dialect.attributes import Mesh
from emu.sdy.dialect.functions import main_function
from emu.sdy.provenance.names import ValueName, named_copy

MOST_VARIANTS = 256


@dataclass(frozen=True)
class Variant:
    """A module with another mesh, or with another sharding of an argument.

    Attributes:
        name: What is different: ``x=4,y=2``, ``%w [{"x"}, {}]``.
        cost: Its cost; None if it has none.
        problem: Why it has none; empty if it has one.
    """

    name: str
    cost: Cost | None
    problem: str = ""


@dataclass(frozen=True)
class Variants:
    """Variants of a module, the one of least predicted time first, those without a cost last.

    ``str(variants)`` is a table.

    Attributes:
        variants: The variants.
    """

    variants: tuple[Variant, ...]

    def __iter__(self) -> Iterator[Variant]:
        return iter(self.variants)

    def __len__(self) -> int:
        return len(self.variants)

    def __getitem__(self, index: int) -> Variant:
        return self.variants[index]

    def to_json(self) -> str:
        """Return the variants as JSON: a list of ``name``, ``problem`` and ``cost``."""
        data: list[dict[str, Any]] = [
            {
                "name": each.name,
                "problem": each.problem,
                "cost": None if each.cost is None else each.cost.to_data(),
            }
            for each in self.variants
        ]
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        some = [(each.name, each.cost) for each in self.variants if each.cost is not None]
        lines = comparison_lines(some) if some else []
        lines += [f"{each.name}: {each.problem}" for each in self.variants if each.cost is None]
        return "\n".join(lines) + "\n"


def what_if(
    module: Operation | str,
    changes: str | Sequence[str],
    *,
    link: LinkLike = "450GB/s,2us",
    flops: float | str | None = None,
    file: str = "-",
) -> Variants:
    """Predict the costs of variants of a module.

    Args:
        module: A module, or a text, as for ``cost``.
        changes: "mesh": all meshes of as many devices with the same axes; "%x": all shardings of that
            argument of the main function whose shards are even, axes in the order of the mesh; or a list of
            single variants, as in ``["x=4,y=2", "x=8,y=1"]`` or ``['%x=[{"x"}, {}]', "%x=[{}, {}]"]``.
        link: As for ``cost``.
        flops: As for ``cost``; without it, the time is that of the communication alone.
        file: Name of the text in locations. Default: "-".

    Returns:
        The variants, the one of least predicted time first. One that does not fit the module, or that
        cannot be partitioned, has a ``problem`` in place of a cost, and comes last.

    Raises:
        ArgumentError: An argument is wrong, or there would be more than 256 variants.
        MlirError: The text cannot be read.
        PassFailed: The module has no main function.
    """
    links_of(link)
    rate_of(flops)
    check_text("file", file, "the name of a file")
    if not isinstance(module, str):
        check_module(module)
    found = []
    for name, mesh, shardings in _changes(module, changes, file):
        try:
            predicted = cost(
                module, mesh=mesh, shardings=shardings, link=link, flops=flops, file=file
            )
            found.append(Variant(name, predicted))
        except (ArgumentError, PassFailed) as error:
            found.append(Variant(name, None, " ".join(str(error).split())))
    found.sort(key=_order)
    return Variants(tuple(found))


def _order(variant: Variant) -> tuple[bool, float, int, int]:
    found = variant.cost
    if found is None:
        return (True, 0.0, 0, 0)
    return (False, found.seconds, found.flops, found.peak_bytes)


_Change = tuple[str, Mapping[str, int] | None, Mapping[str, str] | None]


def _changes(module: Operation | str, changes: object, file: str) -> list[_Change]:
    wanted = "'mesh', the name of an argument as '%x', or a list of variants"
    single = [changes] if isinstance(changes, str) else changes
    if not isinstance(single, list | tuple) or not all(isinstance(each, str) for each in single):
        raise ArgumentError(f"changes must be {wanted}, but got {shown(changes, with_type=True)}")
    if not single:
        raise ArgumentError(f"changes must be {wanted}, but got none")
    found: list[_Change] = []
    for each in single:
        name, equals, text = each.partition("=")
        if each.strip() == "mesh":
            found += _meshes(module, file)
        elif each.strip().startswith("%") and equals:
            name = name.strip()
            found.append((f"{name} {text.strip()}", None, {name: text}))
        elif each.strip().startswith("%"):
            found += _shardings(module, each.strip(), file)
        elif equals:
            found.append((each.strip(), sizes_of(each, "changes"), None))
        else:
            raise ArgumentError(f"changes must be {wanted}, but got {shown(changes)}")
        if len(found) > MOST_VARIANTS:
            raise ArgumentError(
                f"changes must be at most {MOST_VARIANTS} variants, but {shown(each)} makes "
                f"{len(found)}: name some of them, as in 'x=4,y=2' or '%x=[{{\"x\"}}, {{}}]'"
            )
    return found


def _largest_mesh(copy: Operation) -> Mesh:
    meshes = meshes_of(copy)
    if not meshes or not meshes[0][1].axes:
        raise ArgumentError("changes need a module with a mesh, but it has none")
    return meshes[0][1]


def _meshes(module: Operation | str, file: str) -> list[_Change]:
    _, _, copy = named_copy(module, file)
    mesh = _largest_mesh(copy)
    names = [axis.name for axis in mesh.axes]
    found: list[_Change] = []
    for sizes in _factorings(mesh.total_size, len(names)):
        chosen = dict(zip(names, sizes, strict=True))
        found.append((",".join(f"{n}={s}" for n, s in chosen.items()), chosen, None))
    return found


def _factorings(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as a product of so many numbers, in order."""
    if count == 1:
        yield (total,)
        return
    for size in range(1, total + 1):
        if total % size == 0:
            for rest in _factorings(total // size, count - 1):
                yield (size, *rest)


def _shardings(module: Operation | str, name: str, file: str) -> list[_Change]:
    _, called, copy = named_copy(module, file)
    main = main_function(copy, SymbolTable(copy), Diagnostics())
    function = main.symbol_name or ""
    value = next((v for v, n in called.items() if n == ValueName(function, name, n.number)), None)
    if not isinstance(value, BlockArgument) or value.index >= len(main.body().arguments):
        raise ArgumentError(f"changes must name an argument of @{function}, but got {shown(name)}")
    type_ = main.body().arguments[value.index].type
    mesh = _largest_mesh(copy)
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise ArgumentError(f"changes: {name} must be a tensor of static shape, but is {type_}")
    shape = type_.static_shape
    places = range(-1, len(shape))
    if len(places) ** len(mesh.axes) > 100 * MOST_VARIANTS:
        raise ArgumentError(
            f"changes: {name} has too many shardings ({len(places)} to the power of "
            f"{len(mesh.axes)}): name some of them, as in '{name}=[{{\"x\"}}, {{}}]'"
        )
    found: list[_Change] = []
    for chosen in itertools.product(places, repeat=len(mesh.axes)):
        dims = [
            [axis for axis, place in zip(mesh.axes, chosen, strict=True) if place == dim]
            for dim in range(len(shape))
        ]
        counts = [math.prod(axis.size for axis in axes) for axes in dims]
        if any(size % count for size, count in zip(shape, counts, strict=True)):
            continue
        inner = ", ".join("{" + ", ".join(f'"{a.name}"' for a in axes) + "}" for axes in dims)
        found.append((f"{name} [{inner}]", None, {name: f"[{inner}]"}))
    return found


# Tables


def comparison_lines(costs: Sequence[tuple[str, Cost]]) -> list[str]:
    """Return a table with a line for each cost."""
    heading = ("", "predicted", "communication", "computation", "sent", "FLOPs", "memory")
    rows: list[tuple[str, ...]] = [heading]
    for name, each in costs:
        compute = each.compute_seconds
        uncertain = "?" if any(c.uncertainty for c in each.collectives) else ""
        rows.append(
            (
                name,
                seconds_text(each.seconds) + uncertain,
                seconds_text(each.communication_seconds),
                "unknown" if compute is None else seconds_text(compute),
                bytes_text(each.communication_bytes),
                count_text(each.flops),
                bytes_text(each.peak_bytes),
            )
        )
    lines = aligned(rows, frozenset(range(1, len(heading))))
    if any(each.compute_seconds is None for _, each in costs):
        lines.append("predicted: communication alone, since a device's FLOP/s were not given")
    return lines


def difference_lines(left: tuple[str, Cost], right: tuple[str, Cost]) -> list[str]:
    """Return a table of two costs by kind and by axes of their collectives."""
    rows = [("collectives", left[0], "", right[0], "")]
    for sums in ("by_kind", "by_axes"):
        totals: list[dict[str, Total]] = [
            {total.name: total for total in getattr(each, sums)} for _, each in (left, right)
        ]
        for name in dict.fromkeys([*totals[0], *totals[1]]):
            cells = [name]
            for side in totals:
                total = side.get(name)
                cells += (
                    ["-", "-"]
                    if total is None
                    else [seconds_text(total.seconds), bytes_text(total.bytes_sent)]
                )
            rows.append((cells[0], cells[1], cells[2], cells[3], cells[4]))
    return aligned(rows, frozenset({1, 2, 3, 4}))
