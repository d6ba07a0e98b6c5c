"""One call of an operator: its communication and its trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from emu.comm.errors import ArgumentError, CommError
from emu.comm.server.comm_kernel import read_kernel, tiling_bytes
from emu.comm.tiling.enums import HcclCommand, HcclReduceOp, PreparePosition
from emu.comm.world.group import Group
from emu.kernels.core.messages import shown
from emu.mc2.arguments import Array, find_group
from emu.mc2.limits import HardwareLimits, check_limits
from emu.mc2.product import Product
from emu.mc2.spans import Span, computing
from emu.mc2.splitting import TileSplit, cores_for, split_rows, turns_worth

if TYPE_CHECKING:
    from emu.mc2.hccl import Hccl

_LARGE_ROWS = 384
"""Rows from which a product packs its weight at no cost: each packed part is used while still in the cache."""


def _hccl_type() -> type[Hccl]:
    """Return the class that talks to the communication server, which loads Numba."""
    from emu.mc2.hccl import Hccl

    return Hccl


class CommunicationOptions(TypedDict, total=False):
    """Keyword arguments of a dense operator that control its communication: those of :class:`Communication`."""

    group: Group | str | None
    rank_size: int
    comm_turn: int
    tile_rows: int | None
    limits: HardwareLimits | None
    tiling: bytes | None
    trace: list[Span] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Arguments of an operator that control its communication, not yet checked.

    All but ``trace`` must be the same on every PE of the group.

    Attributes:
        group: The group or its name, 1 to 128 characters. None: the world.
        rank_size: Size of the group, or 0.
        comm_turn: Number of turns in which rows are sent; 0: automatic
            (:func:`emu.mc2.splitting.turns_worth`).
        tile_rows: Rows of a full tile, in place of ``comm_turn``; a tail takes the rest.
        limits: Refuse what this hardware would refuse. None: no limits.
        tiling: The communication's tiling data, bytes of an Mc2Msg. None: the usual ones.
        trace: List to which the spans of this PE's computation and communication are appended, or None.
    """

    group: Group | str | None = None
    rank_size: int = 0
    comm_turn: int = 0
    tile_rows: int | None = None
    limits: HardwareLimits | None = None
    tiling: bytes | None = None
    trace: list[Span] | None = None

    def members(self) -> Group:
        """Return the group that is meant.

        Raises:
            ArgumentError: It is not known, or has another size.
        """
        return find_group(self.group, self.rank_size)

    def split(self, group: Group, rows: int, k: int, *, work: int, pair_bytes: int) -> TileSplit:
        """Cut rows into turns.

        Args:
            group: The group, from :meth:`members`.
            rows: Rows to cut.
            k: Inner extent of the product.
            work: Multiply-adds of a PE.
            pair_bytes: Bytes that a PE fetches from each other PE.

        Raises:
            ArgumentError: The rows cannot be cut so, or ``limits`` refuse it.
        """
        cores = cores_for(group)
        worth = turns_worth(work, pair_bytes, group.n_pes, group.link, cores=cores)
        split = split_rows(rows, self.comm_turn, self.tile_rows, worth)
        check_limits(self.limits, k, group.n_pes, split.turns)
        return split


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Facts about a call that must agree across the group: otherwise tasks of the same size would match.

    Attributes:
        name: Name of the operator.
        command: Its collective.
        x1: Operand that is sent, of the same shape and dtype on all PEs, where communication comes first.
        y: Result, of the same shape and dtype on all PEs, where communication comes last.
    """

    name: str
    command: HcclCommand
    x1: Array | None = None
    y: Array | None = None

    def label(self, split: TileSplit) -> str:
        """Return the call's name in reports, with all that must be the same."""
        name, array = ("x1", self.x1) if self.y is None else ("y", self.y)
        assert array is not None
        return _label(self.name, name, array.shape, array.dtype, split.turns)

    def check(self, group: Group, tiling: object, trace: object) -> None:
        """Check the trace and the tiling data.

        Raises:
            ArgumentError: ``trace`` is not a list, or the operator cannot communicate under ``tiling``.
        """
        if trace is not None and not isinstance(trace, list):
            raise ArgumentError(f"trace must be a list or None, but got {shown(trace)}")
        if tiling is None:
            return
        try:
            kernel = read_kernel(tiling_bytes(tiling), None, group.name)
            if kernel.position == PreparePosition.HOST:
                raise ArgumentError(
                    "preparePosition must be 1, because the operator prepares its tasks itself, but "
                    "got 0"
                )
            kernel.check_task(self.command, HcclReduceOp.SUM)
        except ArgumentError as error:
            text = f"tiling must let {self.name} communicate, but {error}"
            raise type(error)(text) from error


@functools.lru_cache(maxsize=256)
def _label(
    operator: str, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], turns: int
) -> str:
    count = "1 turn" if turns == 1 else f"{turns} turns"
    return f"{operator}({name} {list(shape)} {dtype}, {count})"


class Session:
    """Tasks of one operator call, posted turn by turn.

    Attributes:
        hccl: Compute side of the communication.
        split: Rows of each turn.
    """

    def __init__(self, hccl: Hccl, split: TileSplit, pe: int, trace: list[Span] | None) -> None:
        self.hccl = hccl
        self.split = split
        self._pe = pe
        self._trace = trace
        self._posted: list[tuple[str, int]] = []

    def post(self, name: str, prepare: Callable[[], int], *, turn: int = -1) -> int:
        """Prepare a task whose first turn is ``turn`` of the operator; return its handle."""
        self._posted.append((name, turn))
        return prepare()

    def post_parts(self, name: str, prepare: Callable[[int, int, int], int]) -> list[int]:
        """Prepare a task for the tiles and one for the tails; return the handles.

        Args:
            name: Its name in spans.
            prepare: Called with the first row, the rows of a turn, and the number of turns.
        """
        return [
            self.post(name, partial(prepare, *part), turn=turn)
            for part, turn in zip(self.split.parts(), (0, self.split.tiles), strict=False)
        ]

    def communication(self) -> list[Span]:
        """Return the spans of this PE's communication, once all tasks are done."""
        # The log of the server counts tasks over all kernels of the communicator.
        turns = self.hccl.Turns()
        first = min((turn.task for turn in turns), default=0)
        spans = []
        for turn in turns:
            if turn.rank == self._pe:
                name, start = self._posted[turn.task - first]
                number = -1 if start < 0 else start + turn.turn
                spans.append(
                    Span(self._pe, "communication", name, number, turn.start_ns, turn.end_ns)
                )
        return spans

    def computing(self, name: str, turn: int) -> AbstractContextManager[None]:
        """Record the block as a span of computation."""
        return computing(self._trace, self._pe, name, turn)

    def pack(self, product: Product, *, products: int | None = None) -> None:
        """Pack the weight for ``products`` products, by default one per turn, if they are many and small."""
        several = (self.split.turns if products is None else products) > 1
        if several and self.split.longest < _LARGE_ROWS:
            with self.computing("packing of x2", -1):
                product.pack()

    def wait(self, handle: int) -> None:
        """Wait for the next turn of a task."""
        if self.hccl.Wait(handle) != 0:
            raise CommError(f"task {handle} was waited for more often than it was committed")

    def commit(self, handles: list[int], turn: int) -> None:
        """Release turn ``turn`` of the tasks for tiles and tails."""
        # handles[0] is the task of the tiles, handles[1] that of the tails, whose turns come last.
        self.hccl.Commit(handles[turn >= self.split.tiles])

    def arrived(self, handles: list[int]) -> Iterator[tuple[int, slice]]:
        """Yield the number and the rows of each turn as it arrives."""
        for turn, (start, rows) in enumerate(self.split):
            self.wait(handles[turn >= self.split.tiles])
            yield turn, slice(start, start + rows)


@contextmanager
def session(
    group: Group,
    split: TileSplit,
    operator: Operator,
    communication: Communication,
    args: tuple[object, ...],
) -> Iterator[Session]:
    """Open a session; its end waits for all tasks and adds the server's spans to the trace.

    Args:
        group: The group.
        split: How rows are cut into turns.
        operator: What is called.
        communication: Its tiling data and its trace.
        args: The operator's inputs and outputs, which the argument indices of tiling data count.

    Raises:
        ArgumentError: The trace is not a list, or the operator cannot communicate under the tiling data.
    """
    tiling, trace = communication.tiling, communication.trace
    operator.check(group, tiling, trace)
    with _hccl_type()(group, tiling, args) as hccl:
        hccl.operator = operator.label(split)
        call = Session(hccl, split, group.my_pe, trace)
        yield call
    if trace is not None:
        trace.extend(call.communication())
