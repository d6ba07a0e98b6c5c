"""One call of an operator: its communication, and the record of when what happened."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError, CommError
from emu.comm.server.comm_kernel import read_kernel, tiling_bytes
from emu.comm.tiling.enums import HcclCommand, HcclReduceOp, PreparePosition
from emu.comm.world.world import Group
from emu.kernels.core.messages import shown
from emu.mc2.arguments import Array
from emu.mc2.product import Product
from emu.mc2.spans import Span, computing
from emu.mc2.splitting import TileSplit

_LARGE_ROWS = 384
"""Products of so many rows lay their weight out themselves at no cost: each part of it stays in the cache
until it is used."""


def _hccl_type() -> Any:
    """Return the class whose objects talk to the communication server."""
    from emu.mc2.hccl import Hccl

    return Hccl


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What the members of a group must call alike: else tasks of the same size would pass for each other.

    Attributes:
        name: The operator.
        command: Its communication.
        x1: What is sent, of the same shape and dtype on all PEs, where communication comes first.
        y: The result, the same way, where communication comes last.
    """

    name: str
    command: HcclCommand
    x1: Array | None = None
    y: Array | None = None

    def label(self, split: TileSplit) -> str:
        """Return the call as it stands in reports, with all that must be the same."""
        name, array = ("x1", self.x1) if self.y is None else ("y", self.y)
        assert array is not None
        return _label(self.name, name, array.shape, array.dtype, split.turns)

    def check(self, group: Group, tiling: Any, trace: Any) -> None:
        """Check the arguments that say how the operator communicates.

        Raises:
            ArgumentError: ``trace`` is no list, or ``tiling`` no tiling data under which it can.
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
    operator: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], turns: int
) -> str:
    count = "1 turn" if turns == 1 else f"{turns} turns"
    return f"{operator}({name} {list(shape)} {dtype}, {count})"


class Session:
    """The tasks of one operator call, posted turn by turn.

    Attributes:
        hccl: The server's end.
        split: How rows are cut into turns.
    """

    def __init__(self, hccl: Any, split: TileSplit, pe: int, trace: list[Span] | None) -> None:
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
            name: What spans call it.
            prepare: Called with the first row, the rows of a turn, and the number of turns.
        """
        return [
            self.post(name, partial(prepare, *part), turn=turn)
            for part, turn in zip(self.split.parts(), (0, self.split.tiles), strict=False)
        ]

    def communication(self) -> list[Span]:
        """Return the spans of this PE's communication, when all is done."""
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
        """Lay out the weight for ``products`` products, one a turn by default, if they are many and small."""
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
        self.hccl.Commit(handles[turn >= self.split.tiles])

    def arrived(self, handles: list[int]) -> Iterator[tuple[int, slice]]:
        """Yield the number and the rows of each turn, when it is there."""
        for turn, (start, rows) in enumerate(self.split):
            self.wait(handles[turn >= self.split.tiles])
            yield turn, slice(start, start + rows)


@contextmanager
def session(
    group: Group,
    split: TileSplit,
    operator: Operator,
    *,
    tiling: bytes | None,
    args: tuple[Any, ...],
    trace: list[Span] | None,
) -> Iterator[Session]:
    """Open a session; its end waits for all tasks and adds the server's spans to ``trace``."""
    operator.check(group, tiling, trace)
    more = {} if tiling is None else {"tiling": tiling, "args": args}
    with _hccl_type()(group, **more) as hccl:
        hccl.operator = operator.label(split)
        call = Session(hccl, split, group.my_pe, trace)
        yield call
    if trace is not None:
        trace.extend(call.communication())
