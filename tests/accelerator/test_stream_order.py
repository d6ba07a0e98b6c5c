"""Vector clocks and histories of accesses, compared with reachability in the graph of what happens before what."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from emu.accelerator.byte_regions import dense
from emu.accelerator.stream_order import Access, Clocks, History

LINES = 3
SIZE = 6


class Step(NamedTuple):
    line: int
    is_write: bool = False
    low: int = 0
    high: int = 0
    waits_for: int | None = None  # another line; its own: it waits for its last event
    records: bool = False
    is_atomic: bool = False


STEPS = st.lists(
    st.one_of(
        st.builds(
            lambda line, kind, low, length: Step(
                *(line, kind > 0, low, min(low + length, SIZE)), is_atomic=kind == 2
            ),
            st.integers(0, LINES - 1),
            st.integers(0, 2),
            st.integers(0, SIZE - 1),
            st.integers(1, SIZE),
        ),
        st.builds(
            lambda line, other: Step(line, waits_for=other),
            st.integers(0, LINES - 1),
            st.integers(0, LINES - 1),
        ),
        st.builds(lambda line: Step(line, records=True), st.integers(0, LINES - 1)),
    ),
    max_size=24,
)
"""Programs of accesses, waits for another line, waits for the event that was recorded last, and events."""


def racy_by_clocks(steps):
    clocks, history, event, found = Clocks(), History(), None, []
    for number, step in enumerate(steps):
        if step.records:
            event = clocks.now(step.line)
        elif step.waits_for == step.line:
            clocks.join(step.line, event or {})
        elif step.waits_for is not None:
            clocks.join(step.line, clocks.of(step.waits_for))
        else:
            time, region = clocks.tick(step.line), dense(step.low, step.high)
            access = Access(step.line, time, step.is_write, region, number, step.is_atomic)
            known = clocks.of(step.line)
            if any(True for _ in history.conflicts(access, known)):
                found.append(number)
            history.add(access, known)
    return found


def racy_by_reachability(steps):
    """Return the accesses that conflict with an earlier one from which no path leads to them."""
    edges = [set() for _ in steps]
    last, event = {}, None
    for number, step in enumerate(steps):
        if step.line in last:
            edges[number].add(last[step.line])
        source = last.get(step.waits_for)
        if step.waits_for == step.line:
            source = event
        if step.waits_for is not None and source is not None:
            edges[number].add(source)
        last[step.line] = number
        if step.records:
            event = number

    def reaches(one, other):
        pending, seen = [other], set()
        while pending:
            node = pending.pop()
            if node == one:
                return True
            if node not in seen:
                seen.add(node)
                pending.extend(edges[node])
        return False

    return [
        number
        for number, step in enumerate(steps)
        if any(
            step.high
            and before.high
            and (step.is_write or before.is_write)
            and not (step.is_atomic and before.is_atomic)
            and max(step.low, before.low) < min(step.high, before.high)
            and not reaches(other, number)
            for other, before in enumerate(steps[:number])
        )
    ]


@settings(max_examples=400)
@given(STEPS)
def test_clocks_find_what_no_path_orders(steps) -> None:
    assert racy_by_clocks(steps) == racy_by_reachability(steps)


def test_a_history_keeps_what_later_accesses_may_conflict_with_only() -> None:
    clocks, history = Clocks(), History()
    for _ in range(100):
        for is_write in (False, True):
            time = clocks.tick("a")
            history.add(Access("a", time, is_write, dense(0, 8)), clocks.of("a"))
    other = Access("b", clocks.tick("b"), False, dense(4, 6))
    (found,) = history.conflicts(other, clocks.of("b"))
    assert (found.line, found.time, found.is_write) == ("a", 200, True)
    assert history.uses["a"].time == 200
    assert not clocks.knows("b", "a", 200)
    clocks.join("b", clocks.now("a"))
    assert clocks.knows("b", "a", 200)
    assert not list(history.conflicts(other, clocks.of("b")))
