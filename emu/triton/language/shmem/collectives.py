"""Collectives of a team inside of kernels. One program of each member calls them; they begin and end with a barrier.

Each member writes, or reads, in the order of the members, so that sums are the same bits on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.triton.language.arithmetic import maximum, minimum
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder, current
from emu.triton.language.conversion import cast_to
from emu.triton.language.creation import arange
from emu.triton.language.memory import nothing
from emu.triton.language.shmem import elements, machine
from emu.triton.language.shmem.device import barrier
from emu.triton.language.shmem.elements import Elements
from emu.triton.language.shmem.machine import WORLD
from emu.triton.language.types import int64
from emu.triton.language.values import TensorLike, tensor

_BLOCK = 256
"""Elements that a reduction takes at once."""

_COMBINED: dict[str, Callable[[tensor, tensor], tensor]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "min": lambda a, b: minimum(a, b),
    "max": lambda a, b: maximum(a, b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_BITWISE = ("and", "or", "xor")


def _upto(count: Value) -> Iterator[Value]:
    """Yield the index of a loop that counts to a number, i64; what the body emits is the loop's."""
    emit = builder()
    with emit.for_(machine.number(0), count, machine.number(1), ()) as loop:
        yield loop.index
        emit.yield_()


def _shifted(offset: Value, by: Value, nbytes: Value) -> Value:
    emit = builder()
    return emit.binary(Code.ADD, offset, emit.binary(Code.MUL, by, nbytes))


class _Blocks:
    """Blocks of bytes at ``dst`` and ``src`` of a team's members, both in the symmetric heap."""

    def __init__(
        self,
        dst: object,
        src: object,
        nbytes: TensorLike,
        team: TensorLike,
        counts: tuple[bool, bool],
    ) -> None:
        emit = builder()
        self.team = machine.check_team(team)
        self.nbytes = machine.check_size(nbytes)
        self.count = machine.call("team_size", self.team)
        whole = emit.binary(Code.MUL, self.nbytes, self.count)
        room = [whole if many else self.nbytes for many in counts]
        target = machine.check_pointer(dst, "dst", single=True)
        source = machine.check_pointer(src, "src", single=True)
        machine.offset_in_heap(target, "dst", self.nbytes)  # first: the product may overflow
        self.target = machine.offset_in_heap(target, "dst", room[0])
        machine.offset_in_heap(source, "src", room[1])
        self.source = machine.address_of(source)
        self.mine = machine.call("team_pe", self.team)

    def put(self, member: Value, target: Value, source: Value) -> None:
        """Emit the put of a block to a member."""
        peer = machine.call("team_world_pe", self.team, member)
        machine.call("put", peer, target, source, self.nbytes)


def broadcast(
    dst: tensor, src: tensor, nbytes: TensorLike, root: TensorLike, team: TensorLike = WORLD
) -> tensor:
    """Copy the root's ``src`` to ``dst`` of every member, its own too.

    Args:
        dst: A pointer into this PE's heap.
        src: Likewise.
        nbytes: Number of bytes.
        root: Number, in the team, of the member that sends.
        team: As of :func:`~emu.triton.language.shmem.device.my_pe`.
    """
    blocks = _Blocks(dst, src, nbytes, team, (False, False))
    emit, sender = builder(), machine.integer(root, "root")
    inside = emit.binary(
        Code.AND,
        emit.compare(Code.GE, sender, machine.number(0)),
        emit.compare(Code.LT, sender, blocks.count),
    )
    shown = {"root": sender, "members": blocks.count, "my_pe": machine.read("my_pe")}
    machine.demand(inside, "root must be the number of a member of the team", shown)
    barrier(team)
    sends = emit.compare(Code.EQ, sender, blocks.mine)
    # Who does not send counts to 0.
    for member in _upto(emit.select(sends, blocks.count, machine.number(0))):
        blocks.put(member, blocks.target, blocks.source)
    barrier(team)
    return nothing()


def all_gather(dst: tensor, src: tensor, nbytes: TensorLike, team: TensorLike = WORLD) -> tensor:
    """Collect every member's ``src`` at ``dst`` of every member, one behind the other.

    Args:
        dst: A pointer into this PE's heap, with room for as many blocks as there are members.
        src: A pointer into this PE's heap.
        nbytes: Bytes of one member's block.
        team: As of :func:`~emu.triton.language.shmem.device.my_pe`.
    """
    blocks = _Blocks(dst, src, nbytes, team, (True, False))
    barrier(team)
    for member in _upto(blocks.count):
        target = _shifted(blocks.target, blocks.mine, blocks.nbytes)
        blocks.put(member, target, blocks.source)
    barrier(team)
    return nothing()


def all_to_all(dst: tensor, src: tensor, nbytes: TensorLike, team: TensorLike = WORLD) -> tensor:
    """Send the ``p``-th block of ``src`` to member ``p``; at ``dst``, block ``p`` is what member ``p`` sent.

    Args:
        dst: A pointer into this PE's heap, with room for as many blocks as there are members.
        src: Likewise.
        nbytes: Bytes of a block.
        team: As of :func:`~emu.triton.language.shmem.device.my_pe`.
    """
    blocks = _Blocks(dst, src, nbytes, team, (True, True))
    barrier(team)
    for member in _upto(blocks.count):
        target = _shifted(blocks.target, blocks.mine, blocks.nbytes)
        blocks.put(member, target, _shifted(blocks.source, member, blocks.nbytes))
    barrier(team)
    return nothing()


def reduce(
    dst: tensor,
    src: tensor,
    count: TensorLike,
    op: ConstexprLike[str] = "sum",
    team: TensorLike = WORLD,
) -> tensor:
    """Combine every member's ``src`` element by element, in the order of the members; each gets the result.

    Args:
        dst: A pointer into this PE's heap; it may be ``src``.
        src: A pointer into this PE's heap, to numbers of the same dtype.
        count: Number of elements.
        op: ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, or of integers ``"and"``, ``"or"``, ``"xor"``.
        team: As of :func:`~emu.triton.language.shmem.device.my_pe`.

    Raises:
        TypeError: The two dtypes differ, or ``op`` is not for theirs.
        ValueError: ``op`` is unknown.
    """
    name = unwrap(op)
    if name not in _COMBINED:
        raise ValueError(f"op must be one of {', '.join(map(repr, _COMBINED))}, but got {name!r}")
    target = machine.check_pointer(dst, "dst", single=True)
    source = machine.check_pointer(src, "src", single=True)
    element = machine.element_of(source)
    if machine.element_of(target) != element:
        raise TypeError(f"dst and src must have one dtype, but got {target} and {source}")
    if name in _BITWISE and not element.is_int():
        raise TypeError(f"{name} combines integers, but got {source}")
    number = machine.check_size(count, "count")
    width = machine.number(max(1, element.primitive_bitwidth // 8))
    nbytes = tensor(builder().binary(Code.MUL, number, width), int64)
    blocks = _Blocks(dst, src, nbytes, team, (False, False))
    if not current().over_hosts:
        for member in _upto(blocks.count):  # before anything is changed
            machine.check_here(machine.call("team_world_pe", blocks.team, member), "each member")
    barrier(team)
    for where, mask in _share(number, blocks):
        total = _total(source, where, mask, _COMBINED[name], blocks)
        for member in _upto(blocks.count):
            elements.store(_of_member(target + where, blocks, member, mask), total, tells=False)
    barrier(team)
    return nothing()


def _share(number: Value, blocks: _Blocks) -> Iterator[tuple[tensor, tensor]]:
    """Yield indices and mask of a block of the elements that this member combines for all.

    So nobody overwrites what another one still has to read, where the results replace the operands.
    """
    emit = builder()
    share = _quotient_up(number, blocks.count)
    first = emit.binary(Code.MIN, emit.binary(Code.MUL, blocks.mine, share), number)
    last = emit.binary(Code.MIN, emit.binary(Code.ADD, first, share), number)
    block = machine.number(_BLOCK)
    for step in _upto(_quotient_up(emit.binary(Code.SUB, last, first), block)):
        begin = emit.binary(Code.ADD, first, emit.binary(Code.MUL, step, block))
        where = tensor(begin, int64) + arange(0, _BLOCK)
        yield where, where < tensor(last, int64)


def _total(
    source: tensor,
    where: tensor,
    mask: tensor,
    combine: Callable[[tensor, tensor], tensor],
    blocks: _Blocks,
) -> tensor:
    """Return the elements of all members, combined in their order."""
    emit, one = builder(), machine.number(1)
    at = source + where
    first = elements.load(_of_member(at, blocks, machine.number(0), mask))
    with emit.for_(one, blocks.count, one, [first.handle]) as loop:
        more = elements.load(_of_member(at, blocks, loop.index, mask))
        both = combine(tensor(loop.carried[0], first.type), more)
        emit.yield_(cast_to(both, first.dtype).handle)
    return tensor(loop.results[0], first.type)


def _quotient_up(value: Value, by: Value) -> Value:
    emit = builder()
    return emit.binary(
        Code.DIV,
        emit.binary(Code.ADD, value, emit.binary(Code.SUB, by, machine.number(1))),
        by,
    )


def _of_member(pointer: tensor, blocks: _Blocks, member: Value, mask: tensor) -> Elements:
    return Elements(pointer, machine.call("team_world_pe", blocks.team, member), mask)
