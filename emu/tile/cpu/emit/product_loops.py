"""Loops that do nothing but add products: several rounds become one product, whose sums stay in registers meanwhile.

``for k: total = dot(load(a), load(b), total)`` is one product with a longer k where the blocks of A and of B that
rounds load follow each other along k, which is looked up at run time, round after round. The sums are then loaded
and stored once for all these rounds, B is packed for them at once, and rows of A are read in long runs. The order in
which an element's products are added is that of the rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from emu.tile import ops
from emu.tile.cpu.emit import byte_products
from emu.tile.cpu.emit.addressing import as_register, counted, move
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.in_place import found, loads_in_place
from emu.tile.cpu.emit.memory import Memory
from emu.tile.cpu.emit.products import FAR, Product, register_tile
from emu.tile.cpu.emit.transposing import can_transpose, transpose
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view
from emu.tile.ir import Operation, Region, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import F32, Tile, element_of

_EXTENT = {4: 256, 2: 512, 1: 1024}
"""Extent of k that is multiplied at once, by an element's bytes: a panel of B takes 32 KiB with AVX-512."""

_UNROLLED = 8


@dataclass(frozen=True)
class ProductLoop:
    """A loop that does nothing but add products.

    Attributes:
        dot: The product; its third operand is what the loop carries.
        loads: Of its operands.
        rounds: How many become one product at most.
    """

    dot: Operation
    loads: tuple[Operation, ...]
    rounds: int


def find(frame: Frame, body: Region) -> ProductLoop | None:
    """Return what is needed of a FOR with that body; ``None`` if it does more than add products."""
    operations, terminator = body.operations[:-1], body.terminator
    dots = [operation for operation in operations if operation.code is Code.DOT]
    if len(dots) != 1 or not _is_carried(frame, dots[0], body, terminator):
        return None
    (dot,) = dots
    a, b = (frame.analysis.root(v)[0].owner for v in dot.operands[:2])
    if a is None or b is None or not {a, b} <= loads_in_place(frame, operations):
        return None
    for operation in operations:
        if operation not in (dot, a, b) and not _is_scalar(frame, operation):
            return None
    k, n = dot.operands[1].shape[-2:]
    size = element_of(a.result.type).bytes
    rounds = _EXTENT[size] // k
    width = _width(dot)
    if rounds < 2 or n % width or (size == 1 and k % byte_products.CHUNK):
        return None
    if size == 4 and not can_transpose(F32, (k, width)):
        return None
    return ProductLoop(dot, (a, b), rounds)


def _width(dot: Operation) -> int:
    """Return the columns of a register tile."""
    if element_of(dot.operands[0].type).bytes < F32.bytes:
        return byte_products.width(dot)
    _, vectors, lanes = register_tile(F32)
    return vectors * lanes


def _is_carried(frame: Frame, dot: Operation, body: Region, terminator: Operation) -> bool:
    """Return whether a product's sums are the only tile that the loop carries, and nothing else reads them."""
    _, *carried = body.arguments
    tiles = [n for n, value in enumerate(carried) if isinstance(value.type, Tile)]
    users = frame.analysis.users
    return (
        len(tiles) == 1
        and len(dot.result.shape) == 2
        and dot.operands[2] is carried[tiles[0]]
        and terminator.operands[tiles[0]] is dot.result
        and users[dot.operands[2]] == [dot]
        and users[dot.result] == [terminator]
    )


def _is_scalar(frame: Frame, operation: Operation) -> bool:
    """Return whether an operation computes scalars, or offsets that are computed where they are needed."""
    if operation.code in ops.IMPURE or operation.regions:
        return False
    return all(
        not isinstance(v.type, Tile) or is_view(operation) or frame.analysis.is_inline(v)
        for v in operation.results
    )


def follows(
    frame: Frame, loop: ProductLoop, first: tuple[Memory, Memory], rounds: Register
) -> Register:
    """Emit an i1: whether the blocks of this round follow those of the first one, so many rounds later."""
    builder, (k, _) = frame.builder, loop.dot.operands[1].shape
    holds = []
    before = {value: frame.memories[value] for value in (load.result for load in loop.loads)}
    for load in loop.loads:
        frame.memories[load.result], condition = found(frame, load)
        holds += [] if condition is None else [condition]
    here = operands(frame, loop)
    frame.memories.update(before)
    for axis, one, other in zip((1, 0), first, here, strict=True):
        along = builder.mul(rounds, r.number(r.I64, k))
        expected = move(frame, one.base, along, one.step(builder, axis))
        holds.append(builder.icmp_unsigned("==", expected, other.base))
        holds += [
            builder.icmp_signed("==", as_register(s), as_register(t))
            for s, t in zip(one.strides, other.strides, strict=True)
        ]
    every = holds[0]
    for condition in holds[1:]:
        every = builder.and_(every, condition)
    return every


def operands(frame: Frame, loop: ProductLoop) -> tuple[Memory, Memory]:
    """Return where the operands of the product lie."""
    a, b, _ = loop.dot.operands
    return frame.memory_of(a), frame.memory_of(b)


def emit(
    frame: Frame, loop: ProductLoop, matrices: tuple[Memory, Memory], rounds: Register
) -> None:
    """Emit the product of so many rounds, into the memory of what the loop carries."""
    (m, k), n = loop.dot.operands[0].shape, loop.dot.operands[1].shape[-1]
    extent = frame.builder.mul(rounds, r.number(r.I64, k))
    (a, b), totals = matrices, frame.memories[loop.dot.operands[2]]
    if element_of(loop.dot.operands[0].type).bytes < F32.bytes:
        byte_products.emit_panels(frame, loop.dot, (a, b, totals), extent, loop.rounds)
    else:
        room = loop.rounds * k * _width(loop.dot)  # elements
        b, step = _panels(frame, loop.dot.operands[1], b, extent, room)
        origins = [a.base, b.base, totals.base, totals.base]
        given = a, b, totals, totals
        Product(frame, F32, origins, given, (m, extent, n), panel=step).emit()
    frame.release_copy(loop.dot.operands[1])


def _panels(
    frame: Frame, value: Value, b: Memory, extent: Register, room: int
) -> tuple[Memory, Register]:
    """Return B in panels of a register tile's columns, and the bytes between these: in place where rows are near."""
    builder, width = frame.builder, register_tile(F32)[1] * register_tile(F32)[2]
    panels, size = value.shape[-1] // width, F32.bytes
    packed = frame.new_copy(value, F32, (panels, room))
    before = builder.block

    def by_rows() -> None:
        _pack_rows(frame, b, packed.base, extent, (panels, width, room))

    def turned() -> None:
        counted(
            frame,
            panels,
            lambda i: _pack_turned(frame, b, packed.base, i, (extent, width, room)),
        )

    def pack() -> None:
        if b.strides[-1] == 1:
            by_rows()
        elif b.strides[-2] == 1:
            turned()
        else:
            # Columns lie side by side where the load found them, rows in the copy that it makes where a bound does not hold,
            # or the other way round: where it lies is known when the program runs.
            is_turned = builder.icmp_signed("==", as_register(b.strides[-2]), r.number(r.I64, 1))
            with frame.when(is_turned):
                turned()
            with frame.when(frame.builder.not_(is_turned)):
                by_rows()

    if b.strides[-1] != 1:
        pack()
        near = Memory(packed.base, F32, (width, 1))
        return near, r.number(r.I64, room * size)
    far = builder.icmp_unsigned(">", as_register(b.strides[-2]), r.number(r.I64, FAR // size))
    with frame.when(far):
        pack()
        end = frame.builder.block
    chosen = [frame.builder.phi(t) for t in (b.base.type, r.I64, r.I64)]
    there = b.base, as_register(b.strides[-2]), r.number(r.I64, width * size)
    here = packed.base, r.number(r.I64, width), r.number(r.I64, room * size)
    for phi, one, other in zip(chosen, there, here, strict=True):
        phi.add_incoming(one, before)
        phi.add_incoming(other, end)
    return Memory(chosen[0], F32, (chosen[1], 1)), chosen[2]


def _pack_turned(
    frame: Frame,
    b: Memory,
    target: IrPointer,
    panel: Register,
    extents: tuple[Register, int, int],
) -> None:
    """Emit the copy of some columns of B, each of which lies side by side, to a panel."""
    rows, width, room = extents
    builder = frame.builder
    start = move(frame, b.base, builder.mul(panel, r.number(r.I64, width)), b.step(builder, -1))
    to = move(frame, target, panel, room * F32.bytes)
    given = Memory(start, F32, b.strides), Memory(to, F32, (width, 1))
    transpose(frame, *given, (rows, width))


def _pack_rows(
    frame: Frame, b: Memory, target: IrPointer, rows: Register, extents: tuple[int, int, int]
) -> None:
    """Emit the copy of B's rows to panels: each row at once, for rows that are far apart lie in pages of their own."""
    panels, width, room = extents
    size, apart = F32.bytes, b.step(frame.builder, -2)

    def of_row(row: Register) -> None:
        start, to = move(frame, b.base, row, apart), move(frame, target, row, width * size)

        def of_panel(panel: Register) -> None:
            place = move(frame, start, panel, width * size)
            loaded = frame.builder.load(place, typ=r.register_type(F32, width))
            loaded.align = size
            there = move(frame, to, panel, room * size)
            frame.builder.store(loaded, there).align = size

        if panels > _UNROLLED:
            counted(frame, panels, of_panel)
            return
        for panel in range(panels):
            of_panel(r.number(r.I64, panel))

    counted(frame, rows, of_row)
