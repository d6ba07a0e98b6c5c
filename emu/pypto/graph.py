"""The dataflow graph of one PE.

An op is a *node*. It runs when everything it depends on is complete: the nodes named in ``pred``,
and the nodes that write what it reads or touch what it writes. Nothing else orders nodes: a wait
whose signal has not come holds back those that depend on it, and no other.

The default schedule is program order where nothing else decides: a node whose dependencies are
complete runs the moment it is made, and no object is made for it. ``schedule="random"`` keeps every
node until a value is demanded and then draws among those that may run; each seed is another legal
order, and the same seed on the same values is the same order.

*Batches.* In a kernel, local ops are gathered, so that a backend computes many of them in one pass over
memory. Those that wait for nothing are the graph's ``batch``. It runs when something reads what it writes, before any
pending node runs, before the PE sleeps, and at the kernel's end; nobody can see that it has not run before. Local ops behind
pending nodes are gathered too, several to a node, but only where that holds no op back: one joins a node
if it waits for just what the node waits for, or if it needs the node and waits for no more. So an op
that a wait does not hold up never stands behind it.

*Pieces* (see :mod:`emu.pypto.pieces`). Where an op waits for tiles of another, it is divided: each piece is a node that
runs when the tiles that it needs have come. Chains of element-wise ops are divided together (see :mod:`emu.pypto.family`).

Values are demanded by scalar reads, by NumPy, and by the end of a kernel. Then the graph makes progress:
nodes that may run are run; when there is none, the PE sleeps on the words of all its waits at once.

A PE is a process, so there is one graph per process, and it belongs to one thread.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from emu.comm.world import recording
from emu.comm.world.current import current
from emu.pypto.backend import run_ops
from emu.pypto.errors import GraphError
from emu.pypto.gathering import Gathering
from emu.pypto.node import Node, Origin, Scope, Wait
from emu.pypto.operation import LocalOp
from emu.pypto.recorded import record_action
from emu.pypto.reports import pending_lines

if TYPE_CHECKING:
    from emu.comm.world.group import Group
    from emu.comm.world.world import World
    from emu.pypto.order import Order


def find_world() -> World | None:
    """Return the World, or None in a process that is no PE, where local ops work all the same."""
    return current()


class Graph:
    """Nodes that have not run, and the order in which they do."""

    def __init__(self) -> None:
        self.scope = Scope(None, False)
        self.idle = True
        """Whether nothing is pending and the schedule runs nodes at once: an op may run without a node."""
        self.is_lazy = False
        """Whether local ops are gathered: in a kernel, in program order."""
        self.batch: list[LocalOp] = []
        """Local ops that wait for nothing and have not run."""
        self.batch_bytes = 0
        """Bytes of earlier results that ``batch`` keeps alive."""
        self.batch_is_large = False
        """Whether ``batch`` touches buffers of so many elements that compiled code is faster."""
        self.batch_number = 0
        """Number of ``batch``; buffers that it writes bear it."""
        self.order: Order | None = None
        """What tells a check of the ops, complete ones too; None: nobody wants to know."""
        self.pending = 0
        """Number of nodes that have not completed."""
        self._gathering: Gathering | None = None
        self._seq = 0
        self._ready: list[Node] = []
        self._blocked: list[Node] = []
        self._progressing = False
        self._hooked = False

    # --- building -------------------------------------------------------------------------------

    def submit(
        self,
        label: str,
        deps: Iterable[Node],
        *,
        action: Callable[[], None] | None = None,
        wait: Wait | None = None,
    ) -> Node | None:
        """Add an op; return its node, or None if it is complete already.

        Args:
            label: Name of the op, for reports.
            deps: Nodes that must be complete first; complete ones may be among them.
            action: Function that runs the op. Given for every op except a wait.
            wait: The condition of a wait.
        """
        open_deps = {node for node in deps if not node.done}
        eager = self.scope.rng is None
        if eager and not open_deps:
            if wait is None:
                if action is not None:
                    self.act(label, action)
                return None
            if wait.poll():
                return None
        node = self._add(label, open_deps, action, wait)
        if not open_deps:
            if wait is not None and eager:
                self._blocked.append(node)
            else:
                self._push(node)
        return node

    def submit_pieces(
        self,
        label: str,
        pieces: Sequence[tuple[Iterable[Node], Callable[[], None]]],
        *,
        at_once: bool = True,
    ) -> tuple[list[Node | None], Node | None]:
        """Add an op that is done piece by piece.

        Args:
            label: Name of the op, for reports.
            pieces: For each piece the nodes that must be complete first, and the function that runs it.
            at_once: Whether pieces that wait for nothing run now, where the schedule allows it.

        Returns:
            The nodes of the pieces, None for those that are complete; and the node of the whole op, None if all are.
        """
        eager, seq = at_once and self.scope.rng is None, self._seq + 1
        nodes: list[Node | None] = []
        for number, (deps, action) in enumerate(pieces):
            open_deps = {node for node in deps if not node.done}
            if eager and not open_deps:
                self.act(label, action)
                nodes.append(None)
                continue
            self._seq = seq - 1
            node = self._add(label, open_deps, action, None, number)
            if not open_deps:
                self._push(node)
            nodes.append(node)
        pending = {node for node in nodes if node is not None}
        if not pending:
            return nodes, None
        self._seq = seq - 1
        return nodes, self._add(label, pending, None, None)

    def next_number(self) -> int:
        """Return the number of an op that joins another's node."""
        self._seq += 1
        return self._seq

    def add_piece_of_wait(self, wait: Node, number: int) -> Node:
        """Return a new node for a piece of a pending wait; it completes when the wait says so, or with it."""
        seq, self._seq = self._seq, wait.seq - 1
        node = self._add(wait.label, {wait}, None, None, number)
        self._seq = seq
        return node

    def submit_local(self, op: LocalOp, deps: set[Node]) -> Node | None:
        """Add a local op; return its node, or None if it has run or joined the batch.

        Args:
            op: The op.
            deps: Nodes that must be complete first; complete ones may be among them.
        """
        open_deps = {node for node in deps if not node.done}
        if self.scope.rng is not None:
            node = self._add(op[0].name, open_deps, functools.partial(run_ops, [op]), None)
            if not open_deps:
                self._push(node)
            return node
        if not open_deps:
            if self.is_lazy:
                self.batch.append(op)
            else:
                run_ops([op])
            return None
        gathering = self._gathering
        # An op that may fail stands alone: what is dropped with it must depend on it.
        may_fail = op[0].may_fail
        if gathering is not None and not may_fail and gathering.takes(open_deps):
            self._seq += 1
            gathering.add(op, self._seq)
            return gathering.node
        ops = [op]
        node = self._add(op[0].name, open_deps, functools.partial(run_ops, ops), None)
        if not may_fail:
            self._gathering = Gathering(node, ops, open_deps)
        return node

    def flush(self) -> None:
        """Run the batch."""
        ops = self.batch
        if ops:
            is_large = self.batch_is_large
            self.batch = []
            self.batch_is_large = False
            self.batch_bytes = 0
            self.batch_number += 1
            run_ops(ops, is_large)

    def _add(
        self,
        label: str,
        open_deps: set[Node],
        action: Callable[[], None] | None,
        wait: Wait | None,
        piece: int = -1,
    ) -> Node:
        if not self._hooked:
            self._hook()
        self._seq += 1
        node = Node(self._seq, label, action, wait, self.scope, piece)
        node.missing = len(open_deps)
        for dep in open_deps:
            dep.dependents.append(node)
        self.pending += 1
        self.scope.open += 1
        self.idle = False
        return node

    def _hook(self) -> None:
        """Drain the graph when the program ends too, so that a hang is reported."""
        self._hooked = True
        world = find_world()
        if world is not None:
            from emu.comm.world.details import add_provider

            world.on_finish(self.drain)
            add_provider(lambda: pending_lines(*self.held_up()))

    # --- scopes ---------------------------------------------------------------------------------

    def enter(self, scope: Scope) -> Scope:
        """Make ``scope`` the one that new nodes belong to; return the one before."""
        self.flush()
        before, self.scope = self.scope, scope
        self.update()
        return before

    def update(self) -> None:
        """Take over what has changed in the scope."""
        self.flush()
        scope = self.scope
        self.idle = self.pending == 0 and self.is_plain
        self.is_lazy = scope.is_kernel and scope.rng is None

    @property
    def is_plain(self) -> bool:
        """Whether ops that wait for nothing need nothing but to run, by :meth:`act`."""
        return self.scope.rng is None and self.order is None

    def watch(self, group: Group) -> None:
        """Tell of the ops from now on, if a group's operations are listened to."""
        if self.order is None or not self.order.is_of(group):
            from emu.pypto.order import order_of

            self.order = order_of(group)
            self.scope.steer(group)
            self.update()

    def leave(self, before: Scope, *, failed: bool) -> None:
        """Drain the current scope, run its functions for the end, and go back to ``before``.

        After a failure nothing is drained: the kernel's nodes are given up with it. What waited for nothing
        runs all the same, as it would have run at once.
        """
        scope = self.scope
        drained = False
        try:
            if failed:
                with contextlib.suppress(Exception):
                    self.flush()
            else:
                self.drain()
                drained = True
        finally:
            if scope.open:
                self._give_up(scope)
            elif self.order is not None:
                self.order.drained(scope)
            self.enter(before)
            # The first error must be reported, not one that follows from it while memory is given back.
            with contextlib.nullcontext() if drained else contextlib.suppress(Exception):
                for finish in scope.at_end:
                    finish()

    def drain(self) -> None:
        """Run until every node of the current scope is complete."""
        self.flush()
        scope = self.scope
        if scope.open:
            self._progress(lambda: scope.open == 0)
        if self.order is not None:
            self.order.drained(scope)

    def force(self, nodes: list[Node]) -> None:
        """Run until these nodes are complete, in an order the schedule allows."""
        if nodes:
            self._progress(lambda: all(node.done for node in nodes))

    def held_up(self) -> tuple[list[Node], list[Node]]:
        """Return the waits that have not matched, and all other pending nodes, in program order."""
        blocked = sorted(self._blocked)
        found = {node for node in self._ready if not node.done}
        at_hand = [*blocked, *found]
        while at_hand:
            more = {node for node in at_hand.pop().dependents if not node.done} - found
            found |= more
            at_hand += more
        return blocked, sorted([node for node in found if node.piece < 0])

    # --- running --------------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        heapq.heappush(self._ready, node)

    def _progress(self, done: Callable[[], bool]) -> None:
        if self._progressing:
            raise GraphError("a tensor cannot be read from inside an op")
        self._progressing = True
        try:
            while not done():
                if self._ready and not self._polls_first():
                    self._run(self._draw())
                elif not self._poll() and not self._ready:
                    self._sleep()
            while self._ready and self.scope.rng is None:
                self._run(self._draw())
        finally:
            self._progressing = False

    def _polls_first(self) -> bool:
        """Return whether to poll the waits before running ready nodes: a random schedule sometimes does."""
        rng = self.scope.rng
        return bool(self._blocked) and rng is not None and rng.random() < 0.25

    def _draw(self) -> Node:
        ready, rng = self._ready, self.scope.rng
        if rng is None:
            return heapq.heappop(ready)
        # Sorted first, so that the draw depends on the seed and the program, not on heap internals.
        ready.sort()
        return ready.pop(rng.randrange(len(ready)))

    def _run(self, node: Node) -> None:
        if node.wait is not None:
            if not node.wait.poll():
                self._blocked.append(node)
                self._release(node.wait)
                return
        elif node.action is not None:
            self.flush()
            if self._gathering is not None and self._gathering.node is node:
                self._gathering = None
            if node.scope.steering is not None:
                node.scope.steering.point(node.title, ())
            try:
                self.act(node.label, node.action, node.origin)
            except Exception as error:
                self._drop(node)
                error.add_note(f"in {node.title} of this PE")
                raise
        self._complete(node)

    def act(self, label: str, action: Callable[[], None], origin: Origin | None = None) -> None:
        """Run what an op does; ``origin``: where the program has made it, if that was before."""
        if recording.active is None:
            action()
        else:
            record_action(recording.active, label, action, origin)

    def _complete(self, node: Node) -> None:
        node.done = True
        node.action = node.wait = node.detail = None
        node.scope.open -= 1
        self.pending -= 1
        for dependent in node.dependents:
            dependent.missing -= 1
            if dependent.missing == 0 and not dependent.done:
                self._push(dependent)
        node.dependents = []
        if self.pending == 0:
            self.idle = self.is_plain

    def _drop(self, failed: Node) -> None:
        """Forget an op that has raised, and all that depends on it: it must not raise again."""
        at_hand = [failed]
        while at_hand:
            node = at_hand.pop()
            if not node.done:
                node.done = True
                node.scope.open -= 1
                self.pending -= 1
                at_hand += node.dependents
        if self.pending == 0:
            self.idle = self.is_plain

    def _poll(self) -> bool:
        """Poll every blocked wait once; return whether one completed."""
        still: list[Node] = []
        progress = False
        for node in self._blocked:
            if node.wait is not None and node.wait.poll():
                self._complete(node)
                progress = True
            else:
                still.append(node)
                if node.wait is not None and self._release(node.wait):
                    progress = True
        self._blocked = still
        return progress

    def _release(self, wait: Wait) -> bool:
        """Complete the pieces of a wait that have matched; return whether there were any."""
        released = wait.released()
        for node in released:
            if not node.done:
                self._complete(node)
        return bool(released)

    def _sleep(self) -> None:
        self.flush()
        waits = [node.wait for node in self._blocked if node.wait is not None]
        words = [word for wait in waits for word in wait.words()]
        if not words:
            raise GraphError(
                f"{self.pending} ops are pending and none can run: this is a bug of emu"
            )
        from emu.comm.world.current import world

        # Waits name what they wait for in the language of the program; World adds words and values.
        text = "; ".join(wait.describe() for wait in waits[:3])
        more = f"; and {len(waits) - 3} waits more" if len(waits) > 3 else ""
        with contextlib.nullcontext() if self.order is None else self.order.silence():
            world().wait_for(words, text + more)

    def _give_up(self, scope: Scope) -> None:
        """Forget the nodes of a scope that failed; what they would have written stays undefined."""
        at_hand = [node for node in (*self._ready, *self._blocked) if node.scope is scope]
        self._ready = [node for node in self._ready if node.scope is not scope]
        self._blocked = [node for node in self._blocked if node.scope is not scope]
        heapq.heapify(self._ready)
        while at_hand:
            node = at_hand.pop()
            # Marked complete, so that later ops on the same tensors don't wait for them.
            node.done = True
            at_hand += [dependent for dependent in node.dependents if not dependent.done]
        self.pending -= scope.open
        if self.order is not None:
            self.order.drained(scope)
