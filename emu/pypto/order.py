"""What orders ops, told to a check of races: each op is a task that comes after what it depends on, and nothing else.

A graph forgets ops that are complete. A check may not: a run in which an op was complete in time says nothing of
another run. So where a World has a listener, each buffer keeps the tasks that have read and written its rectangles, and each token its
task. Local ops do nothing that others see: what they write comes after what they read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from emu.comm.world.listening import Listener, Task, Tasks
from emu.pypto.node import Node, Scope, find_origin
from emu.pypto.operation import Rectangle
from emu.pypto.uses import Uses

if TYPE_CHECKING:
    from emu.comm.world.group import Group
    from emu.pypto.buffer import Buffer

P = ParamSpec("P")
R = TypeVar("R")


class Order:
    """The tasks of this PE's ops.

    Args:
        listener: The World's.
        tasks: What it does for graphs.
    """

    def __init__(self, listener: Listener, tasks: Tasks) -> None:
        self._listener = listener
        self._tasks = tasks
        self._open: dict[int, list[Task]] = {}
        """Tasks that the program does not come after yet, by the ``id()`` of their scope."""

    def is_of(self, group: Group) -> bool:
        """Return whether it is of a group's World."""
        return getattr(group, "listener", None) is self._listener

    def of(self, t: Rectangle) -> list[Task]:
        """Return the tasks that a tensor's values come after."""
        node, uses = t.node, t.buffer.uses
        tasks = [] if node is None or node.task is None else [node.task]
        if uses is not None:
            tasks += uses.before(t.low, t.valid_shape, writing=False)
        return tasks

    def begin(
        self,
        label: str,
        scope: object,
        after: Iterable[Task],
        reads: Sequence[Rectangle],
        writes: Sequence[Rectangle],
    ) -> Task:
        """Return the task of a new op.

        Args:
            label: Name of the op.
            scope: The scope that it belongs to.
            after: Tasks that it depends on, without those of its operands.
            reads: Local tensors that it reads.
            writes: Local tensors that it writes.
        """
        before = [*after, *self._before(reads, writes)]
        task = self._tasks.make(label, find_origin(), before)
        _note(task, reads, writes)
        self._open.setdefault(id(scope), []).append(task)
        return task

    def local(self, reads: Sequence[Rectangle], writes: Sequence[Rectangle]) -> None:
        """Note a local op."""
        before = self._before(reads, writes)
        if before:
            task = self._tasks.gather(before)
            assert task is not None
            _note(task, reads, writes)

    def _before(self, reads: Sequence[Rectangle], writes: Sequence[Rectangle]) -> list[Task]:
        before = [task for t in reads for task in self.of(t)]
        for t in writes:
            if t.buffer.uses is not None:
                before += t.buffer.uses.before(t.low, t.valid_shape, writing=True)
        return before

    def forced(self, t: Rectangle) -> None:
        """Note that the program has waited for a tensor's values."""
        task = self._tasks.gather(self.of(t))
        if task is not None:
            self._tasks.join(task)

    def drained(self, scope: object) -> None:
        """Note that the program has waited for all ops of a scope."""
        task = self._tasks.gather(self._open.pop(id(scope), []))
        if task is not None:
            self._tasks.join(task)

    def during(self, task: Task, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that does what another does, as a task."""

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._tasks.running(task):
                return function(*args, **kwargs)

        return run

    def silence(self) -> AbstractContextManager[None]:
        """Return a context in which waits are not told."""
        return self._tasks.silence()


def _note(task: Task, reads: Sequence[Rectangle], writes: Sequence[Rectangle]) -> None:
    for t in reads:
        _uses(t.buffer).add(task, t.low, t.valid_shape, writes=False)
    for t in writes:
        _uses(t.buffer).add(task, t.low, t.valid_shape, writes=True)


def _uses(buffer: Buffer) -> Uses:
    uses = buffer.uses
    if uses is None:
        uses = buffer.uses = Uses()
    return uses


def order_of(group: Group) -> Order | None:
    """Return what tells a group's listener of tasks; None: there is none that wants to know."""
    listener: Listener | None = getattr(group, "listener", None)
    tasks = None if listener is None else listener.tasks
    return None if listener is None or tasks is None else Order(listener, tasks)


def op_of(
    order: Order | None,
    label: str,
    scope: Scope,
    pred: Sequence[Rectangle] | None,
    *,
    reads: Sequence[Rectangle] = (),
    writes: Sequence[Rectangle] = (),
    after: Sequence[Op] = (),
) -> Op:
    """Return an op; arguments as of :class:`Op`. Where nobody wants to know of tasks it is one for all."""
    if order is None:
        return _UNTOLD
    return Op(order, label, scope, pred, reads=reads, writes=writes, after=after)


class Op:
    """An op that may be a task.

    Args:
        order: What tells of tasks; None: nobody wants to know.
        label: Name of the op.
        scope: The scope that it belongs to.
        pred: What must be complete first.
        reads: Local tensors that it reads.
        writes: Local tensors that it writes.
        after: Other ops that must be complete first.
    """

    __slots__ = ("_order", "_scope", "label", "task")

    def __init__(
        self,
        order: Order | None,
        label: str,
        scope: Scope,
        pred: Sequence[Rectangle] | None,
        *,
        reads: Sequence[Rectangle] = (),
        writes: Sequence[Rectangle] = (),
        after: Sequence[Op] = (),
    ) -> None:
        self._order = order
        self._scope = scope
        self.label = label
        self.task: Task | None = None
        if order is not None:
            tasks = [task for t in pred or () for task in order.of(t)]
            tasks += [op.task for op in after if op.task is not None]
            self.task = order.begin(label, scope, tasks, reads, writes)

    def doing(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that does a part of the op."""
        if self._order is None or self.task is None:
            return function
        return self._order.during(self.task, function)

    def submitted(self, node: Node | None) -> Node | None:
        """Return the node of the op, once it was submitted; None: it is complete and nobody wants to know."""
        if self.task is None:
            return node
        if node is None:
            node = Node(0, self.label, None, None, self._scope)
            node.done = True
        node.task = self.task
        self.task.ends_with(node)
        return node


_UNTOLD = Op(None, "", Scope(None, False), None)
