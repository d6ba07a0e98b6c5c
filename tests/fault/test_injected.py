"""Each kind of fault, alone and with a schedule: what happens, what is logged, and how a program that tolerates it goes on."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError
from emu.comm.process.session import Session
from emu.comm.schedule_options import Schedule

SCHEDULES = [None, Schedule(strategy="random", seed=5)]
with_and_without_schedule = pytest.mark.parametrize(
    "schedule", SCHEDULES, ids=["at once", "scheduled"]
)


def launch(
    fn: Callable[..., Any], text: str, schedule: Schedule | None = None, n_pes: int = 2
) -> list[Any]:
    return emu.launch(fn, n_pes, faults=emu.Faults(text), schedule=schedule, timeout=20)


def fails(fn: Callable[..., Any], text: str, schedule: Schedule | None = None) -> ExceptionGroup:
    with pytest.raises(ExceptionGroup) as caught:
        launch(fn, text, schedule)
    return caught.value


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was logged of faults, without the folders of files."""
    lines = [line for line in capsys.readouterr().err.splitlines() if "fault" in line]
    return [re.sub(r"at \S*/(\w+\.py):\d+", r"at \1", line) for line in lines]


def sends_a_tile() -> list[float]:
    world = emu.world()
    tile = world.alloc(4, np.float32, name="tile")
    flag = world.alloc(1, np.int64, name="flag")
    if world.my_pe == 0:
        world.put_signal(tile, np.arange(4, dtype=np.float32), 1, flag, 1)
    elif world.my_pe == 1:
        world.wait_until(flag, emu.Cmp.EQ, 1)
    values: list[float] = tile.local.tolist()
    world.barrier()
    return values


# --- kill ----------------------------------------------------------------------------------


@with_and_without_schedule
@pytest.mark.parametrize(
    ("at", "operation"),
    [("op:3", "put_signal tile to PE 1, flag"), ("barrier:1", "barrier"), ("alloc:2", "alloc")],
)
def test_a_pe_is_killed_before_an_operation(
    at: str, operation: str, schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"kill:pe=0,at={at}"
    (error,) = fails(sends_a_tile, spec, schedule).exceptions
    assert isinstance(error, emu.PEDiedError)
    assert (error.pe, error.exitcode) == (0, -9)
    assert f"was killed by SIGKILL; the fault {spec} was to do that. When that" in str(error)
    number = {"op:3": 3, "barrier:1": 4, "alloc:2": 2}[at]
    assert logged(capsys) == [
        f"[0] PE 0, operation {number} at test_injected.py: killed before {operation} (fault {spec})"
    ]


def counts() -> int:
    world = emu.world()
    word = world.alloc(1, np.int64)
    for _ in range(10):
        world.fetch_add(word, 1, 0)
    world.fence()
    world.quiet()
    world.set_lock(lock := world.alloc(2, np.int64))
    world.clear_lock(lock)
    world.barrier()
    value = world.fetch(word, 0)
    world.barrier()
    return value


@pytest.mark.parametrize("at", ["fetch_add:10", "clear_lock:1", "quiet:1", "fence:1", "set_lock:1"])
def test_what_is_counted(at: str, capsys: pytest.CaptureFixture[str]) -> None:
    (error,) = fails(counts, f"kill:pe=0,at={at}").exceptions
    assert isinstance(error, emu.PEDiedError)
    assert f"killed before {at.partition(':')[0]}" in logged(capsys)[0]


def test_a_fault_that_does_not_come_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    faults = (
        "kill:pe=0,at=op:20;kill:pe=1,at=quiet:2;drop-signal:from=0,to=1,nth=1;alloc-fail:pe=0,nth=3;"
        "late:from=1,to=0,ms=1;corrupt:from=1,to=0,nth=1"
    )
    assert launch(counts, faults) == [20, 20]
    assert sorted(logged(capsys)) == [
        "[0] PE 0 has ended before its fault: alloc-fail:pe=0,nth=3 (allocations: 2 so far)",
        "[0] PE 0 has ended before its fault: drop-signal:from=0,to=1,nth=1 (signals to PE 1: 0 so far)",
        "[0] PE 0 has ended before its fault: kill:pe=0,at=op:20 (op: 19 so far)",
        "[1] PE 1 has ended before its fault: corrupt:from=1,to=0,nth=1 (stores to PE 0: 0 so far)",
        "[1] PE 1 has ended before its fault: kill:pe=1,at=quiet:2 (quiet: 1 so far)",
        "[1] PE 1 has ended before its fault: late:from=1,to=0,ms=1 (stores to PE 0: 0 so far)",
    ]


# --- slow ----------------------------------------------------------------------------------


def moves_much() -> float:
    import time

    world = emu.world()
    tile = world.alloc(1 << 20, np.float32)
    source = np.ones(1 << 20, np.float32)
    world.put(tile, source, world.my_pe)
    begun = time.monotonic()
    for _ in range(20):
        world.put(tile, source, world.my_pe)
    return time.monotonic() - begun


@with_and_without_schedule
def test_a_slow_pe_takes_longer(
    schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each of 20 puts takes at least 20 ms, and those of the other PE what they take.
    slow, other = launch(moves_much, "slow:pe=0,ms=20", schedule)
    assert slow >= 0.4
    assert schedule is not None or other < slow
    spec = "slow:pe=0,ms=20"
    assert logged(capsys) == [
        f"[0] PE 0, operation 1 at test_injected.py: slow from alloc on (fault {spec})"
    ]


def test_a_pe_may_be_slower_by_a_factor() -> None:
    slow, other = launch(moves_much, "slow:pe=0,x50")
    assert slow > 5 * other


# --- signals -------------------------------------------------------------------------------


@with_and_without_schedule
def test_a_lost_signal_ends_in_a_report_of_the_wait(
    schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "drop-signal:from=0,to=1,nth=1"
    group = fails(sends_a_tile, spec, schedule)
    assert {type(error) for error in group.exceptions} == {emu.DeadlockError}
    assert "PE 1 waits in wait_until for flag[0] EQ 1 (there: 0, last writer: nobody)" in str(group)
    assert logged(capsys) == [
        f"[0] PE 0, operation 3 at test_injected.py: signal 1 to PE 1 lost (fault {spec})"
    ]


def sends_until_it_is_acknowledged() -> int:
    """Return how often PE 0 has sent its signal."""
    world = emu.world()
    data, flag = world.alloc(1, np.int64), world.alloc(1, np.int64)
    answer = world.alloc(1, np.int64)
    sent = tests = 0
    if world.my_pe == 0:
        world.put(data, np.array([42]), 1)
        while not world.test(answer, emu.Cmp.EQ, 1):
            if tests % 500 == 0:
                world.signal_op(flag, 1, 1)
                sent += 1
            tests += 1
    elif world.my_pe == 1:
        world.wait_until(flag, emu.Cmp.EQ, 1)
        assert data.local[0] == 42
        world.signal_op(answer, 1, 0)
    world.barrier()
    return sent


def adds_up() -> int:
    world = emu.world()
    count = world.alloc(1, np.int64, name="count")
    world.signal_op(count, 1, 1 - world.my_pe, op=emu.AtomicOp.ADD)
    world.barrier()
    return int(count.local[0])


@with_and_without_schedule
def test_an_add_may_arrive_twice(
    schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "duplicate-signal:from=0,to=1,nth=1"
    assert launch(adds_up, "", schedule) == [1, 1]
    assert logged(capsys) == []
    assert launch(adds_up, spec, schedule) == [1, 2]
    assert logged(capsys) == [
        f"[0] PE 0, operation 2 at test_injected.py: signal 1 to PE 1 arrives twice (fault {spec})"
    ]


def puts_with_an_add() -> tuple[float, int]:
    world = emu.world()
    tile, flag = world.alloc(3, np.float32), world.alloc(2, np.int64)
    other = 1 - world.my_pe
    for step in range(3):
        source = np.full(3, step + 1.0, np.float32)
        world.put_signal(tile, source, other, flag, 1, index=1, sig_op=emu.AtomicOp.ADD)
    world.barrier()
    return float(tile.local[0]), int(flag.local[1])


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_of_a_put_signal_the_data_arrive_once(nth: int) -> None:
    assert launch(puts_with_an_add, "") == [(3.0, 3)] * 2
    assert launch(puts_with_an_add, f"drop-signal:from=0,to=1,nth={nth}") == [(3.0, 3), (3.0, 2)]
    twice = f"duplicate-signal:from=1,to=0,nth={nth}"
    assert launch(puts_with_an_add, twice) == [(3.0, 4), (3.0, 3)]


def signals_wrongly() -> list[str]:
    world = emu.world()
    flag, tile = world.alloc(1, np.int32), world.alloc(2, np.float32)
    said = []
    for call in (
        lambda: world.signal_op(flag, 1 << 31, 0),
        lambda: world.signal_op(flag, 1, 2),
        lambda: world.signal_op(flag, 1, 0, index=1),
        lambda: world.signal_op(tile, 1, 0),
        lambda: world.put_signal(tile, [1.0, 2.0], 0, flag, 1 << 31),
        lambda: world.signal_op(flag, 1, 0),
    ):
        try:
            call()
            said.append("done")
        except (ArgumentError, IndexError) as error:
            said.append(str(error))
    return [*said, str(flag.local[0])]


def test_wrong_signals_are_refused_and_not_counted() -> None:
    right = emu.launch(signals_wrongly, 1)[0]
    lost = launch(signals_wrongly, "drop-signal:from=0,to=0,nth=1", n_pes=1)[0]
    assert lost[:-1] == right[:-1]
    assert (right[-1], lost[-1]) == ("1", "0")
    assert right[-2] == "done"
    assert "done" not in right[:-2]


def test_a_race_check_sees_what_has_happened() -> None:
    checks = Checks(race=True)
    assert emu.launch(adds_up, 2, faults=emu.Faults("slow:pe=0,x2"), checks=checks) == [1, 1]
    spec = "duplicate-signal:from=0,to=1,nth=1"
    assert emu.launch(adds_up, 2, faults=emu.Faults(spec), checks=checks) == [1, 2]


# --- data ----------------------------------------------------------------------------------


@with_and_without_schedule
@pytest.mark.parametrize(("bit", "element"), [(31, 0), (64 + 30, 2), (128 + 31, 0)])
def test_one_bit_of_a_store_arrives_wrong(
    bit: int, element: int, schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    right = np.arange(4, dtype=np.float32)
    wrong = right.copy()
    wrong.view(np.uint32)[element] ^= np.uint32(1 << bit % 32)
    spec = f"corrupt:from=0,to=1,nth=1,bit={bit}"
    assert launch(sends_a_tile, spec, schedule)[1] == wrong.tolist()
    assert logged(capsys) == [
        f"[0] PE 0, operation 3 at test_injected.py: bit {bit % 128} of 128 flipped in store 1 to PE 1 (fault {spec})"
    ]


def keeps_its_source() -> tuple[list[int], list[list[int]], int]:
    world = emu.world()
    grid, word = world.alloc((3, 4), np.int16), world.alloc(1, np.int64)
    source = np.arange(24, dtype=np.int16).reshape(3, 8)[:, ::2]
    world.put(grid[:, 1:3], source[:, :2], world.my_pe)
    world.put(word, np.array([5]), world.my_pe)
    return source[0].tolist(), grid.local.tolist(), int(word.local[0])


def test_strided_stores_and_single_words_are_flipped_and_the_source_is_not() -> None:
    source, right, _ = emu.launch(keeps_its_source, 1)[0]
    spec = "corrupt:from=0,to=0,nth=1,bit=50;corrupt:from=0,to=0,nth=2,bit=1"
    after, wrong, word = launch(keeps_its_source, spec, n_pes=1)[0]
    assert (after, word) == (source, 7)
    right[1][2] ^= 1 << 2  # element 3 of the tile of 3 x 2
    assert wrong == right


def test_a_seed_draws_the_same_bit_each_time_and_other_seeds_others() -> None:
    def flipped(seed: int) -> tuple[float, ...]:
        spec = f"corrupt:from=0,to=1,nth=1,seed={seed}"
        values: list[float] = launch(sends_a_tile, spec)[1]
        return tuple(np.array(values, np.float32).view(np.uint32).tolist())

    drawn = [flipped(seed) for seed in range(4)]
    assert [flipped(seed) for seed in range(2)] == drawn[:2]
    assert len(set(drawn)) > 1
    right = np.arange(4, dtype=np.float32).view(np.uint32)
    for values in drawn:
        changed = right ^ np.array(values, np.uint32)
        assert sum(int(word).bit_count() for word in changed) == 1


def sends_with_a_checksum() -> tuple[list[int], int]:
    """Return what has arrived, and how often PE 1 has asked for it."""
    world = emu.world()
    tile, check = world.alloc(8, np.int32), world.alloc(1, np.int64)
    sent, asked = world.alloc(1, np.int64), world.alloc(1, np.int64)
    source, number = np.arange(8, dtype=np.int32), 0
    if world.my_pe == 0:
        while True:
            number += 1
            world.put(tile, source, 1)
            world.put(check, np.array([zlib.crc32(source)]), 1)
            world.put_signal(check, [zlib.crc32(source)], 1, sent, number)
            if world.wait_until(asked, emu.Cmp.NE, number - 1) < 0:
                break
    elif world.my_pe == 1:
        while True:
            number += 1
            world.wait_until(sent, emu.Cmp.EQ, number)
            if zlib.crc32(tile.local) == check.local[0]:
                break
            world.signal_op(asked, number, 0)
        world.signal_op(asked, -1, 0)
    world.barrier()
    return tile.local.tolist(), number


@with_and_without_schedule
def test_a_program_with_checksums_goes_on(schedule: Schedule | None) -> None:
    assert launch(sends_with_a_checksum, "", schedule)[1] == (list(range(8)), 1)
    spec = "corrupt:from=0,to=1,nth=1,seed=1;corrupt:from=0,to=1,nth=4,seed=2"
    assert launch(sends_with_a_checksum, spec, schedule)[1] == (list(range(8)), 3)


@with_and_without_schedule
@pytest.mark.parametrize("lost", [1, 3])
def test_a_program_that_sends_again_goes_on(lost: int, schedule: Schedule | None) -> None:
    spec = ";".join(f"drop-signal:from=0,to=1,nth={n + 1}" for n in range(lost))
    sent, _ = launch(sends_until_it_is_acknowledged, spec, schedule)
    assert sent > lost


# --- memory --------------------------------------------------------------------------------


def allocates() -> list[str]:
    world = emu.world()
    said = []
    for number in range(4):
        try:
            array = world.alloc(8, np.int64, name=f"array {number}")
            said.append(array.label)
        except emu.SymmetricMemoryError as error:
            said.append(str(error))
    world.barrier()
    return said


@with_and_without_schedule
def test_an_allocation_fails_on_one_pe_and_the_next_ones_match(
    schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "alloc-fail:pe=1,nth=2"
    first, second = launch(allocates, spec, schedule)
    assert second[0::2] == first[0::2]
    assert second[3] == first[3]
    assert second[1].startswith("the symmetric heap has no 64 bytes left in one piece: heap_size")
    assert "free arrays or launch with a larger heap_size" in second[1]
    assert logged(capsys) == [
        f"[1] PE 1, operation 2 at test_injected.py: no room for allocation 2 (fault {spec})"
    ]


def allocates_once() -> None:
    world = emu.world()
    world.alloc(4, np.int64)
    world.barrier()


def test_who_does_not_expect_it_raises_it() -> None:
    group = fails(allocates_once, "alloc-fail:pe=0,nth=1")
    assert [type(error) for error in group.exceptions] == [emu.SymmetricMemoryError]


# --- where faults can be ---------------------------------------------------------------------


def serve(order: Any) -> Any:
    return order


def test_pes_that_stay_take_no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    options = emu.LaunchOptions(faults=emu.Faults("slow:pe=0,x2"))
    with pytest.raises(ArgumentError, match="faults must be None for PEs that stay"):
        Session(serve, 1, options=options)


def rooms() -> list[str]:
    emu.world().barrier()
    return [name for name in sys.modules if name.startswith(("emu.fault", "emu.schedule"))]


def print_rooms() -> None:
    (without,) = emu.launch(rooms, 1)
    (found,) = launch(rooms, "slow:pe=0,x2", n_pes=1)
    print(without, "emu.fault.injected" in found, [n for n in found if "schedule" in n])


def test_without_faults_nothing_of_them_is_loaded() -> None:
    # A new interpreter: what other tests have loaded into this one, its PEs find too.
    folder = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import test_injected as t; t.print_rooms()"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert done.stdout == "[] True []\n"
