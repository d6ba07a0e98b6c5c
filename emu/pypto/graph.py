"""The dataflow graph of one PE.

An op is a *node*. It runs when everything it depends on is complete: the nodes named in ``pred``,
and the nodes that write what it reads or touch what it writes. Nothing else orders nodes: a wait
whose signal has not come holds back those that depend on it, and no other.

The default schedule is program order where nothing else decides: a node whose dependencies are
complete runs the moment it is made, and no object is made for it. ``schedule="random"`` keeps every
node until a value is demanded and then draws among those that may run; each seed is another legal
order, and the same seed on the same values is the same order.

Values are demanded by scalar reads, by NumPy, and by the end of a kernel. Then the graph is pumped:
nodes that may run are run; when there is none, the PE sleeps on the words of all its waits at once.

A PE is a process, so there is one graph a process, and it belongs to one thread.
"""

from __future__ import annotations

import contextlib
import heapq
import random
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from emu.kernels.core.messages import shown
from emu.pypto.errors import ArgumentError, GraphError
from emu.pypto.symbolic import as_flag, as_int

if TYPE_CHECKING:
    from emu.comm.ops import Cmp
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.world import World

Schedule = Literal["program", "random"]
Word = tuple["SymmetricArray", int, "Cmp", int]


class Wait(Protocol):
    """What a wait node does instead of an action."""

    def poll(self) -> bool:
        """Look at the words once; return whether all have matched."""

    def words(self) -> list[Word]:
        """Return the words that have not matched yet."""

    def describe(self) -> str:
        """Say what is waited for."""

    def explain(self) -> list[str]:
        """Say, a line each, what there is in place of what is waited for."""


class Scope:
    """A stretch of program that is drained as a whole: a kernel, or what lies outside kernels."""

    __slots__ = ("allow_mixed_add", "at_end", "open", "rng")

    def __init__(self, rng: random.Random | None, allow_mixed_add: bool) -> None:
        self.open = 0
        self.rng = rng
        self.allow_mixed_add = allow_mixed_add
        self.at_end: list[Callable[[], None]] = []


class Node:
    """An op that has not run yet."""

    __slots__ = (
        "about",
        "action",
        "dependents",
        "done",
        "label",
        "missing",
        "place",
        "scope",
        "seq",
        "wait",
    )

    def __init__(
        self,
        seq: int,
        label: str,
        action: Callable[[], None] | None,
        wait: Wait | None,
        scope: Scope,
    ) -> None:
        self.seq = seq
        self.label = label
        self.action = action
        self.wait = wait
        self.scope = scope
        self.missing = 0
        self.dependents: list[Node] = []
        self.done = False
        self.place = _place()
        self.about: Callable[[], str] | None = None
        """Says what the op does and to whom, for reports."""

    def __lt__(self, other: Node) -> bool:
        return self.seq < other.seq


def _place() -> tuple[CodeType, int] | None:
    """Return where the program makes an op: code and instruction, cheap to keep; see ``hangs``."""
    frame = sys._getframe(3)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("emu.pypto.") or name == "emu.pypto.programs":
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


class Graph:
    """Nodes that have not run, and the order in which they do."""

    def __init__(self) -> None:
        self.scope = Scope(None, False)
        self.quiet = True
        """Nothing is pending and the schedule runs nodes at once: an op may simply be done."""
        self._open = 0
        self._seq = 0
        self._ready: list[Node] = []
        self._blocked: list[Node] = []
        self._pumping = False
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
            action: What the op does. Given for every op but a wait.
            wait: What a wait looks at.
        """
        open_deps = {node for node in deps if not node.done}
        eager = self.scope.rng is None
        if eager and not open_deps:
            if wait is None:
                if action is not None:
                    action()
                return None
            if wait.poll():
                return None
        if not self._hooked:
            self._hook()
        self._seq += 1
        node = Node(self._seq, label, action, wait, self.scope)
        node.missing = len(open_deps)
        for dep in open_deps:
            dep.dependents.append(node)
        self._open += 1
        self.scope.open += 1
        self.quiet = False
        if not open_deps:
            if wait is not None and eager:
                self._blocked.append(node)
            else:
                self._push(node)
        return node

    def _hook(self) -> None:
        """Have what is still pending when the program ends run then, so that a hang is reported."""
        self._hooked = True
        everyone = _world()
        if everyone is not None:
            from emu.comm.world.details import add_provider
            from emu.pypto.hangs import pending_lines

            everyone.on_finish(self.drain)
            add_provider(lambda: pending_lines(self))

    # --- scopes ---------------------------------------------------------------------------------

    def enter(self, scope: Scope) -> Scope:
        """Make ``scope`` the one that new nodes belong to; return the one before."""
        before, self.scope = self.scope, scope
        self.quiet = self._open == 0 and scope.rng is None
        return before

    def leave(self, before: Scope, *, failed: bool) -> None:
        """Drain the current scope, do what it left for the end, and go back to ``before``.

        After a failure nothing is drained: the kernel's nodes are given up with it.
        """
        scope = self.scope
        drained = False
        try:
            if not failed:
                self.drain()
                drained = True
        finally:
            if scope.open:
                self._give_up(scope)
            self.enter(before)
            # What failed is what must be heard of, not that something could not be given back after it.
            with contextlib.nullcontext() if drained else contextlib.suppress(Exception):
                for finish in scope.at_end:
                    finish()

    def drain(self) -> None:
        """Run until every node of the current scope is complete."""
        scope = self.scope
        self._pump(lambda: scope.open == 0)

    def force(self, nodes: list[Node]) -> None:
        """Run until these nodes are complete, in an order the schedule allows."""
        if nodes:
            self._pump(lambda: all(node.done for node in nodes))

    @property
    def pending(self) -> int:
        """Number of nodes that have not completed."""
        return self._open

    def held_up(self) -> tuple[list[Node], list[Node]]:
        """Return the waits that have not matched, and all other pending nodes, in program order."""
        blocked = sorted(self._blocked)
        found = {node for node in self._ready if not node.done}
        at_hand = [*blocked, *found]
        while at_hand:
            more = {node for node in at_hand.pop().dependents if not node.done} - found
            found |= more
            at_hand += more
        return blocked, sorted(found)

    # --- running --------------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        heapq.heappush(self._ready, node)

    def _pump(self, done: Callable[[], bool]) -> None:
        if self._pumping:
            raise GraphError("a value must not be demanded while an op runs")
        self._pumping = True
        try:
            while not done():
                if self._ready and not self._look_first():
                    self._run(self._draw())
                elif not self._poll() and not self._ready:
                    self._sleep()
            while self._ready and self.scope.rng is None:
                self._run(self._draw())
        finally:
            self._pumping = False

    def _look_first(self) -> bool:
        """Under a random schedule, sometimes look at the waits before ready nodes are used up."""
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
                return
        elif node.action is not None:
            try:
                node.action()
            except Exception as error:
                self._drop(node)
                from emu.pypto.hangs import name_of

                error.add_note(f"in {name_of(node)} of this PE")
                raise
        self._complete(node)

    def _complete(self, node: Node) -> None:
        node.done = True
        node.action = node.wait = node.about = None
        node.scope.open -= 1
        self._open -= 1
        for dependent in node.dependents:
            dependent.missing -= 1
            if dependent.missing == 0 and not dependent.done:
                self._push(dependent)
        node.dependents = []
        if self._open == 0:
            self.quiet = self.scope.rng is None

    def _drop(self, failed: Node) -> None:
        """Forget an op that has raised, and all that depends on it: it must not raise again."""
        at_hand = [failed]
        while at_hand:
            node = at_hand.pop()
            if not node.done:
                node.done = True
                node.scope.open -= 1
                self._open -= 1
                at_hand += node.dependents
        if self._open == 0:
            self.quiet = self.scope.rng is None

    def _poll(self) -> bool:
        """Look at every blocked wait once; return whether one completed."""
        still: list[Node] = []
        progress = False
        for node in self._blocked:
            if node.wait is not None and node.wait.poll():
                self._complete(node)
                progress = True
            else:
                still.append(node)
        self._blocked = still
        return progress

    def _sleep(self) -> None:
        waits = [node.wait for node in self._blocked if node.wait is not None]
        words = [word for wait in waits for word in wait.words()]
        if not words:
            raise GraphError(f"{self._open} ops are pending and none can run: this is a bug of emu")
        from emu.comm.world.world import world

        # Waits name what they wait for in the language of the program; World adds words and values.
        text = "; ".join(wait.describe() for wait in waits[:3])
        more = f"; and {len(waits) - 3} waits more" if len(waits) > 3 else ""
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
        self._open -= scope.open


class _Defaults:
    """What a scope starts with unless its kernel says otherwise."""

    __slots__ = ("allow_mixed_add", "schedule", "seed")

    def __init__(self) -> None:
        self.schedule: Schedule = "program"
        self.seed = 0
        self.allow_mixed_add = False


GRAPH = Graph()
DEFAULTS = _Defaults()


def check_schedule(schedule: Any, seed: Any) -> None:
    """Refuse what is no schedule, or no seed of one."""
    if not isinstance(schedule, str) or schedule not in ("program", "random"):
        raise ArgumentError(f'schedule must be "program" or "random", but got {shown(schedule)}')
    as_int(seed, "seed")


def new_scope(
    schedule: Schedule | None = None, seed: int | None = None, allow_mixed_add: bool | None = None
) -> Scope:
    """Return a scope; what is None comes from :func:`set_schedule` and :func:`set_options`."""
    schedule = DEFAULTS.schedule if schedule is None else schedule
    seed = DEFAULTS.seed if seed is None else seed
    mixed = DEFAULTS.allow_mixed_add if allow_mixed_add is None else allow_mixed_add
    check_schedule(schedule, seed)
    if schedule == "program":
        return Scope(None, mixed)
    everyone = _world()
    my_pe = 0 if everyone is None else everyone.my_pe
    return Scope(random.Random(int(seed) * 65_537 + my_pe), mixed)


def _world() -> World | None:
    """Return the World, or None in a process that is no PE, where local ops work all the same."""
    from emu.comm.errors import CommError
    from emu.comm.world.world import world

    try:
        return world()
    except CommError:
        return None


class Restore:
    """What a setter returns: leaving it as a context manager undoes the setting."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._undo()


def set_schedule(schedule: Schedule, seed: int = 0) -> Restore:
    """Choose the order in which nodes run that nothing orders.

    Args:
        schedule: ``"program"`` (the default): as written, each as soon as it may. ``"random"``: a
            legal order drawn with ``random.Random``, another one for every PE.
        seed: Seed of the draw.

    Returns:
        A context manager that restores the schedule before; it may be ignored.
    """
    scope = new_scope(schedule, seed)
    before = (DEFAULTS.schedule, DEFAULTS.seed, GRAPH.scope, GRAPH.scope.rng)

    def apply(name: Schedule, number: int, on: Scope, rng: random.Random | None) -> None:
        DEFAULTS.schedule, DEFAULTS.seed, on.rng = name, number, rng
        GRAPH.quiet = GRAPH.pending == 0 and GRAPH.scope.rng is None

    apply(schedule, seed, GRAPH.scope, scope.rng)
    return Restore(lambda: apply(*before))


def set_options(*, allow_mixed_add: bool) -> Restore:
    """Set options of the emulator.

    Args:
        allow_mixed_add: Allow ADD of FP16 or BF16 into FP32 shared memory; each element is widened
            before it is added. Default: False, where a store needs equal data types.

    Returns:
        A context manager that restores the options before; it may be ignored.
    """
    allow_mixed_add = as_flag(allow_mixed_add, "allow_mixed_add")
    scope = GRAPH.scope
    before = (DEFAULTS.allow_mixed_add, scope.allow_mixed_add)

    def undo() -> None:
        DEFAULTS.allow_mixed_add, scope.allow_mixed_add = before

    DEFAULTS.allow_mixed_add = scope.allow_mixed_add = allow_mixed_add
    return Restore(undo)


def synchronize() -> None:
    """Run until every op of this PE so far is complete.

    Kernels do so at their end. Outside of kernels call it before anything that may block without
    the graph's knowledge, as ``emu.world().barrier()`` does.
    """
    GRAPH.drain()
