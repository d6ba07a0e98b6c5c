"""Code of single threads: values that each thread of a program has of its own.

Triton's programs are written for all their threads together. Some libraries also write what one thread does: they ask
which thread it is (:func:`thread_index`) and branch on that, or open a region of such code. Here a value that differs
between threads is a tile with an element for each thread. What is computed from such tiles, element by element, is
computed for all threads at once; a branch or a loop that depends on one is run for one thread after the other
(:mod:`emu.triton.codegen.threads`), in which :func:`thread_index` is the number of that thread.

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
from emu.triton.language.constants import ConstexprLike, constexpr, unwrap
from emu.triton.language.context import Threads, builder, current
from emu.triton.language.conversion import constant, to_tensor
from emu.triton.language.types import block_type, int32
from emu.triton.language.values import TensorLike, tensor
from emu.triton.source import asking_num_warps

WARP_SIZE = 32


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
    """Return the number of threads of a program."""
    return WARP_SIZE * warps_of_launch("a thread's index")


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
    made = builder().arange(0, count())
    known.own.add(made)
    return tensor(made, block_type(int32, [count()]))


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
    return constexpr(1 if which else count())


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
    if state().index is not None:
        raise NotImplementedError(
            "a barrier of a program's threads must stand at the top of a region of threads, or of a branch on a thread's "
            "index: where it stands, only one thread runs at a time"
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


def element(value: tensor, index: Value) -> tensor:
    """Return the value that one thread has of its own."""
    emit, owner = builder(), value.handle.owner
    if owner is not None and value.handle in state().own:
        if owner.code is Code.ARANGE:  # the threads' indices
            return tensor(index, value.dtype)
        if owner.code is Code.SPLAT:
            return tensor(owner.operands[0], value.dtype)
    pair = emit.gather(value.handle, emit.splat(index, (2,)), 0)
    return tensor(emit.split(pair)[0], value.dtype)


@contextlib.contextmanager
def of_one(index: Value) -> Iterator[None]:
    """Make what is emitted inside the block the code of one thread."""
    known = state()
    before, known.index = known.index, index
    try:
        yield
    finally:
        known.index = before


def for_all(value: TensorLike) -> tensor:
    """Return a value as each thread has it: a scalar is repeated, unless the code is that of one thread.

    What every thread does to memory, each with its own scalar, is done to such tiles.
    """
    given = to_tensor(value)
    if given.extents or state().index is not None:
        return given
    made = builder().splat(given.handle, (count(),))
    state().own.add(made)
    return tensor(made, block_type(given.dtype, [count()]))
