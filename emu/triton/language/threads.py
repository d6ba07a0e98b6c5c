"""Code of single threads: values that each thread of a program has of its own.

Triton's programs are written for all their threads together. Some libraries also write what one thread does: they ask
which thread it is (:func:`thread_index`) and branch on that, or open a region of such code. Here a value that differs
between threads is a tile with an element for each thread. What is computed from such tiles, element by element, is
computed for all threads at once; a branch or a loop that depends on one is run for one thread after the other
(:mod:`emu.triton.codegen.threads`), in which :func:`thread_index` is the number of that thread. Where the threads of a
warp all go the same way, it is run for one warp after the other, and values are tiles with an element for each of the
warp's threads.

Which values are a thread's own cannot be seen from their shape, as tiles may have as many elements: it follows from how
they were computed, beginning with a thread's index.

``_semantic`` is what functions that are written for Triton hand on; it has no part in this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NoReturn

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import I32
from emu.triton.language.constants import ConstexprLike, constexpr, unwrap
from emu.triton.language.context import Threads, Varies, builder, current
from emu.triton.language.conversion import constant, to_tensor
from emu.triton.language.types import block_type, dtype, int32
from emu.triton.language.values import TensorLike, tensor
from emu.triton.language.variation import WARP_SIZE, everything, note, relevant, variation
from emu.triton.source import asking_num_warps


def warps_of_launch(asked: str) -> int:
    """Return the number of warps of a program, for the function that errors name.

    Raises:
        RuntimeError: The kernel reaches that function by something else than names, so that its key does not know.
    """
    found = current().num_warps
    if found is None:
        raise RuntimeError(
            f"{asked} must be called by its name, in the kernel or in a function that this calls by its name"
        )
    return found


def count() -> int:
    """Return the number of threads that run together: a program's, in code of one warp those of a warp."""
    warps = warps_of_launch("a thread's index")
    return WARP_SIZE * (warps if state().warp is None else 1)


def state() -> Threads:
    """Return what the kernel at hand knows of threads."""
    context = current()
    if context.threads is None:
        context.threads = Threads()
    return context.threads


@asking_num_warps
def thread_index(axis: ConstexprLike[int] = 0, _semantic: object = None) -> tensor:
    """Return the number of the running thread in its program, an int32; 0 along the axes 1 and 2.

    Args:
        axis: 0, 1 or 2.

    Raises:
        ValueError: The axis is another.
    """
    which = unwrap(axis)
    if which not in (0, 1, 2):
        raise ValueError(f"axis must be 0, 1 or 2, but got {which!r}")
    if which:
        return constant(0, int32)
    known = state()
    if known.index is not None:
        return tensor(known.index, int32)
    made = _places()
    known.indices.add(made)
    return own_value(made, int32, everything())


def _places() -> Value:
    """Return the indices of the threads that run together."""
    emit, extent, warp = builder(), count(), state().warp
    made = emit.arange(0, extent)
    if warp is None:
        return made
    return emit.binary(Code.ADD, emit.splat(_first_of(warp), (extent,)), made)


def _first_of(warp: Value) -> Value:
    """Return the index of a warp's first thread."""
    return builder().binary(Code.MUL, warp, builder().constant(WARP_SIZE, I32))


def own_value(made: Value, element: dtype, varies: Varies) -> tensor:
    """Return a tile as a value of threads.

    Args:
        made: The tile.
        element: Its dtype.
        varies: Among which threads it differs.
    """
    state().own.add(made)
    note(made, varies)
    return tensor(made, block_type(element, list(made.shape)))


@asking_num_warps
def lane_index(_semantic: object = None) -> tensor:
    """Return the number of the running thread in its warp, an int32."""
    found: tensor = thread_index() % WARP_SIZE
    return found


def threads_per_warp(_semantic: object = None) -> constexpr:
    """Return the number of threads of a warp."""
    return constexpr(WARP_SIZE)


@asking_num_warps
def threads_of_program(axis: ConstexprLike[int] = 0, _semantic: object = None) -> constexpr:
    """Return the number of threads of a program along an axis: 1 along the axes 1 and 2.

    Args:
        axis: 0, 1 or 2.

    Raises:
        ValueError: The axis is another.
    """
    which = unwrap(axis)
    if which not in (0, 1, 2):
        raise ValueError(f"axis must be 0, 1 or 2, but got {which!r}")
    return constexpr(1 if which else WARP_SIZE * warps_of_launch("the number of threads"))


@asking_num_warps
def simt_exec_region() -> NoReturn:
    """Open a region of code of single threads: ``with simt_exec_region() as (thread_index, number_of_threads):``.

    Each thread runs the region, one after the other; :func:`sync_threads` divides it into parts.

    Raises:
        TypeError: It is called elsewhere than in a ``with``.
    """
    raise TypeError("simt_exec_region() must stand in a `with`, as its only item")


def sync_threads(_semantic: object = None) -> None:
    """Wait for the other threads of the program: what they did before is done.

    Raises:
        NotImplementedError: It stands in a loop that threads run one after the other, or in a branch inside of such code.
    """
    known = state()
    if known.index is not None or known.warp is not None:
        runs = "thread" if known.index is not None else "warp"
        raise NotImplementedError(
            "a barrier of a program's threads must stand at the top of a region of threads, or of a branch on a thread's "
            f"index: where it stands, only one {runs} runs at a time"
        )


def check_warp_is_together(what: str) -> None:
    """Refuse what the threads of a warp do together where they run one after the other.

    Raises:
        NotImplementedError: They do.
    """
    if state().index is not None:
        raise NotImplementedError(
            f"{what} must stand where all threads of a warp run together: not in a branch or a loop that only some of "
            "them take, nor in a region of threads"
        )


def is_own(value: object) -> bool:
    """Return whether a value has an element for each thread."""
    known = current().threads
    return known is not None and isinstance(value, tensor) and known.have(value.handle)


def inherit(made: Value, source: Value) -> None:
    """Let a value that a loop or branch makes of another be a thread's own where that one is."""
    known = current().threads
    if known is not None and known.have(source):
        known.own.add(made)
        note(made, variation(source))


def widen(value: object, now: object) -> bool:
    """Let a value that a loop carries vary as what the loop gives; return whether it did not yet."""
    if not is_own(value) or not is_own(now):
        return False
    assert isinstance(value, tensor)
    assert isinstance(now, tensor)
    varies = variation(now.handle)
    if not varies & ~variation(value.handle):
        return False
    note(value.handle, varies)
    return True


def element(value: tensor, index: Value, varies: Varies | None = None) -> tensor:
    """Return the value that one thread has of its own.

    Args:
        value: The value of threads.
        index: The thread's place among those that it has an element for.
        varies: How the result varies. Default: as the value does.
    """
    emit, owner, known = builder(), value.handle.owner, state()
    if value.handle in known.indices and known.index is not None:
        return tensor(known.index, value.dtype)
    if owner is not None and owner.code is Code.SPLAT and value.handle in known.own:
        return tensor(owner.operands[0], value.dtype)
    pair = emit.gather(value.handle, emit.splat(index, (2,)), 0)
    found = emit.split(pair)[0]
    note(found, variation(value.handle) if varies is None else varies)
    return tensor(found, value.dtype)


def part_of_warp(value: tensor, warp: Value) -> tensor:
    """Return what the threads of one warp have of a value: a scalar if all have the same."""
    emit, varies = builder(), variation(value.handle)
    if value.handle in state().indices:
        return thread_index()
    first = _first_of(warp)
    if not varies & Varies.LANES:
        return element(value, first)
    lanes = emit.binary(Code.ADD, emit.splat(first, (WARP_SIZE,)), emit.arange(0, WARP_SIZE))
    return own_value(emit.gather(value.handle, lanes, 0), value.dtype, varies)


def settled(value: tensor) -> tensor:
    """Return a value that all threads have alike which run together as a scalar; any other as it is."""
    if not is_own(value) or variation(value.handle) & relevant():
        return value
    return element(value, builder().constant(0, I32))


def goes_by_warps(*values: tensor) -> bool:
    """Return whether all threads of a warp have the same, while warps may differ, and run together."""
    known, varies = state(), Varies.NOT
    for value in values:
        varies |= variation(value.handle) if is_own(value) else Varies.NOT
    return known.warp is None and varies == Varies.WARPS


@contextlib.contextmanager
def of_one(place: Value) -> Iterator[None]:
    """Make what is emitted inside the block the code of one thread.

    Args:
        place: Its place among those that ran together before.
    """
    known = state()
    known.varies[place] = relevant()
    before, made = known.index, place
    if known.warp is not None:
        made = builder().binary(Code.ADD, _first_of(known.warp), place)
    known.index = made
    known.indices.add(made)
    note(made, everything())
    try:
        yield
    finally:
        known.index = before


@contextlib.contextmanager
def of_warp(warp: Value) -> Iterator[None]:
    """Make what is emitted inside the block the code of one warp."""
    known = state()
    known.varies[warp] = everything() & Varies.WARPS
    known.warp = warp
    try:
        yield
    finally:
        known.warp = None


def for_all(value: TensorLike) -> tensor:
    """Return a value as each thread has it: a scalar is repeated, unless the code is that of one thread.

    What every thread does to memory, each with its own scalar, is done to such tiles.
    """
    given = to_tensor(value)
    if given.extents or state().index is not None:
        return given
    made = builder().splat(given.handle, (count(),))
    return own_value(made, given.dtype, variation(given.handle))
