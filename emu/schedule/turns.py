"""``Turns``: one PE at a time, in the order of a schedule.

Every operation of a PE is a *point*: the PE notes in its row what it is about to do, and sleeps until it is its turn.
Who was the last to come decides who goes on: it looks at all rows, asks the schedule, and grants one actor its turn. So
there is no further process, and nothing is decided while a PE runs: a decision depends on the rows and on what was
decided before, and on nothing else. That makes an order repeatable.

A PE's turn ends when it comes to its next point. What a PE may be granted:

* *go*: do the operation, and run to the next point;
* *look*: its wait's condition may hold now: look, note it, and let the decision go on;
* *deliver*: let one of its stores arrive, and let the decision go on;
* *free*: nobody takes turns any more.

A condition of a wait is looked at again when something was done to the heap that it depends on. All members of a group
that have come to a barrier go into it at once, and take turns again behind it.

A PE may run for long without an operation: it computes, or waits for what is no operation. When nothing has happened for
``_STALL_S``, the others go on without it, and the trace says so: from there on the order may differ from run to run.
When nobody can go on, all are set free: they come to the waits that they stand before, and what watches
PEs that wait finds the deadlock, and explains it, as it does in any launch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from emu.check.area import SITE_BYTES, SITES
from emu.check.races.sites import Sites
from emu.comm.arrays import Array, Words
from emu.comm.layout import B_COMPILING
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import check_stopped
from emu.comm.schedule_options import Schedule
from emu.comm.world.faulting import Faultless
from emu.comm.world.membership import Membership
from emu.comm.world.steering import Span
from emu.schedule.area import (
    AWAY,
    COUNTERS,
    DEADLOCK,
    DELIVER,
    ENDED,
    FREE,
    GO,
    H_ARRIVALS,
    H_FREED,
    H_IDLE,
    H_LOOKED_AGAIN,
    H_STEP,
    HEADER_WORDS,
    LOOK,
    MEETS,
    R_ACTION,
    R_GRANT,
    R_LOOKS,
    R_ONLY_LOOKS,
    R_OPERATIONS,
    R_REACHED,
    R_STATE,
    R_STEP,
    READY,
    ROW_WORDS,
    RUNS,
    STEPS,
    TOO_LONG,
    WAITS,
    Area,
)
from emu.schedule.rows import Rows
from emu.schedule.sleeping import do_lock, do_sleep, do_unlock, do_wake
from emu.schedule.stores import Stores
from emu.schedule.strategies import Candidate, choose
from emu.schedule.trace import TraceWriter
from emu.schedule.views import steered_view

_STALL_S = 2.0
_POLL_S = 0.001


class Turns(Faultless):
    """Steers a PE of a world whose PEs take turns.

    Args:
        segment: The world's.
        me: Address of this PE's block.
        pe: Its number.
        schedule: In which order.
        late: Whether stores may arrive late.
    """

    def __init__(
        self, segment: Segment, me: int, pe: int, schedule: Schedule, *, late: bool
    ) -> None:
        self.late = late
        self.seed = schedule.seed
        self._segment, self._me, self._pe, self._schedule = segment, me, pe, schedule
        self._area = area = Area(segment.layout.n_pes)
        memory = segment.map_schedule()
        self._base = int(memory.ctypes.data)
        self._head: Words = memory[: 8 * HEADER_WORDS].view("i8")
        self._memory: Words = memory[area.memory : area.memory + 8 * area.memory_words].view("i8")
        self._rows = Rows(memory, area)
        self._row = self._rows.rows[pe]
        first = area.sites + pe * SITES * SITE_BYTES
        self._sites = Sites(memory[first : first + SITES * SITE_BYTES])
        self._trace = TraceWriter(memory, area)
        self._stores = Stores(self._row)
        self._thread = threading.get_ident()
        self._seen = 0
        self._holds: Callable[[], bool] | None = None
        self._watch = pe
        self._meets = False

    # --- what the PE asks ------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether this thread of the PE takes no turns: not any more, or because it is not the program's first."""
        return bool(self._head[H_FREED]) or threading.get_ident() != self._thread

    def _takes_turns(self) -> bool:
        """Return whether this thread takes turns; of a PE that does not any more, all stores arrive."""
        if not self.is_free:
            return not self._meets
        if threading.get_ident() == self._thread:
            self._flush()
        return False

    def point(self, operation: str, spans: Sequence[Span], *, looks: bool = False) -> None:
        """Return when it is this PE's turn."""
        if self._takes_turns():
            self._come(READY, operation, spans, looks=looks)

    def wait(self, operation: str, spans: Sequence[Span], holds: Callable[[], bool]) -> None:
        """Return when a condition holds and it is this PE's turn."""
        if not self._takes_turns():
            return
        self._holds, self._watch = holds, spans[0].pe if spans else self._pe
        self._come(WAITS, operation, spans)
        self._holds = None

    def meet(self, operation: str, group: Membership) -> Meeting:
        """Return what is entered when all members have come."""
        return Meeting(self, operation, group)

    def come_to_meeting(self, operation: str, group: Membership) -> None:
        """Return when all members of a group have come."""
        if not self._takes_turns():
            return
        if operation == "barrier":
            self.quiet(f"{operation}: stores arrive")
        self._rows.write_meeting(self._pe, group.index + 1, group.n_pes)
        self._come(MEETS, operation, ())
        self._meets = True  # what it is made of are no operations of the program

    def end_meeting(self) -> None:
        """Let operations be points again."""
        self._meets = False

    def send(
        self, operation: str, span: Span, store: Callable[[], None], *, joins: bool = False
    ) -> None:
        """Do a store now or later."""
        takes_turns = self._takes_turns()
        if not takes_turns or not self.late or self._sites.find_user(operation).is_own:
            # A front end keeps its own rules by what emu promises: a store has arrived when it returns.
            if takes_turns:
                self._flush()
            store()
            self._changed([span])
            return
        if self._stores.is_full and not joins:
            self._changed([self._stores.arrive_first()])
        self._stores.add(
            span, self._sites.find_user(f"{operation} arrives").number, store, joins=joins
        )

    def fence(self) -> None:
        """Let later stores arrive behind earlier ones."""
        self._stores.fence()

    def settle(self, pe: int) -> None:
        """Let stores before the last fence arrive at a PE."""
        self._changed(self._stores.arrive_all(pe, before_fence=True))

    def quiet(self, operation: str = "quiet") -> None:
        """Let all stores of this PE arrive; others may act before, while some have arrived and some have not."""
        if not self._stores.is_empty:
            self.point(operation, ())
        self._flush()

    def _flush(self) -> None:
        """Let all stores of this PE arrive now."""
        self._changed(self._stores.arrive_all())

    def reach(self, counter: int, value: int) -> None:
        """Note how far this PE's part of something common has come."""
        self._row[R_REACHED + counter % COUNTERS] = value
        self._rows.versions += 1

    def wait_for_all(self, operation: str, group: Membership, counter: int, value: int) -> None:
        """Return when the counters of all members have come to a value and it is this PE's turn."""
        place = R_REACHED + counter % COUNTERS
        rows = [self._rows.rows[pe] for pe in group.members]
        self.wait(operation, (), lambda: all(row[place] >= value for row in rows))

    def view(self, array: Array, span: Span, label: str) -> Array:
        """Return memory of a heap as an array whose uses are points."""
        if self.is_free or self._sites.find_user("").is_own:
            return array
        return steered_view(self, array, span, label)

    def is_in_heap(self, array: Array) -> bool:
        """Return whether an array is in a heap."""
        address = int(array.__array_interface__["data"][0])
        return address in self._segment.heap_addresses

    def finish(self) -> None:
        """Give up all turns."""
        self.quiet("end: stores arrive")
        if self.is_free:
            return
        with _Lock(self):
            self._head[H_IDLE] += self._row[R_STATE] != AWAY
            self._row[R_STATE] = ENDED
            self._head[H_ARRIVALS] += 1
            self._decide_if_idle()

    # --- turns -----------------------------------------------------------------------------

    def lock_address(self) -> tuple[int, int]:
        """Return what the lock of the area is taken with."""
        return self._me, self._base

    def _changed(self, spans: Sequence[Span | None]) -> None:
        """Note stores that have arrived as a part of what this PE does."""
        found = [span for span in spans if span is not None]
        self._rows.changed(found)
        if found and self._row[R_STATE] == RUNS:
            self._trace.widen(int(self._row[R_STEP]))

    def _come(
        self, state: int, operation: str, spans: Sequence[Span], *, looks: bool = False
    ) -> None:
        """Come to a point, and return when this PE may go on."""
        site = self._sites.find_user(operation).number
        with _Lock(self):
            was_away = self._row[R_STATE] == AWAY
            self._rows.write(self._pe, state, spans, site=site, only_looks=looks)
            if state == WAITS:
                self._look()
            self._head[H_IDLE] += not was_away
            self._head[H_ARRIVALS] += 1
            self._decide_if_idle()
        while self._next_grant() not in (GO, FREE):
            pass

    def _look(self) -> None:
        assert self._holds is not None
        self._rows.write_wait(self._pe, self._watch, holds=self._holds())

    def _next_grant(self) -> int:
        """Sleep until this PE is granted something; do it, unless it is to go; return what it was."""
        self._sleep()
        self._seen += 1
        action = int(self._row[R_ACTION])
        if action in (GO, FREE):
            if action == FREE:
                self._flush()
            return action
        with _Lock(self):
            if action == LOOK:
                self._look()
            else:
                self._changed([self._stores.arrive(action // _ACTIONS)])
            self._head[H_IDLE] += 1
            self._head[H_ARRIVALS] += 1
            self._decide_if_idle()
        return action

    def _sleep(self) -> None:
        address = self._base + self._area.rows + self._pe * ROW_WORDS * 8 + 8 * R_GRANT
        arrivals, since = int(self._head[H_ARRIVALS]), time.monotonic()
        while do_sleep(self._me, address, self._seen) == self._seen:
            check_stopped(self._segment)
            now = int(self._head[H_ARRIVALS])
            if now != arrivals:
                arrivals, since = now, time.monotonic()
            elif time.monotonic() - since > _STALL_S:
                self._pass_by(arrivals)
                since = time.monotonic()

    def _pass_by(self, arrivals: int) -> None:
        """Let the others go on without those that have run for too long, unless they compile."""
        with _Lock(self):
            running = self._rows.in_state(RUNS)
            if self._head[H_ARRIVALS] != arrivals or any(
                self._segment.block(pe)[B_COMPILING] for pe in running
            ):
                return
            if running:
                self._rows.give_up()
                self._head[H_IDLE] += len(running)
                self._decide_if_idle()

    def _decide_if_idle(self) -> None:
        if self._head[H_IDLE] >= self._area.n_pes and not self._head[H_FREED]:
            self._decide()

    def _decide(self) -> None:
        """Grant the next turn; the lock is held, and no PE runs."""
        while True:
            stale = self._rows.stale()
            if stale == self._pe and self._holds is not None:
                self._look()
                continue
            if stale is not None:
                self._grant(stale, LOOK)
                return
            candidates = self._rows.candidates()
            if candidates:
                self._head[H_LOOKED_AGAIN] = 0
                if self._act(candidates):
                    return
                continue
            alive = self._area.n_pes - len(self._rows.in_state(ENDED))
            if not alive or self._rows.in_state(AWAY) or self._rows.in_state(RUNS):
                return  # who runs decides when it comes to its next point
            if not self._head[H_LOOKED_AGAIN] and self._rows.distrust():
                self._head[H_LOOKED_AGAIN] = 1  # memory may have changed by what is no operation
                continue
            self._free(DEADLOCK)
            return

    def _act(self, candidates: Sequence[Candidate]) -> bool:
        """Let the schedule choose; return False if this PE has done what was chosen, and decides again."""
        n_pes, step = self._area.n_pes, int(self._head[H_STEP])
        if step >= STEPS:
            self._free(TOO_LONG)
            return True
        if all(c.is_fruitless for c in candidates):
            time.sleep(_POLL_S)  # they wait for what is no operation
        choice = choose(self._schedule, n_pes, step, candidates, self._memory)
        self._trace.write(step, choice, candidates, stalled=bool(self._rows.in_state(AWAY)))
        self._head[H_STEP] = step + 1
        chosen = choice.chosen
        pe, number = chosen.actor % n_pes, chosen.actor // n_pes
        if number:
            if pe == self._pe:
                self._changed([self._stores.arrive(number)])
                return False
            self._grant(pe, DELIVER + _ACTIONS * number)
            return True
        self._rows.changed(chosen.spans)
        row = self._rows.rows[pe]
        group = self._rows.meeting(pe) if row[R_STATE] == MEETS else [pe]
        row[R_LOOKS] = row[R_LOOKS] + 1 if row[R_ONLY_LOOKS] else 0
        for member in group:
            self._rows.rows[member][R_STATE] = RUNS
            self._rows.rows[member][R_OPERATIONS] += 1
            self._rows.rows[member][R_STEP] = step
            self._grant(member, GO)
        return True

    def _grant(self, pe: int, action: int) -> None:
        self._head[H_IDLE] -= 1
        self._rows.rows[pe][R_ACTION] = action
        do_wake(self._base + self._area.rows + pe * ROW_WORDS * 8 + 8 * R_GRANT)

    def _free(self, why: int) -> None:
        """Let all go on as they like."""
        self._head[H_FREED] = why
        for pe, row in enumerate(self._rows.rows):
            if row[R_STATE] in (READY, WAITS, MEETS):
                self._grant(pe, FREE)


_ACTIONS = 8
"""What is granted: an action, and with DELIVER this times the number of the store."""


class _Lock:
    """The lock of the area, for a while."""

    def __init__(self, turns: Turns) -> None:
        self._me, self._address = turns.lock_address()

    def __enter__(self) -> None:
        do_lock(self._me, self._address)

    def __exit__(self, *_: object) -> None:
        do_unlock(self._address)


class Meeting:
    """A barrier or a collective: entered when all have come, and left one by one."""

    def __init__(self, turns: Turns, operation: str, group: Membership) -> None:
        self._turns, self._operation, self._group = turns, operation, group

    def __enter__(self) -> None:
        self._turns.come_to_meeting(self._operation, self._group)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._turns.end_meeting()
        if kind is None:
            self._turns.point(f"leaves {self._operation}", ())
