"""Signals: words in symmetric memory that programs and PEs set and wait for."""

from __future__ import annotations

from emu.comm.ops import Cmp
from emu.comm.sync import signal_numbers
from emu.tile.ir import Region, Value
from emu.tile.objects import Attribute
from emu.tile.ops import Code
from emu.triton.language import memory
from emu.triton.language.choices import one_of
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, constant, to_tensor
from emu.triton.language.shmem import device, machine
from emu.triton.language.types import int32
from emu.triton.language.values import TensorLike, tensor

_SCOPES = ("gpu", "sys")
_WAITS = ("relaxed", "acquire")
_WORDS = (32, 64)
_OPERATIONS = {"set": signal_numbers.SET, "add": signal_numbers.ADD}
_REACHES = ("gpu", "intra_node", "inter_node")
_ALL_NODES = -1


def _check_axis(axis: ConstexprLike[int]) -> None:
    if unwrap(axis) != _ALL_NODES:
        raise ValueError(f"axis must be -1, as the PEs have no grid, but got {unwrap(axis)!r}")


def rank(axis: ConstexprLike[int] = _ALL_NODES, _semantic: object = None) -> tensor:
    """Return this PE's number, an int32.

    Args:
        axis: -1: among all.

    Raises:
        ValueError: The axis is another.
    """
    _check_axis(axis)
    return device.my_pe()


def num_ranks(axis: ConstexprLike[int] = _ALL_NODES, _semantic: object = None) -> tensor:
    """Return the number of PEs, an int32.

    Args:
        axis: -1: of all.

    Raises:
        ValueError: The axis is another.
    """
    _check_axis(axis)
    return device.n_pes()


def symm_at(ptr: tensor, rank: TensorLike, _semantic: object = None) -> tensor:
    """Return the pointer to the same place of another PE's memory.

    Args:
        ptr: A pointer into this PE's symmetric heap.
        rank: The PE.

    Raises:
        TypeError: ``ptr`` is no single pointer.
    """
    return device.remote(machine.check_pointer(ptr, "ptr", single=True), rank)


def wait(
    barrierPtrs: tensor,
    numBarriers: TensorLike,
    scope: ConstexprLike[str],
    semantic: ConstexprLike[str],
    waitValue: TensorLike = 1,
    _semantic: object = None,
) -> tensor:
    """Wait until words hold a value; return a token for :func:`consume_token`, an int32.

    Args:
        barrierPtrs: Pointer to the first word, an integer of 32 or 64 bits; also into another PE's memory.
        numBarriers: Number of words, one after the other.
        scope: ``"gpu"`` or ``"sys"``.
        semantic: ``"acquire"`` or ``"relaxed"``.
        waitValue: The value.

    Raises:
        TypeError: ``barrierPtrs`` is no such pointer, or a number no integer.
        ValueError: ``scope`` or ``semantic`` is unknown.
    """
    first = machine.check_pointer(barrierPtrs, "barrierPtrs", single=True, widths=_WORDS)
    order: dict[str, Attribute] = {
        "order": one_of("semantic", semantic, _WAITS),
        "scope": one_of("scope", scope, _SCOPES),
        "machine": True,
    }
    count = machine.check_size(numBarriers, "numBarriers")
    machine.integer(waitValue, "waitValue")
    wanted = cast_to(to_tensor(waitValue), machine.element_of(first))
    emit = builder()
    with emit.for_(machine.number(0), count, machine.number(1), []) as loop:
        word = tensor(emit.ptr_add(first.handle, loop.index), first.dtype)
        _wait_for(word, wanted, order)
        emit.yield_()
    return constant(0, int32)


def _wait_for(word: tensor, wanted: tensor, order: dict[str, Attribute]) -> None:
    """Spin until a word, of whatever PE, holds a value; tell who watches."""
    emit = builder()
    before, after = Region(), Region()
    begun = machine.call("wait_begins")
    with emit.into(before):
        seen = emit.load(word.handle, order=order)
        emit.yield_(emit.compare(Code.NE, seen, wanted.handle))
    with emit.into(after):
        emit.yield_()
    emit.while_([], before, after)
    # Counted from this PE's heap: a word of another PE's lies before or behind it.
    offset = emit.binary(Code.SUB, machine.address_of(word), machine.read("heap"))
    inside, outside = Region(), Region()
    with emit.into(inside):
        bits = machine.element_of(word).primitive_bitwidth // 8
        width = machine.number(bits if machine.element_of(word).is_int_signed() else -bits)
        value = machine.integer(wanted, "waitValue")
        machine.call("waited", offset, width, machine.number(int(Cmp.EQ)), value, begun)
        emit.yield_()
    with emit.into(outside):
        emit.yield_()
    emit.if_(_is_symmetric(offset), inside, outside)


def _is_symmetric(offset: Value) -> Value:
    """Return whether a place, counted from this PE's heap, lies in that of any PE."""
    emit, stride = builder(), machine.read("stride")
    start = emit.binary(Code.MUL, machine.read("my_pe"), stride)
    place = emit.binary(Code.ADD, offset, start)
    end = emit.binary(Code.MUL, machine.read("n_pes"), stride)
    return emit.binary(
        Code.AND,
        emit.compare(Code.GE, place, machine.number(0)),
        emit.compare(Code.LT, place, end),
    )


def consume_token(value: object, token: object, _semantic: object = None) -> object:
    """Return a value, which may be used only once the wait is over that gave a token.

    Args:
        value: A tensor or a descriptor.
        token: What :func:`wait` returned.

    Raises:
        TypeError: ``token`` is no integer.
    """
    if not isinstance(token, tensor) or not token.dtype.is_int():
        got = token if isinstance(token, tensor) else repr(unwrap(token))
        raise TypeError(f"token must be what wait() returned, but got {got}")
    return value


def notify(
    ptr: tensor,
    rank: TensorLike,
    signal: TensorLike = 1,
    sig_op: ConstexprLike[str] = "set",
    comm_scope: ConstexprLike[str] = "inter_node",
    _semantic: object = None,
) -> tensor:
    """Set a word of a PE, or add to it, and wake who waits for it.

    Within a node, what this program has written before is there when the word is; between nodes only with a fence before.

    Args:
        ptr: Pointer to the word, 64 bits: into this PE's symmetric heap; for ``"gpu"`` any memory of this PE.
        rank: The PE; without meaning for ``"gpu"``.
        signal: What the word becomes, or what is added to it.
        sig_op: ``"set"`` or ``"add"``.
        comm_scope: Who is told: ``"gpu"`` (this PE alone), ``"intra_node"`` or ``"inter_node"``.

    Raises:
        TypeError: ``ptr`` is no such pointer, or a number no integer.
        ValueError: ``sig_op`` or ``comm_scope`` is unknown.
    """
    word = machine.check_pointer(ptr, "ptr", single=True, widths=(64,))
    operation = one_of("sig_op", sig_op, tuple(_OPERATIONS))
    reach = one_of("comm_scope", comm_scope, _REACHES)
    if reach == "gpu":
        machine.integer(signal, "signal")
        change = memory.atomic_xchg if operation == "set" else memory.atomic_add
        change(word, signal, None, "release", "gpu")
        return memory.nothing()
    if reach == "intra_node":
        device.fence()
    return device.signal_by(word, signal, rank, machine.number(_OPERATIONS[operation]))
