"""Networks that sort unsigned integers in vector registers.

The registers form a matrix: element ``(i, j)`` is lane ``j`` of register ``i``. Columns are sorted first, all lanes at
once; then neighbouring columns are merged, twice as many each time. Comparing registers costs two instructions, and
comparing lanes of a register needs a shuffle and a blend as well, so most comparisons are of registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir

from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import Register


def sorted_registers(builder: ir.IRBuilder, registers: Sequence[Register]) -> list[Register]:
    """Return the elements of registers in ascending order.

    Args:
        builder: Where the code goes.
        registers: A power of two of vectors of integers, of a power of two of lanes each.

    Returns:
        As many registers: the least elements are in the first one's lanes, and so on.
    """
    found = list(registers)
    for low, high in _odd_even_merge_sort(len(found)):
        found[low], found[high] = _ordered(builder, found[low], found[high])
    columns = 2
    while columns <= found[0].type.count:
        _merge(builder, found, columns)
        columns *= 2
    return _transposed(builder, found)


def _odd_even_merge_sort(count: int) -> Iterator[tuple[int, int]]:
    """Generate the comparisons of Batcher's network for a power of two of elements."""
    run = 1
    while run < count:
        distance = run
        while distance:
            for start in range(distance % run, count - distance, 2 * distance):
                for low in range(start, min(start + distance, count - distance)):
                    if low // (2 * run) == (low + distance) // (2 * run):
                        yield low, low + distance
            distance //= 2
        run *= 2


def _merge(builder: ir.IRBuilder, found: list[Register], columns: int) -> None:
    """Merge each two sorted runs of half as many columns."""
    count, half = len(found), columns // 2
    for i in range(-(-count // 2)):
        # The k-th least of one run and the k-th greatest of the other: then both halves are bitonic.
        a, b = found[i], found[count - 1 - i]
        found[i] = _chosen(builder, a, _mirrored(builder, b, columns - 1), half)
        if count > 1:
            mirror = _mirrored(builder, a, columns - 1)
            found[count - 1 - i] = _chosen(builder, b, mirror, half)
    distance = half // 2
    while distance:
        for i, each in enumerate(found):
            found[i] = _chosen(builder, each, _mirrored(builder, each, distance), distance)
        distance //= 2
    distance = count // 2
    while distance:
        for i in range(count):
            if not i & distance:
                pair = _ordered(builder, found[i], found[i + distance])
                found[i], found[i + distance] = pair
        distance //= 2


def _ordered(builder: ir.IRBuilder, a: Register, b: Register) -> tuple[Register, Register]:
    return r.intrinsic(builder, "umin", (a, b)), r.intrinsic(builder, "umax", (a, b))


def _chosen(builder: ir.IRBuilder, a: Register, b: Register, bit: int) -> Register:
    """Return the greater one where a bit of the lane's number is set, else the lesser."""
    lower, upper = _ordered(builder, a, b)
    lanes = range(a.type.count)
    return _shuffled(builder, lower, upper, [j + len(lanes) * bool(j & bit) for j in lanes])


def _mirrored(builder: ir.IRBuilder, a: Register, bits: int) -> Register:
    """Return lanes in the order of their numbers with some bits turned."""
    return _shuffled(builder, a, a, [j ^ bits for j in range(a.type.count)])


def _transposed(builder: ir.IRBuilder, registers: Sequence[Register]) -> list[Register]:
    """Return the columns one after the other."""
    found, lanes = list(registers), int(registers[0].type.count)
    zipped = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
    # Each round puts a bit of the register's number below those of the lane's, and the lane's highest in its place.
    distance = len(found) // 2
    while distance:
        for i in range(len(found)):
            if not i & distance:
                a, b = found[i], found[i + distance]
                found[i] = _shuffled(builder, a, b, zipped[:lanes])
                found[i + distance] = _shuffled(builder, a, b, zipped[lanes:])
        distance //= 2
    return found


def _shuffled(builder: ir.IRBuilder, a: Register, b: Register, order: Sequence[int]) -> Register:
    return builder.shuffle_vector(a, b, ir.Constant(r.vector(r.I32, len(order)), list(order)))
