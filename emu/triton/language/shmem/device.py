"""What kernels do with other PEs' memory: the device API of ``emu.shmem``.

Symmetric memory lies at the same place of each PE's heap. A program names it by a pointer into its *own* heap, and says
which PE's memory it means: ``pe`` is the number of a PE in the world. Each function checks what it is given: a pointer
that does not lie in the heap, or a PE that does not exist, ends the program with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from emu.comm.ops import Cmp
from emu.comm.sync import signal_numbers
from emu.tile.ir import Region, Value
from emu.tile.objects import Attribute
from emu.tile.ops import Code, Rmw
from emu.tile.types import I32, I64, Pointer
from emu.triton.language import memory
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder, current
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.memory import AtomicFunction, nothing
from emu.triton.language.shmem import elements, machine
from emu.triton.language.shmem.elements import Elements
from emu.triton.language.shmem.machine import WORLD
from emu.triton.language.shmem.spans import ends_of_pointers
from emu.triton.language.types import int1, int32
from emu.triton.language.values import TensorLike, tensor

_WORDS = (32, 64)
_COMPARISONS = {
    "eq": (Cmp.EQ, Code.EQ),
    "ne": (Cmp.NE, Code.NE),
    "gt": (Cmp.GT, Code.GT),
    "ge": (Cmp.GE, Code.GE),
    "lt": (Cmp.LT, Code.LT),
    "le": (Cmp.LE, Code.LE),
}
_SIGNALS = {"set": signal_numbers.SET, "add": signal_numbers.ADD}
_MORE: dict[str, Attribute] = {"order": "acquire", "scope": "sys", "machine": True}


# ---- who there is


def my_pe(team: TensorLike = WORLD) -> tensor:
    """Return this PE's number in a team, an int32.

    Args:
        team: Number of a team, as ``emu.shmem.team`` gives it. Default: all PEs.
    """
    if machine.is_world(team):
        return machine.typed(machine.read("my_pe"), int32)
    return machine.typed(machine.call("team_pe", machine.check_team(team)), int32)


def n_pes(team: TensorLike = WORLD) -> tensor:
    """Return the number of PEs of a team, an int32.

    Args:
        team: As of :func:`my_pe`.
    """
    if machine.is_world(team):
        return machine.typed(machine.read("n_pes"), int32)
    return machine.typed(machine.call("team_size", machine.check_team(team)), int32)


def world_pe(pe: TensorLike, team: TensorLike) -> tensor:
    """Return the world number of a team's member, an int32.

    Args:
        pe: Its number in the team.
        team: As of :func:`my_pe`.
    """
    emit = builder()
    member, group = machine.integer(pe, "pe"), machine.check_team(team)
    found = machine.call("team_world_pe", group, member)
    machine.demand(
        emit.compare(Code.GE, found, machine.number(0)),
        "pe must be the number of a member of the team",
        {"pe": member, "team": group, "my_pe": machine.read("my_pe")},
    )
    return machine.typed(found, int32)


# ---- loads, stores, atomics: of elements


def remote(pointer: tensor, pe: TensorLike) -> tensor:
    """Return the pointer, or pointers, to the same place of another PE's memory.

    ``tl.load``, ``tl.store`` and the atomic operations take it as they take any other. Only the peer is checked: where
    the pointers lie is looked at by :func:`load` and :func:`store`.

    Args:
        pointer: A pointer into this PE's heap, or a tensor of them.
        pe: The PE; it is on this PE's host.
    """
    given = machine.check_pointer(pointer, "pointer", single=False)
    return machine.translated(given, machine.check_here(machine.check_peer(pe)))


def load(
    pointer: tensor,
    pe: TensorLike,
    mask: TensorLike | None = None,
    other: TensorLike | None = None,
) -> tensor:
    """Read from another PE's memory as ``tl.load`` reads.

    Args:
        pointer: A pointer into this PE's heap, or a tensor of them.
        pe: The PE whose memory is read.
        mask: As of ``tl.load``.
        other: As of ``tl.load``.
    """
    at, lanes = _checked(pointer, pe, mask)
    machine.carry(
        at.peer, at.pointer, lanes, fetches=True
    )  # before: no call comes between a tile and its use
    return elements.load(at, other)


def store(
    pointer: tensor, value: TensorLike, pe: TensorLike, mask: TensorLike | None = None
) -> tensor:
    """Write to another PE's memory as ``tl.store`` writes; a PE that waits for what is written looks again.

    Args:
        pointer: A pointer into this PE's heap, or a tensor of them.
        value: As of ``tl.store``.
        pe: The PE whose memory is written.
        mask: As of ``tl.store``.
    """
    at, lanes = _checked(pointer, pe, mask)
    elements.store(at, value)
    machine.carry(at.peer, at.pointer, lanes, sends=True)
    return nothing()


def _checked(
    pointer: object, pe: TensorLike, mask: TensorLike | None
) -> tuple[Elements, Value | None]:
    """Return checked elements of a PE's memory, and the lanes that count, i1."""
    given = machine.check_pointer(pointer, "pointer", single=False)
    peer = machine.check_peer(pe)
    if not current().over_hosts:
        machine.check_here(peer)
    lanes = machine.mask_of(mask, given)
    ends = ends_of_pointers(given.handle) if given.extents else None
    machine.check_lanes(given, "pointer", lanes, ends)
    return Elements(given, peer, mask), lanes


class RemoteAtomic(Protocol):
    """Function with the parameters of :func:`atomic_add`."""

    def __call__(
        self,
        pointer: tensor,
        value: TensorLike,
        pe: TensorLike,
        mask: TensorLike | None = None,
        sem: ConstexprLike[str | None] = None,
    ) -> tensor:
        """Change memory of another PE, each element atomically; return what was there before."""


def _remote(function: AtomicFunction, kind: Rmw, what: str) -> RemoteAtomic:
    """Make the function for other PEs' memory of one of the language's atomic operations."""

    def remote_function(
        pointer: tensor,
        value: TensorLike,
        pe: TensorLike,
        mask: TensorLike | None = None,
        sem: ConstexprLike[str | None] = None,
    ) -> tensor:
        at, lanes = _checked(pointer, pe, mask)
        old = elements.update(
            at, kind, value, lambda there: function(there, value, mask, sem, "sys")
        )
        machine.carry(at.peer, at.pointer, lanes, sends=True, fetches=True)
        return old

    name: str = getattr(function, "__name__")  # noqa: B009 - the protocol has none
    remote_function.__name__ = remote_function.__qualname__ = name
    remote_function.__doc__ = what
    return remote_function


_ADD = """Do ``tl.atomic_add`` on another PE's memory; return what was there before.

Args:
    pointer: A pointer into this PE's heap, or a tensor of them.
    value: The addend.
    pe: The PE whose memory changes.
    mask: Memory changes only where this is true.
    sem: As of ``tl.atomic_add``.
"""

atomic_add = _remote(memory.atomic_add, Rmw.ADD, _ADD)
atomic_min = _remote(memory.atomic_min, Rmw.MIN, "Keep the smaller value; as :func:`atomic_add`.")
atomic_max = _remote(memory.atomic_max, Rmw.MAX, "Keep the larger value; as :func:`atomic_add`.")
atomic_and = _remote(memory.atomic_and, Rmw.AND, "Store the bitwise and; as :func:`atomic_add`.")
atomic_or = _remote(memory.atomic_or, Rmw.OR, "Store the bitwise or; as :func:`atomic_add`.")
atomic_xor = _remote(
    memory.atomic_xor, Rmw.XOR, "Store the bitwise exclusive or; as :func:`atomic_add`."
)
atomic_xchg = _remote(memory.atomic_xchg, Rmw.EXCHANGE, "Store the value; as :func:`atomic_add`.")


def atomic_cas(
    pointer: tensor,
    cmp: TensorLike,
    value: TensorLike,
    pe: TensorLike,
    sem: ConstexprLike[str | None] = None,
) -> tensor:
    """Do ``tl.atomic_cas`` on another PE's memory; return what was there before.

    Args:
        pointer: A pointer into this PE's heap, or a tensor of them.
        cmp: Value that must be there.
        value: What replaces it.
        pe: The PE whose memory changes.
        sem: As of ``tl.atomic_cas``.
    """
    at, _ = _checked(pointer, pe, None)
    old = elements.compare_and_swap(
        at, cmp, value, lambda there: memory.atomic_cas(there, cmp, value, sem, "sys")
    )
    machine.carry(at.peer, at.pointer, None, sends=True, fetches=True)
    return old


# ---- blocks of bytes


def put(dst: tensor, src: tensor, nbytes: TensorLike, pe: TensorLike) -> tensor:
    """Copy memory of this PE to another one; it is there when the call returns.

    Args:
        dst: Where to: a pointer into this PE's heap.
        src: Where from: any memory of this PE.
        nbytes: Number of bytes.
        pe: The PE whose memory is written.
    """
    peer, size, source = machine.check_peer(pe), machine.check_size(nbytes), _source(src)
    target = machine.check_pointer(dst, "dst", single=True)
    machine.call("put", peer, machine.offset_in_heap(target, "dst", size), source, size)
    return nothing()


def _source(src: object) -> Value:
    return machine.address_of(machine.check_pointer(src, "src", single=True))


def get(dst: tensor, src: tensor, nbytes: TensorLike, pe: TensorLike) -> tensor:
    """Copy memory of another PE to this one.

    Args:
        dst: Where to: any memory of this PE.
        src: Where from: a pointer into this PE's heap.
        nbytes: Number of bytes.
        pe: The PE whose memory is read.
    """
    peer, size = machine.check_peer(pe), machine.check_size(nbytes)
    target = machine.address_of(machine.check_pointer(dst, "dst", single=True))
    source = machine.check_pointer(src, "src", single=True)
    machine.call("get", peer, machine.offset_in_heap(source, "src", size), target, size)
    return nothing()


def put_signal(
    dst: tensor,
    src: tensor,
    nbytes: TensorLike,
    flag: tensor,
    value: TensorLike,
    pe: TensorLike,
    op: ConstexprLike[str] = "set",
) -> tensor:
    """Copy memory to another PE as :func:`put`, then signal there as :func:`signal`.

    Who sees the signal sees what was copied.

    Args:
        dst: As of :func:`put`.
        src: As of :func:`put`.
        nbytes: As of :func:`put`.
        flag: The word: a pointer into this PE's heap, to an integer of 32 or 64 bits.
        value: What it becomes, or what is added to it.
        pe: The PE whose memory is written.
        op: ``"set"`` or ``"add"``.
    """
    operation = machine.number(_operation(op))
    return put_signal_by(dst, src, nbytes, (flag, value, operation), pe)


def put_signal_by(
    dst: tensor,
    src: tensor,
    nbytes: TensorLike,
    how: tuple[tensor, TensorLike, Value],
    pe: TensorLike,
) -> tensor:
    """Do :func:`put_signal` by a flag, a value and an operation, i64, that may be known only when the kernel runs."""
    flag, value, operation = how
    peer, size, source = machine.check_peer(pe), machine.check_size(nbytes), _source(src)
    target = machine.check_pointer(dst, "dst", single=True)
    offset = machine.offset_in_heap(target, "dst", size)
    where, width = _word(flag)
    given = (where, width, operation, _bits(flag, value))
    machine.call("put_signal", peer, offset, source, size, *given)
    return nothing()


# ---- signals and waits


def signal(
    flag: tensor, value: TensorLike, pe: TensorLike, op: ConstexprLike[str] = "set"
) -> tensor:
    """Change a word of another PE atomically, and wake the PE if it waits.

    What this program has written before is not ordered before it unless :func:`fence` was called in between.

    Args:
        flag: The word: a pointer into this PE's heap, to an integer of 32 or 64 bits.
        value: What it becomes, or what is added to it.
        pe: The PE whose word changes.
        op: ``"set"`` or ``"add"``.
    """
    return signal_by(flag, value, pe, machine.number(_operation(op)))


def signal_by(flag: tensor, value: TensorLike, pe: TensorLike, operation: Value) -> tensor:
    """Do :func:`signal` by an operation, i64, that may be known only when the kernel runs."""
    peer = machine.check_peer(pe)
    where, width = _word(flag)
    zero = machine.number(0)
    machine.call("atomic", peer, where, width, operation, _bits(flag, value), zero)
    return nothing()


def _operation(op: ConstexprLike[str]) -> int:
    name = unwrap(op)
    if name not in _SIGNALS:
        raise ValueError(f"op must be one of 'set', 'add', but got {name!r}")
    return _SIGNALS[name]


def _word(flag: object) -> tuple[Value, Value]:
    """Return where in the heap a word lies, and its bytes."""
    word = machine.check_pointer(flag, "flag", single=True, widths=_WORDS)
    nbytes = machine.element_of(word).primitive_bitwidth // 8
    width = machine.number(nbytes)
    offset = machine.offset_in_heap(word, "flag", width)
    machine.check_aligned(word, "flag", nbytes)
    return offset, width


def _bits(flag: tensor, value: TensorLike) -> Value:
    """Return a value as its word holds it, as i64."""
    machine.integer(value, "value")
    return machine.integer(cast_to(to_tensor(value), machine.element_of(flag)), "value")


def wait_until(flag: tensor, cmp: ConstexprLike[str], value: TensorLike) -> tensor:
    """Wait until a word of this PE's own memory compares as asked; return what it held then.

    Other programs of the grid run meanwhile. A wait in vain is reported with its line, and what it waits for.

    Args:
        flag: The word: a pointer into this PE's heap, to an integer of 32 or 64 bits.
        cmp: ``"eq"``, ``"ne"``, ``"gt"``, ``"ge"``, ``"lt"`` or ``"le"``.
        value: What it is compared with.
    """
    number, code = _comparison(cmp)
    return wait(
        flag, machine.number(int(number)), value, lambda a, b: builder().compare(code, a, b)
    )


def wait(
    flag: tensor,
    comparison: Value,
    value: TensorLike,
    holds: Callable[[Value, Value], Value],
) -> tensor:
    """Wait as :func:`wait_until` does, by a comparison that may be known only when the kernel runs.

    Args:
        flag: As of :func:`wait_until`.
        comparison: Number of the comparison, :class:`emu.Cmp`, i64.
        value: As of :func:`wait_until`.
        holds: Emits whether the word's value compares with the other one as asked, i1.
    """
    emit = builder()
    where, width = _word(flag)
    element = machine.element_of(flag)
    machine.integer(value, "value")
    wanted = cast_to(to_tensor(value), element)
    before, after = Region(), Region([Value(wanted.handle.type)])
    begun = machine.call("wait_begins")
    with emit.into(before):
        seen = emit.load(flag.handle, order=_MORE)
        emit.yield_(emit.unary(Code.NOT, holds(seen, wanted.handle)), seen)
    with emit.into(after):
        emit.yield_()
    (found,) = emit.while_([], before, after)
    if not element.is_int_signed():
        width = emit.unary(Code.NEG, width)
    machine.call("waited", where, width, comparison, machine.integer(wanted, "value"), begun)
    return tensor(found, element)


def _comparison(cmp: ConstexprLike[str]) -> tuple[Cmp, Code]:
    name = unwrap(cmp)
    if name not in _COMPARISONS:
        said = ", ".join(map(repr, _COMPARISONS))
        raise ValueError(f"cmp must be one of {said}, but got {name!r}")
    return _COMPARISONS[name]


def test(flag: tensor, cmp: ConstexprLike[str], value: TensorLike) -> tensor:
    """Return whether :func:`wait_until` would return at once, an int1.

    Args:
        flag: As of :func:`wait_until`.
        cmp: As of :func:`wait_until`.
        value: As of :func:`wait_until`.
    """
    emit = builder()
    _, code = _comparison(cmp)
    _word(flag)
    machine.integer(value, "value")
    wanted = cast_to(to_tensor(value), machine.element_of(flag))
    seen = emit.load(flag.handle, order=_MORE)
    return tensor(emit.compare(code, seen, wanted.handle), int1)


# ---- order


def fence() -> tensor:
    """Order this PE's stores to each PE: those before it are seen before those after it."""
    machine.call("fence")
    return nothing()


def quiet() -> tensor:
    """Return when all stores of this PE are complete."""
    machine.call("quiet")
    return nothing()


def barrier(team: TensorLike = WORLD) -> tensor:
    """Wait until every PE of a team has come, with all stores of all of them complete.

    One program of each PE calls it. It meets a ``barrier()`` of the same group on the host, too.

    Args:
        team: As of :func:`my_pe`.
    """
    emit, group = builder(), machine.check_team(team)
    generation = machine.call("arrive", group)
    base = emit.binary(
        Code.ADD,
        machine.read("groups"),
        emit.binary(Code.MUL, group, machine.read("group_bytes")),
    )
    counter = emit.cast(emit.binary(Code.ADD, base, machine.number(4)), Pointer(I32))
    before, after = Region(), Region()
    with emit.into(before):
        now = emit.cast(emit.load(counter, order=_MORE), I64)
        emit.yield_(emit.compare(Code.EQ, now, generation))
    with emit.into(after):
        emit.yield_()
    emit.while_([], before, after)
    done = machine.number(signal_numbers.DONE)
    came_last = emit.compare(Code.GE, generation, done)
    outcome = emit.select(came_last, generation, machine.call("passed", group, generation))
    machine.demand(
        emit.compare(Code.EQ, outcome, done),
        "barrier must be called by all PEs of its team, but another one called a collective instead",
        {"team": group, "my_pe": machine.read("my_pe")},
    )
    return nothing()
