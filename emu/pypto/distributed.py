"""Communication between PEs: ``pypto.distributed``.

Each function checks its arguments, then adds a node to the dataflow graph. Only ``pred``, tensors,
scalar reads, loops and ifs order nodes: source order alone implies no ordering.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from emu.comm.ops import AtomicOp as AtomicType
from emu.comm.ops import Cmp as OpType
from emu.kernels.core.messages import shown
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import DT_FP32, FP32, HALVES
from emu.pypto.errors import ArgumentError, DTypeError
from emu.pypto.groups import my_symbolic_pe
from emu.pypto.hangs import slots_of
from emu.pypto.node import Node
from emu.pypto.order import op_of
from emu.pypto.pieces import divides
from emu.pypto.shmem import (
    Memory,
    ShmemTensor,
    check_data,
    check_extent,
    check_shmem,
    create_shmem_signal,
    create_shmem_tensor,
    shmem_view,
    subview,
)
from emu.pypto.submission import nodes_of, run_op
from emu.pypto.symbolic import Shape, SymInt, as_flag, as_int, as_ints, check_rank
from emu.pypto.tensor import COMPLETE, Tensor, check_tensor, new_tensor, token
from emu.pypto.tiled import Tiled, run_signals, run_tiled
from emu.pypto.tiles import vec_tile
from emu.pypto.transfers import fetch, store
from emu.pypto.waits import BarrierWait, TileWait
from emu.pypto.worlds import give_way

if TYPE_CHECKING:
    from emu.comm.world.array import SymmetricArray

Pred = Sequence[Tensor] | None
SET, ADD = AtomicType.SET, AtomicType.ADD
_LISTS = (list, tuple)
_LOOKS = 4
"""How often a wait looks before it lets what is behind it wait, where another PE may need the core to signal."""

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def shmem_put(
    src: Tensor,
    offsets: Sequence[SymInt],
    dst: ShmemTensor,
    dst_pe: SymInt,
    *,
    put_op: AtomicType = SET,
    pred: Pred = None,
) -> Tensor:
    """Store the valid part of a tensor into PE ``dst_pe``'s memory, tile by tile.

    Args:
        src: 2 to 4 axes, not empty, at most 2^31 - 1 elements; of ``dst``'s data type.
        offsets: Corner in ``dst``, one entry per axis, each below the extent there.
        dst: Symmetric data of ``src``'s rank, at least as large as ``offsets`` and ``src`` need.
        dst_pe: PE of the group, from 0.
        put_op: ``SET`` replaces, not atomically as a whole; ``ADD`` adds, atomically element by element,
            and rounds to the data type at every addition. Default: SET.
        pred: Tensors and tokens that must be complete first; not ``src``, and none empty.

    Returns:
        The token of completion: the data are there.

    Raises:
        ArgumentError: If an argument breaks a rule; nothing is changed then.
        DTypeError: If the data types differ (but see :func:`pypto.set_options`).
        TileShapeError: If ``set_vec_tile_shapes`` was not called, or with another rank than ``src``'s.
    """
    if not isinstance(src, Tensor) or not isinstance(dst, ShmemTensor) or not dst.shape:
        check_tensor(src, "src")
        check_data(dst, "dst")
    shape, memory = src.shape, dst.memory
    if not memory.alive:
        memory.check_alive("dst")
    widen = src.dtype is not memory.dtype and _mixed(src, dst, put_op)
    check_extent(shape, "src")
    low = _check_place(shape, offsets, dst)
    pe = _check_pe(dst_pe, memory.n_pes, "dst_pe")
    if put_op is not SET and put_op is not ADD:
        raise ArgumentError(
            f"put_op must be AtomicType.SET or AtomicType.ADD, but got {shown(put_op)}"
        )
    tile = vec_tile(shape, "shmem_put", "src")
    deps = None if pred is None else _check_pred(pred, src)
    graph = CONTEXT.graph
    if src.buffer.batch == graph.batch_number:
        graph.flush()
    array = src.array

    def move() -> None:
        store(memory, pe, low, array.astype(FP32) if widen else array, tile, put_op)

    if graph.idle and not widen:
        # The common case at once: nothing is pending, so nothing is waited for.
        move()
        return COMPLETE
    if graph.is_plain and not src.buffer.pending and src.node is None and not _is_held(deps):
        graph.act("shmem_put", move)
        return COMPLETE

    def move_part(first: Shape, extent: Shape) -> None:
        part = array[_cut(first, extent)]
        values = part.astype(FP32) if widen else part
        store(memory, pe, tuple(map(int.__add__, low, first)), values, tile, put_op)

    op = op_of(graph.order, "shmem_put", graph.scope, pred, reads=(src,))
    node = run_tiled("shmem_put", op.doing(move_part), Tiled(memory, low, tile, src, False), deps)
    node = op.submitted(node)
    if node is not None:
        node.detail = lambda: f"{list(shape)} to {memory.name} at {list(low)} on PE {pe}"
    return token(node)


shmem_store = shmem_put  # PyPTO has the op under both names


def shmem_get(
    src: ShmemTensor,
    src_pe: SymInt,
    shape: Sequence[SymInt] | None = None,
    offsets: Sequence[SymInt] | None = None,
    *,
    valid_shape: Sequence[SymInt] | None = None,
    pred: Pred = None,
) -> Tensor:
    """Fetch a rectangle of PE ``src_pe``'s memory, tile by tile.

    Args:
        src: Symmetric data.
        src_pe: PE of the group, from 0.
        shape: Extents of the rectangle. Default: those of ``src``.
        offsets: Its corner in ``src``. Default: the origin.
        valid_shape: The part to fetch; the rest reads as 0. Default: what is valid in ``src``.
        pred: Tensors and tokens that must be complete first.

    Returns:
        The data.

    Raises:
        ArgumentError: If an argument breaks a rule.
        TileShapeError: If ``set_vec_tile_shapes`` was not called, or with another rank.
    """
    part = subview(check_data(src, "src"), shape, offsets, valid_shape)
    memory = part.memory
    pe = _check_pe(src_pe, memory.n_pes, "src_pe")
    tile = vec_tile(part.shape, "shmem_get", "src")
    deps = None if pred is None else _check_pred(pred, None)
    out = new_tensor(part.shape, memory.dtype, part.valid_shape)
    array, low, graph = out.array, part.low, CONTEXT.graph
    if graph.is_plain and not _is_held(deps):
        if memory.moves_rows:  # in a trace it is the World's operation at this line
            fetch(memory, pe, low, array, tile)
        else:
            graph.act("shmem_get", lambda: fetch(memory, pe, low, array, tile))
        return out

    def load(first: Shape, extent: Shape) -> None:
        at = tuple(map(int.__add__, low, first))
        fetch(memory, pe, at, array[_cut(first, extent)], tile)

    op = op_of(graph.order, "shmem_get", graph.scope, pred, writes=(out,))
    node = run_tiled("shmem_get", op.doing(load), Tiled(memory, low, tile, out, True), deps)
    node = op.submitted(node)
    if node is not None:
        node.detail = lambda: f"{list(part.shape)} of {memory.name} at {list(low)} on PE {pe}"
    return out


shmem_load = shmem_get  # PyPTO has the op under both names


def shmem_signal(
    src: ShmemTensor,
    src_pe: SymInt,
    signal: int,
    shape: Sequence[SymInt] | None = None,
    offsets: Sequence[SymInt] | None = None,
    *,
    target_pe: SymInt,
    sig_op: AtomicType = SET,
    pred: Pred = None,
) -> Tensor:
    """Signal every tile of a view to PE ``target_pe``, or to all.

    Args:
        src: The symmetric tensor whose slots are meant.
        src_pe: First index of the slots, 0 to n_pes - 1; it does not name the PE that signals.
        signal: Value of the signal, an int32.
        shape: Extents of the view. Default: those of ``src``.
        offsets: Its corner in ``src``. Default: the origin.
        target_pe: PE whose slots change; -1: every PE of the group.
        sig_op: ``SET`` replaces the value, ``ADD`` adds to it. Default: SET.
        pred: What must be complete first, as a rule the token of the put that is announced.

    Returns:
        The token of completion.

    Raises:
        ArgumentError: If an argument breaks a rule.
        TileShapeError: If ``set_vec_tile_shapes`` was not called, or with another rank.
    """
    check_shmem(src, "src")
    memory = src.memory
    n_pes = memory.n_pes
    row = _check_pe(src_pe, n_pes, "src_pe")
    value = _check_int32(signal, "signal")
    target = as_int(target_pe, "target_pe")
    if not -1 <= target < n_pes:
        raise ArgumentError(
            f"target_pe must be at least 0 and below {n_pes}, the number of PEs of group "
            f"{src.group_name!r}, or -1 for all of them; but got {target}"
        )
    if sig_op is not SET and sig_op is not ADD:
        raise ArgumentError(
            f"sig_op must be AtomicType.SET or AtomicType.ADD, but got {shown(sig_op)}"
        )
    deps = None if pred is None else _check_pred(pred, None)
    words, n_tiles = src.slots(shape, offsets, "shmem_signal")
    signal_op, first = memory.group.signal_op, row * n_tiles
    targets = range(n_pes) if target < 0 else (target,)
    graph = CONTEXT.graph

    def send(tiles: Iterable[int]) -> None:
        for pe in targets:
            for tile in tiles:
                signal_op(words, value, pe, op=sig_op, index=first + tile)

    if graph.is_plain and not _is_held(deps):
        if memory.moves_rows:  # in a trace it is the World's operation at this line
            send(range(n_tiles))
        else:
            graph.act("shmem_signal", lambda: send(range(n_tiles)))
        return COMPLETE
    op = op_of(graph.order, "shmem_signal", graph.scope, pred)
    do_send = op.doing(send)
    grid = slots_of(memory, words).grid if deps and divides(deps, memory) else None
    if deps and grid is not None and grid.shape:
        node = run_signals(do_send, memory, grid, deps)
    else:
        node = run_op("shmem_signal", lambda: do_send(range(n_tiles)), pred=deps)
    node = op.submitted(node)
    if node is not None:
        whom = "all PEs" if target < 0 else f"PE {target}"
        node.detail = lambda: f"{sig_op.name} {value} to {whom}; {_rows(memory, words, row)}"
    return token(node)


def shmem_wait_until(
    src: ShmemTensor,
    src_pe: SymInt,
    cmp_value: int = 0,
    shape: Sequence[SymInt] | None = None,
    offsets: Sequence[SymInt] | None = None,
    *,
    cmp: OpType = OpType.EQ,
    clear_signal: bool = False,
    pred: Pred = None,
) -> Tensor:
    """Wait until every tile of a view has been signalled to this PE.

    Each tile is done once its slot matches; the wait is complete when all are.

    Args:
        src: The symmetric tensor whose slots are meant.
        src_pe: First index of the slots, 0 to n_pes - 1.
        cmp_value: The value to match, an int32. Default: 0.
        shape: Extents of the view. Default: those of ``src``.
        offsets: Its corner in ``src``. Default: the origin.
        cmp: How to compare *slot* with *cmp_value*. PyPTO has EQ only, so that a value that has passed
            never matches; the others are an extension. Default: EQ.
        clear_signal: Set a slot to 0 when it matches, in one atomic step. Default: False.
        pred: What must be complete first.

    Returns:
        The token of completion: what was put before the signals is visible to those that depend on it.

    Raises:
        ArgumentError: If an argument breaks a rule.
        TileShapeError: If ``set_vec_tile_shapes`` was not called, or with another rank.
    """
    check_shmem(src, "src")
    memory = src.memory
    row = _check_pe(src_pe, memory.n_pes, "src_pe")
    value = _check_int32(cmp_value, "cmp_value")
    if not isinstance(cmp, OpType):
        raise ArgumentError(f"cmp must be an OpType, but got {shown(cmp)}")
    clear = clear_signal is not False and as_flag(clear_signal, "clear_signal")
    deps = set() if pred is None else _check_pred(pred, None)
    words, n_tiles = src.slots(shape, offsets, "shmem_wait_until")
    memory.claimed.add((words.offset, row))
    graph = CONTEXT.graph
    is_free = memory.moves_rows and graph.is_plain and not _is_held(deps)
    if is_free and n_tiles == 1 and not clear and memory.group.test(words, cmp, value, index=row):
        return COMPLETE  # the common case
    op = op_of(graph.order, "shmem_wait_until", graph.scope, pred)
    wait = TileWait(memory, words, row, n_tiles, cmp, value, clear, op)
    if is_free and _has_come(wait):
        return COMPLETE
    node = op.submitted(graph.submit("shmem_wait_until", deps, wait=wait))
    if node is not None and not node.done:
        node.pieces = wait.pieces(node, graph.add_piece_of_wait)
        node.detail = lambda: f"{cmp.name} {value}; {_rows(memory, words, row)}"
    return token(node)


def shmem_barrier_all(src: ShmemTensor, pred: Pred = None) -> Tensor:
    """Wait until every PE of the group has come to this barrier.

    Each PE adds 1 to a word of everyone, waits until its own has reached n_pes, and takes n_pes off
    again, so that a fast PE may already be counting for the next barrier. Barriers on one tensor come
    one after the other.

    Args:
        src: Symmetric data or signals; the word is apart from their other slots.
        pred: What must be complete before this PE arrives.

    Returns:
        The token of completion.
    """
    check_shmem(src, "src")
    memory = src.memory
    deps = set() if pred is None else _check_pred(pred, None)
    if memory.last_barrier is not None:
        deps.add(memory.last_barrier)
    word, group = memory.barrier_word(), memory.group
    graph = CONTEXT.graph
    last = [] if memory.last_barrier_op is None else [memory.last_barrier_op]
    come = op_of(graph.order, "shmem_barrier_all", graph.scope, pred, after=last)
    go = op_of(graph.order, "shmem_barrier_all", graph.scope, None, after=[come])

    def arrive() -> None:
        for pe in range(memory.n_pes):
            group.signal_op(word, 1, pe, op=ADD, index=0)

    arrived = graph.submit("shmem_barrier_all", deps, action=come.doing(arrive))
    come.submitted(arrived)
    passed = go.submitted(
        graph.submit(
            "shmem_barrier_all",
            () if arrived is None else (arrived,),
            wait=BarrierWait(memory, word, go),
        )
    )
    for node in (arrived, passed):
        if node is not None:
            node.detail = lambda: f"on {memory.name}"
    memory.last_barrier, memory.last_barrier_op = passed, go
    return token(passed)


def shmem_clear_data(
    src: ShmemTensor,
    shape: Sequence[SymInt] | None = None,
    offsets: Sequence[SymInt] | None = None,
    *,
    pred: Pred = None,
) -> Tensor:
    """Set a rectangle of this PE's data to 0.

    Args:
        src: Symmetric data.
        shape: Extents of the rectangle. Default: those of ``src``.
        offsets: Its corner in ``src``. Default: the origin.
        pred: What must be complete first.

    Returns:
        The token of completion.
    """
    part = subview(check_data(src, "src"), shape, offsets, None)
    deps = None if pred is None else _check_pred(pred, None)
    memory = part.memory

    def clear() -> None:
        nothing = np.zeros(part.valid_shape, memory.dtype.np_dtype)
        memory.group.put(memory.data, nothing, memory.group.my_pe, offsets=part.low, op=SET)

    op = op_of(CONTEXT.graph.order, "shmem_clear_data", CONTEXT.graph.scope, pred)
    return token(op.submitted(run_op("shmem_clear_data", op.doing(clear), pred=deps)))


def shmem_clear_signal(src: ShmemTensor, *, pred: Pred = None) -> Tensor:
    """Set all slots of this PE to 0, of every view and tile shape of the tensor ``src`` is part of.

    Args:
        src: Symmetric data or signals.
        pred: What must be complete first.

    Returns:
        The token of completion.
    """
    check_shmem(src, "src")
    deps = None if pred is None else _check_pred(pred, None)
    memory = src.memory
    group = memory.group

    def clear() -> None:
        for words in memory.all_slots():
            for slot in np.flatnonzero(words.local).tolist():
                group.signal_op(words, 0, group.my_pe, op=SET, index=slot)

    op = op_of(CONTEXT.graph.order, "shmem_clear_signal", CONTEXT.graph.scope, pred)
    return token(op.submitted(run_op("shmem_clear_signal", op.doing(clear), pred=deps)))


def _cut(low: Shape, extent: Shape) -> tuple[slice, ...]:
    return tuple([slice(a, a + n) for a, n in zip(low, extent, strict=True)])


# --- checks -----------------------------------------------------------------------------------------


def _mixed(src: Tensor, dst: ShmemTensor, put_op: AtomicType) -> bool:
    """Check that data types are equal; return whether the source must be widened, the one exception."""
    widening = src.dtype in HALVES and dst.dtype is DT_FP32 and put_op is ADD
    if widening and CONTEXT.graph.scope.allow_mixed_add:
        return True
    hint = "; pypto.set_options(allow_mixed_add=True) allows this ADD" if widening else ""
    raise DTypeError(
        f"src.dtype must be {dst.dtype!r}, the dtype of dst, but got {src.dtype!r}{hint}"
    )


def _check_place(shape: Shape, offsets: Iterable[SupportsIndex], dst: ShmemTensor) -> Shape:
    """Check that a source fits at ``offsets``; return the corner in the whole data."""
    try:
        low = tuple(map(index, offsets)) if type(offsets) in _LISTS else as_ints(offsets, "offsets")
    except TypeError:
        low = as_ints(offsets, "offsets")
    rank = len(shape)
    if len(low) != len(dst.shape):
        check_rank(low, len(dst.shape), "offsets", "dst")
    if len(dst.shape) != rank:
        raise ArgumentError(
            f"dst must have the rank of src, {rank} (shape {list(shape)}), but got {list(dst.shape)}"
        )
    for axis in range(rank):
        a, n, size = low[axis], shape[axis], dst.shape[axis]
        if not 0 <= a < size:
            raise ArgumentError(
                f"offsets[{axis}] must be at least 0 and below {size}, the extent of dst there, "
                f"but got {a}"
            )
        if a + n > size:
            raise ArgumentError(
                f"offsets[{axis}] + src.shape[{axis}] must be at most {size}, the extent of dst there, "
                f"but got {a} + {n}"
            )
    return tuple(map(int.__add__, low, dst.low))


def _check_pe(pe: SupportsIndex, n_pes: int, argument: str) -> int:
    try:
        number = index(pe)
    except TypeError:
        number = as_int(pe, argument)
    if not 0 <= number < n_pes:
        raise ArgumentError(
            f"{argument} must be at least 0 and below {n_pes}, the number of PEs of the group, "
            f"but got {number}"
        )
    return number


def _check_int32(value: object, argument: str) -> int:
    number = as_int(value, argument)
    if not INT32_MIN <= number <= INT32_MAX:
        raise ArgumentError(
            f"{argument} must be an int32, {INT32_MIN} to {INT32_MAX}, but got {number}"
        )
    return number


def _rows(memory: Memory, words: SymmetricArray, row: int) -> str:
    """Name slots for a report."""
    return f"{slots_of(memory, words).view}, src_pe {row}"


def _is_held(deps: set[Node] | None) -> bool:
    """Return whether one of these nodes is pending."""
    if deps:
        for node in deps:
            if not node.done:
                return True
    return False


def _has_come(wait: TileWait) -> bool:
    """Return whether a wait is over, or is when other PEs, which may need the core to signal, have had it a few times."""
    for turn in range(_LOOKS if wait.memory.is_crowded else 1):
        if turn:
            give_way()
        if wait.poll():
            return True
    return False


def _check_pred(pred: object, src: Tensor | None) -> set[Node]:
    if not isinstance(pred, list | tuple):
        raise ArgumentError(f"pred must be a list of tensors, but got {type(pred).__name__}")
    found: set[Node] = set()
    for i, t in enumerate(pred):
        if not isinstance(t, Tensor):
            raise ArgumentError(f"pred[{i}] must be a tensor, but got {type(t).__name__}")
        if t is src:
            raise ArgumentError(f"pred must not contain src, but got it as pred[{i}]")
        if 0 in t.shape:
            raise ArgumentError(f"pred[{i}] must not be empty, but got shape {list(t.shape)}")
        if not CONTEXT.graph.idle:
            found |= nodes_of(t)
    return found


__all__ = [
    "AtomicType",
    "OpType",
    "ShmemTensor",
    "create_shmem_signal",
    "create_shmem_tensor",
    "my_symbolic_pe",
    "shmem_barrier_all",
    "shmem_clear_data",
    "shmem_clear_signal",
    "shmem_get",
    "shmem_load",
    "shmem_put",
    "shmem_signal",
    "shmem_store",
    "shmem_view",
    "shmem_wait_until",
]
