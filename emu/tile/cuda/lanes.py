"""Operations that combine elements: reductions, scans, histograms, products."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from emu.tile.cuda.emitter import Emitter, Index
from emu.tile.cuda.expressions import register, rounded
from emu.tile.cuda.memory import Buffer
from emu.tile.cuda.plan import is_tile, reduced_rows, size_of
from emu.tile.ir import Operation, Region
from emu.tile.types import dtype_of, element_of


def _combined(k: Emitter, region: Region, left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Emit the body of a combine region; return its results."""
    for argument, name in zip(region.arguments, [*left, *right], strict=True):
        k.names[argument] = name
    k.body(region)
    return [k.names[v] for v in region.terminator.operands]


def _update(k: Emitter, operation: Operation, totals: Sequence[str], index: Index) -> None:
    values = [k.at(v, index) for v in operation.operands]
    results = _combined(k, operation.regions[0], totals, values)
    k.line(f"{', '.join(totals)} = {', '.join(results)}")


def _first(k: Emitter, operation: Operation, index: Index) -> list[str]:
    return [k.define(k.at(v, index), "total") for v in operation.operands]


def _buffers(
    k: Emitter, stack: contextlib.ExitStack, operation: Operation, size: int
) -> list[Buffer]:
    return [stack.enter_context(k.temporary(element_of(v.type), size)) for v in operation.operands]


def reduce(k: Emitter, operation: Operation) -> None:
    """Reduce: each thread combines some elements, then the threads combine theirs, two by two."""
    rows = reduced_rows(operation)
    extent = operation.operands[0].shape[operation.attributes["axis"]]
    if rows == 1:
        _reduce_whole(k, operation, extent)
        return
    group = max(1, min(k.threads // rows, extent))
    if group == 1:
        _reduce_alone(k, operation, rows, extent)
    else:
        _reduce_together(k, operation, rows, extent, group)


def _base(k: Emitter, row: Index, extent: int, stride: int, bound: int) -> Index:
    """Return the index of a row's first element."""
    outer = k.coordinate(row, stride, bound)
    inner = k.coordinate(row, 1, stride)
    return k.flat([(outer, extent * stride), (inner, 1)], bound)


def _stride(operation: Operation) -> int:
    return math.prod(operation.operands[0].shape[operation.attributes["axis"] + 1 :])


def _step(k: Emitter, base: Index, number: str, stride: int) -> Index:
    by = f"{number} * {stride}" if stride > 1 else number
    text = by if base.text == "0" else f"{base.text} + {by}"
    return Index(k.define(text, "i"), base.bound)


def _reduce_whole(k: Emitter, operation: Operation, size: int) -> None:
    count, rounds = min(k.threads, size), -(-size // k.threads)
    with contextlib.ExitStack() as stack:
        buffers = _buffers(k, stack, operation, count)
        k.access(operation, writes=buffers)
        with k.block(f"if t < {count}:" if count < k.threads else "if True:"):
            with k.own("t", "0"):
                totals = _first(k, operation, Index("t", count))
            if rounds > 1:
                with k.block(f"for k in range(1, {rounds}):"), k.own("e", "k"):
                    k.line(f"e = t + k * {k.threads}")
                    if size % k.threads:
                        with k.block(f"if e < {size}:"):
                            _update(k, operation, totals, Index("e", size))
                    else:
                        _update(k, operation, totals, Index("e", size))
            for buffer, total in zip(buffers, totals, strict=True):
                k.line(buffer.write("t", total))
        _tree(k, operation, buffers, count, "t < {n} - {h}")
        _results(k, operation, buffers, 1)


def _tree(
    k: Emitter, operation: Operation, buffers: list[Buffer], count: int, condition: str
) -> None:
    """Halve the elements of each group until one is left."""
    if count > 1:
        n, h = k.name("n"), k.name("h")
        k.line(f"{n} = {count}")
        # Every thread runs every round, since all must come to the barrier; only the work is conditional. Rounded up,
        # so that of an odd number the middle element stays for the next round.
        with k.block(f"while {n} > 1:"):
            k.line("cuda.syncthreads()")
            k.line(f"{h} = ({n} + 1) >> 1")
            with k.block(f"if {condition.format(n=n, h=h)}:"):
                left = [k.define(b.read("t")) for b in buffers]
                other = k.define(f"t + {h}", "i")
                right = [k.define(b.read(other)) for b in buffers]
                results = _combined(k, operation.regions[0], left, right)
                for buffer, result in zip(buffers, results, strict=True):
                    k.line(buffer.write("t", result))
            k.line(f"{n} = {h}")
    k.sync()


def _results(k: Emitter, operation: Operation, buffers: list[Buffer], group: int) -> None:
    """Take the first element of each group."""
    tiles = [r for r in operation.results if is_tile(r)]
    k.access(None, reads=buffers, writes=[k.place(r) for r in tiles])
    if not tiles:
        for result, buffer in zip(operation.results, buffers, strict=True):
            k.names[result] = k.define(buffer.read("0"), result.name)
        return
    with k.lanes(size_of(tiles[0])) as index:
        where = index.text if group == 1 else k.index(f"{index.text} * {group}")
        for result, buffer in zip(tiles, buffers, strict=True):
            k.put(result, index, k.define(buffer.read(where), result.name))


def _reduce_alone(k: Emitter, operation: Operation, rows: int, extent: int) -> None:
    """Reduce with one thread per result."""
    stride = _stride(operation)
    k.access(operation, writes=[k.place(r) for r in operation.results])
    with k.lanes(rows) as row:
        base = _base(k, row, extent, stride, rows * extent)
        totals = _first(k, operation, base)
        if extent > 1:
            number = k.name("l")
            with k.block(f"for {number} in range(1, {extent}):"):
                _update(k, operation, totals, _step(k, base, number, stride))
        for result, total in zip(operation.results, totals, strict=True):
            k.put(result, row, total)


def _reduce_together(k: Emitter, operation: Operation, rows: int, extent: int, group: int) -> None:
    """Reduce with several threads per result."""
    stride, active = _stride(operation), rows * group
    with contextlib.ExitStack() as stack:
        buffers = _buffers(k, stack, operation, active)
        k.access(operation, writes=buffers)
        member = k.define(f"t % {group}", "g")
        with k.block(f"if t < {active}:" if active < k.threads else "if True:"):
            row = Index(k.define(f"t // {group}", "row"), rows)
            base = _base(k, row, extent, stride, rows * extent)
            totals = _first(k, operation, _step(k, base, member, stride))
            if extent > group:
                number = k.name("l")
                with k.block(f"for {number} in range({member} + {group}, {extent}, {group}):"):
                    _update(k, operation, totals, _step(k, base, number, stride))
            for buffer, total in zip(buffers, totals, strict=True):
                k.line(buffer.write("t", total))
        inside = f"t < {active} and " if active < k.threads else ""
        _tree(k, operation, buffers, group, f"{inside}{member} < {{n}} - {{h}}")
        _results(k, operation, buffers, group)


def scan(k: Emitter, operation: Operation) -> None:
    """Scan in steps: each element is combined with the one 1, 2, 4 ... before it."""
    size = size_of(operation.operands[0])
    extent = operation.operands[0].shape[operation.attributes["axis"]]
    with contextlib.ExitStack() as stack:
        # Two copies, which a step reads from and writes to in turn.
        buffers = _buffers(k, stack, operation, 2 * size)
        k.access(operation, writes=buffers)
        with k.lanes(size) as index:
            for buffer, value in zip(buffers, operation.operands, strict=True):
                k.line(buffer.write(index.text, k.at(value, index)))
        here = "0"
        if extent > 1:
            distance, here = k.define("1", "distance"), k.define("0", "here")
            with k.block(f"while {distance} < {extent}:"):
                k.line("cuda.syncthreads()")
                _scan_step(k, operation, buffers, here, distance)
                k.line(f"{here} = {size} - {here}")
                k.line(f"{distance} = {distance} * 2")
        k.access(None, writes=[k.place(r) for r in operation.results])
        k.hazards.reads.update((b, True) for b in buffers)
        with k.lanes(size) as index:
            place = k.index(f"{here} + {index.text}") if extent > 1 else index.text
            for buffer, result in zip(buffers, operation.results, strict=True):
                k.put(result, index, k.define(buffer.read(place), result.name))


def _scan_step(
    k: Emitter, operation: Operation, buffers: list[Buffer], here: str, distance: str
) -> None:
    size, stride = size_of(operation.operands[0]), _stride(operation)
    extent = operation.operands[0].shape[operation.attributes["axis"]]
    reverse = operation.attributes.get("reverse", False)
    with k.lanes(size) as index:
        line = k.coordinate(index, stride, extent)
        own = k.define(f"{here} + {index.text}", "i")
        values = [k.define(b.read(own)) for b in buffers]
        inside = f"{line.text} + {distance} < {extent}" if reverse else f"{line.text} >= {distance}"
        with k.block(f"if {inside}:"):
            away = f"{distance} * {stride}" if stride > 1 else distance
            other = k.define(f"{own} {'+' if reverse else '-'} {away}", "i")
            others = [k.define(b.read(other)) for b in buffers]
            results = _combined(k, operation.regions[0], others, values)
            k.line(f"{', '.join(values)} = {', '.join(results)}")
        target = k.define(f"{size} - {here} + {index.text}", "i")
        for buffer, value in zip(buffers, values, strict=True):
            k.line(buffer.write(target, value))


def histogram(k: Emitter, operation: Operation) -> None:
    """Count in memory of the block."""
    values, *mask = operation.operands
    (result,) = operation.results
    bins = operation.attributes["bins"]
    with k.temporary(element_of(result.type), bins) as buffer:
        k.access(None, writes=[buffer])
        with k.lanes(bins) as index:
            k.line(buffer.write(index.text, "int32(0)"))
        k.access(operation, reads=[buffer])
        with k.lanes(size_of(values)) as index:
            value = k.at(values, index)
            conditions = [f"{value} >= 0", f"{value} < {bins}", *(k.at(m, index) for m in mask)]
            with k.block(f"if {' and '.join(conditions)}:"):
                k.line(buffer.add(k.define(f"int64({value})", "i"), "int32(1)"))
        k.wrote(buffer)
        k.access(None, reads=[buffer], writes=[k.place(result)])
        with k.lanes(bins) as index:
            k.put(result, index, k.define(buffer.read(index.text), result.name))


def sort(k: Emitter, operation: Operation) -> None:
    """Put each element where as many of its row lie before it as are smaller, or equal and before it."""
    (values,), (result,) = operation.operands, operation.results
    size, extent = size_of(values), values.shape[-1]
    with k.temporary(element_of(result.type), size) as buffer:
        k.access(operation, writes=[buffer])
        with k.lanes(size) as index:
            own = k.define(k.at(values, index), "own")
            column = k.coordinate(index, 1, extent)
            base = k.define(f"{index.text} - {column.text}", "base")
            rank, number = k.define("0", "rank"), k.name("l")
            with k.block(f"for {number} in range({extent}):"):
                other = k.define(k.at(values, _step(k, Index(base, size), number, 1)), "other")
                before = f"{other} == {own} and {number} < {column.text}"
                with k.block(f"if {other} < {own} or ({before}):"):
                    k.line(f"{rank} = {rank} + 1")
            k.line(buffer.write(k.define(f"{base} + {rank}", "i"), own))
        k.wrote(buffer)
        k.access(None, reads=[buffer], writes=[k.place(result)])
        with k.lanes(size) as index:
            k.put(result, index, k.define(buffer.read(index.text), result.name))


def dot(k: Emitter, operation: Operation) -> None:
    """Multiply: one chain of fused multiply-adds per element, with k increasing."""
    a, b, c = operation.operands
    (result,) = operation.results
    kind = register(element_of(c.type))
    columns, depth = b.shape[-1], a.shape[-1]
    per_batch = a.shape[-2] * columns
    size = size_of(c)
    k.access(operation, writes=[k.place(result)])
    with k.lanes(size) as index:
        total = k.define(k.at(c, index), "total")
        row = k.coordinate(index, columns, size)
        column = k.coordinate(index, 1, columns)
        batch = k.coordinate(index, per_batch, size)
        left = k.flat([(row, depth)], size_of(a))
        right = k.flat([(batch, depth * columns), (column, 1)], size_of(b))
        number = k.name("l")
        with k.block(f"for {number} in range({depth}):"):
            factors = []
            for tile, place in (
                (a, _step(k, left, number, 1)),
                (b, _step(k, right, number, columns)),
            ):
                held = register(dtype_of(tile.type))
                factor = k.at(tile, place)
                factors.append(factor if held == kind else f"cast_{held}_{kind}({factor})")
            k.line(f"{total} = fma_{kind}({factors[0]}, {factors[1]}, {total})")
        text = rounded(total, element_of(c.type))
        k.put(result, index, text if text == total else k.define(text, result.name))
