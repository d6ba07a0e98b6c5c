"""Stores that arrive late: when they do, what fences and quiet still promise, and what a program may no longer count on."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.errors import StoppedError
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import PE_DIED, publish_stop
from emu.fault.late import LateStores


@pytest.fixture
def segment() -> Segment:
    return Segment.create(Layout(n_pes=2, heap_bytes=1 << 16))


def test_stores_arrive_when_they_are_due_in_order_at_each_pe(segment: Segment) -> None:
    late, arrived = LateStores(segment), []
    begun = time.monotonic()

    def arrives(what: str) -> None:
        arrived.append((what, time.monotonic() - begun))

    for pe, delay, what in ((1, 0.1, "a"), (2, 0.03, "b"), (1, 0.1, "c"), (2, 0.03, "d")):
        late.add(pe, delay, lambda what=what: arrives(what))  # type: ignore[misc]
    assert not late.is_empty
    late.quiet()
    assert late.is_empty
    assert [what for what, _ in arrived] == ["b", "d", "a", "c"]
    assert all(at >= (0.1 if what in "ac" else 0.03) for what, at in arrived)


def test_a_fence_concerns_the_stores_before_it_at_one_pe(segment: Segment) -> None:
    late, arrived = LateStores(segment), set()
    late.add(1, 0.05, lambda: arrived.add(1))
    late.add(0, 5.0, lambda: arrived.add(0))
    late.settle(1)  # there was no fence: it waits for nothing
    assert arrived == set()
    late.fence()
    late.settle(1)
    assert arrived == {1}


def test_a_wait_ends_when_its_condition_holds_or_nothing_is_on_its_way(segment: Segment) -> None:
    late = LateStores(segment)
    late.wait(lambda: False)
    late.add(1, 5.0, lambda: None)
    holds = threading.Event()
    threading.Timer(0.02, holds.set).start()
    begun = time.monotonic()
    late.wait(holds.is_set)
    assert time.monotonic() - begun < 4
    assert not late.is_empty


def test_a_stop_ends_each_wait(segment: Segment) -> None:
    late = LateStores(segment)
    late.add(1, 60.0, lambda: None)
    publish_stop(segment, PE_DIED, "it died")
    with pytest.raises(StoppedError):
        late.quiet()
    with pytest.raises(StoppedError):
        late.wait(lambda: False)


# --- programs --------------------------------------------------------------------------------


def launch(fn: Any, text: str, n_pes: int = 2) -> list[Any]:
    return emu.launch(fn, n_pes, faults=emu.Faults(text), timeout=20)


def asks_how_long() -> float:
    """Return the seconds from a put to its arrival, as the receiver sees them."""
    world = emu.world()
    data, flag = world.alloc(1024, np.float32), world.alloc(1, np.int64)
    world.barrier()
    begun = time.monotonic()
    if world.my_pe == 0:
        world.put(data, np.ones(1024, np.float32), 1)
        world.fence()
        world.signal_op(flag, 1, 1)
    else:
        world.wait_until(flag, emu.Cmp.EQ, 1)
        assert data.local.all()
    took = time.monotonic() - begun
    world.barrier()
    return took


def test_stores_arrive_later_and_the_sender_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    spec = "late:from=0,to=1,ms=1500"
    sender, receiver = launch(asks_how_long, spec)
    assert sender < 1.4 <= receiver  # the PEs leave the barrier a moment apart
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "fault" in text]
    assert line.startswith("[0] PE 0, operation 4 at ")
    assert line.endswith(f": stores to PE 1 late from put on (fault {spec})")


def reads_back(how: str) -> list[float]:
    world = emu.world()
    data, word = world.alloc(4, np.float32), world.alloc(1, np.int64)
    world.get(data, 1)  # which may have to be compiled
    world.barrier()
    seen = []
    if world.my_pe == 0:
        world.put(data, np.ones(4, np.float32), 1)
        if how in ("quiet", "fence"):
            getattr(world, how)()
        if how == "fence":
            world.fetch_add(word, 1, 1)  # behind the put
        seen = world.get(data, 1).tolist()
    world.barrier()
    assert data.local.tolist() == [float(world.my_pe)] * 4
    return seen


@pytest.mark.parametrize(("how", "seen"), [("", 0.0), ("quiet", 1.0), ("fence", 1.0)])
def test_a_put_is_complete_after_quiet_and_not_before(how: str, seen: float) -> None:
    found = emu.launch(reads_back, 2, args=(how,), faults=emu.Faults("late:from=0,to=1,ms=1500"))
    assert found[0] == [seen] * 4, "the get took longer than the store"
    assert emu.launch(reads_back, 2, args=(how,))[0] == [1.0] * 4


def passes_on() -> float | None:
    """PE 0 stores at PE 2 and tells PE 1, which tells PE 2: without quiet PE 2 may be told too soon."""
    world = emu.world()
    data, flag = world.alloc(8, np.float32), world.alloc(1, np.int64)
    world.barrier()
    seen = None
    if world.my_pe == 0:
        world.put(data, np.ones(8, np.float32), 2)
        world.signal_op(flag, 1, 1)
    elif world.my_pe == 1:
        world.wait_until(flag, emu.Cmp.EQ, 1)
        world.signal_op(flag, 1, 2)
    else:
        world.wait_until(flag, emu.Cmp.EQ, 1)
        seen = float(data.local[0])
    world.barrier()
    return seen


def test_what_a_program_wrongly_counts_on_shows() -> None:
    assert emu.launch(passes_on, 3)[2] == 1.0
    assert launch(passes_on, "late:from=0,to=2,ms=3000", 3)[2] == 0.0


def answers() -> int:
    """Two PEs that send to each other in turn, each with all ways to wait."""
    world = emu.world()
    other = 1 - world.my_pe
    words = world.alloc(6, np.int64)
    for step in range(1, 6):
        if step % 2 == world.my_pe:
            world.signal_op(words, step, other, index=step)
        elif step == 1:
            world.wait_until(words, emu.Cmp.EQ, step, index=step)
        elif step == 2:
            world.wait_for([(words, step, emu.Cmp.EQ, step)])
        elif step == 3:
            while not world.test(words, emu.Cmp.EQ, step, index=step):
                pass
        elif step == 4:
            world.wait_until_all(words, emu.Cmp.EQ, step, indices=[step])
        else:
            while words.local[step] != step:
                time.sleep(0.001)
    return int(words.local.sum())


def test_a_pe_whose_stores_are_on_their_way_is_no_deadlock() -> None:
    assert launch(answers, "late:from=0,to=1,ms=150;late:from=1,to=0,ms=150") == [9, 6]


def ends_with_a_store_on_its_way() -> float:
    world = emu.world()
    data, flag = world.alloc(3, np.float32), world.alloc(1, np.int64)
    if world.my_pe == 0:
        world.put_signal(data, np.ones(3, np.float32), 1, flag, 1)
        return 0.0
    world.wait_until(flag, emu.Cmp.EQ, 1)
    return float(data.local.sum())


def test_a_pe_ends_when_its_stores_have_arrived() -> None:
    assert launch(ends_with_a_store_on_its_way, "late:from=0,to=1,ms=300") == [0.0, 3.0]
