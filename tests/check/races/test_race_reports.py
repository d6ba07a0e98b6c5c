"""Programs with one race each, and their repaired twins: launched, and what the report says."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emu
from emu import AtomicOp, CheckError, Checks, Cmp
from emu.check import Race
from emu.check.report_files import write_reports
from emu.comm.process.forked import launch_forked
from emu.comm.process.session import Session

RACE = Checks(race=True)


def put_without_fence(repaired: bool) -> None:
    world = emu.world()
    data, flag = world.alloc(4, np.float32, name="data"), world.alloc(1, np.int64)
    if world.my_pe == 0:
        world.put(data, np.ones(4, np.float32), 1)  # A
        if repaired:
            world.fence()
        world.signal_op(flag, 1, 1)
    else:
        world.wait_until(flag, Cmp.EQ, 1)
        assert data.local.sum() == 4  # B


def no_wait(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc((3, 4), np.int32, name="data")
    if world.my_pe == 0:
        world.put(data, np.full((2, 2), 7, np.int32), 1, offsets=(1, 1))  # A
    if repaired:
        world.barrier()
    if world.my_pe == 1:
        assert data.local[1:, 2].sum() in (0, 14)  # B


def wrong_signal(repaired: bool) -> None:
    """Two put_signals; who waits for the second knows nothing of the first."""
    world = emu.world()
    data, flags = world.alloc(2, np.float64, name="data"), world.alloc(2, np.int64)
    if world.my_pe == 0:
        world.put_signal(data[:1], [1.0], 1, flags, 1, index=0)  # A
        world.put_signal(data[1:], [2.0], 1, flags, 1, index=1)
    else:
        world.wait_until(flags, Cmp.EQ, 1, index=1)
        if repaired:
            world.wait_until(flags, Cmp.EQ, 1, index=0)
        assert data.local[0] in (0, 1)  # B


def two_writers(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc(64, np.float32, name="data")
    mine = data[32 * world.my_pe :][:32] if repaired else data[:32]
    world.put(mine, np.full(32, world.my_pe, np.float32), 0)  # A B


def one_of_two_senders(repaired: bool) -> None:
    world = emu.world()
    data, count = world.alloc(3, np.int64, name="data"), world.alloc(1, np.int64)
    if world.my_pe:
        words = np.full(1, 5, np.int64)
        here = data[world.my_pe : world.my_pe + 1]
        world.put_signal(here, words, 0, count, 1, sig_op=AtomicOp.ADD)  # A
    else:
        world.wait_until(count, Cmp.GE, 2 if repaired else 1)
        assert data.local[1:].sum() <= 10  # B


def sync_is_no_barrier(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc(1, np.float32, name="data")
    if world.my_pe == 0:
        world.put(data, [1.0], 1)  # A
    if repaired:
        world.quiet()
    world.sync()
    if world.my_pe == 1:
        assert data.local[0] in (0, 1)  # B


def collective_output(repaired: bool) -> None:
    world = emu.world()
    total = world.alloc(4, np.float32, name="total")
    world.all_reduce(np.ones(4, np.float32), out=total)  # A
    if repaired:
        world.barrier()
    if world.my_pe == 0:
        world.put(total, np.zeros(4, np.float32), 1)  # B


def reader_of_a_broadcast(repaired: bool) -> None:
    """The root of a broadcast hears of nobody."""
    world = emu.world()
    data = world.alloc(4, np.float32, name="data")
    if world.my_pe == 1:
        data.local[:] = 1  # A
    if repaired:
        world.barrier()
    world.broadcast(np.ones(2) if world.my_pe == 0 else None)
    if world.my_pe == 0:
        world.get(data, 1)  # B


def add_and_set(repaired: bool) -> None:
    world = emu.world()
    data = world.alloc(4, np.float32, name="data")
    op = AtomicOp.ADD if repaired or world.my_pe else AtomicOp.SET
    world.put(data, np.ones(4, np.float32), 0, op=op)  # A B


def plain_read_of_a_flag(repaired: bool) -> None:
    world = emu.world()
    flag = world.alloc(1, np.int64, name="flag")
    if world.my_pe == 0:
        world.signal_op(flag, 1, 1)  # A
    elif repaired:
        assert world.fetch(flag, 1) in (0, 1)
    else:
        assert flag.local[0] in (0, 1)  # B


def group_of_two(repaired: bool) -> None:
    """A barrier of others orders nothing."""
    world = emu.world()
    data = world.alloc(1, np.float32, name="data")
    if world.my_pe == 0:
        world.put(data, [1.0], 2)  # A
    members = [0, 1] if world.my_pe < 2 else [2]
    world.group(f"of {members}", members).barrier()
    if repaired:
        world.barrier()
    if world.my_pe == 2:
        assert data.local[0] in (0, 1)  # B


PROGRAMS = [
    (put_without_fence, 2),
    (no_wait, 2),
    (wrong_signal, 2),
    (two_writers, 2),
    (one_of_two_senders, 3),
    (sync_is_no_barrier, 2),
    (collective_output, 2),
    (reader_of_a_broadcast, 2),
    (add_and_set, 2),
    (plain_read_of_a_flag, 2),
    (group_of_two, 3),
]


def marked(program: Callable[..., object]) -> tuple[int, int]:
    """Return the lines of a program that are marked A and B."""
    lines, first = inspect.getsourcelines(program)
    (one,) = [first + i for i, text in enumerate(lines) if re.search("# A", text)]
    (other,) = [first + i for i, text in enumerate(lines) if re.search("# (A )?B", text)]
    return one, other


@pytest.mark.parametrize(("program", "n_pes"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_a_race_is_found_and_its_repair_is_silent(
    program: Callable[[bool], None], n_pes: int
) -> None:
    emu.launch(program, n_pes, args=(True,), checks=RACE)
    with pytest.raises(CheckError) as raised:
        emu.launch(program, n_pes, args=(False,), checks=RACE)
    pairs = {
        tuple(sorted((r.first.line, r.second.line)))
        for r in raised.value.reports
        if isinstance(r, Race)
    }
    assert pairs == {tuple(sorted(marked(program)))}
    assert raised.value.results == [None] * n_pes
    assert Path(raised.value.reports[0].first.file) == Path(__file__)  # type: ignore[union-attr]


def test_the_report_names_both_sides_the_memory_and_the_missing_order() -> None:
    with pytest.raises(CheckError) as raised:
        emu.launch(put_without_fence, 2, args=(False,), checks=RACE)
    (report,) = raised.value.reports
    assert isinstance(report, Race)
    one, other = marked(put_without_fence)
    by_line = {side.line: side for side in (report.first, report.second)}
    assert (by_line[one].pe, by_line[one].operation, by_line[one].verb) == (0, "put", "writes")
    assert (by_line[other].pe, by_line[other].operation, by_line[other].verb) == (
        1,
        "load",
        "reads",
    )
    assert (report.heap, report.low, report.high) == (1, 0, 16)
    assert "data (float32, shape (4,))" in report.array
    assert "called neither fence() nor quiet()" in report.reason
    assert report.text in str(raised.value)
    assert "world.put(data, np.ones(4, np.float32), 1)  # A" in report.text


def test_a_wait_for_another_signal_is_named() -> None:
    with pytest.raises(CheckError) as raised:
        emu.launch(wrong_signal, 2, args=(False,), checks=RACE)
    (report,) = raised.value.reports
    line = marked(wrong_signal)[0]
    assert f"has not seen the signal of line {line}" in report.text
    assert f"mend: a wait of PE 1 for the signal of line {line}" in report.text


def test_under_the_strong_model_a_put_is_complete_when_it_returns() -> None:
    strong = Checks(race=True, memory_model="strong")
    emu.launch(put_without_fence, 2, args=(False,), checks=strong)
    with pytest.raises(CheckError):
        emu.launch(no_wait, 2, args=(False,), checks=strong)


def test_emulated_links_change_nothing() -> None:
    link = emu.Link(bandwidth=1e9, latency=1e-5)
    for program, n_pes in PROGRAMS:
        emu.launch(program, n_pes, args=(True,), checks=RACE, link=link)
    with pytest.raises(CheckError):
        emu.launch(wrong_signal, 2, args=(False,), checks=RACE, link=link)


def many_pes() -> None:
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    ring, flags = world.alloc(n, np.float32), world.alloc(n, np.int64)
    for turn in range(1, 4):
        world.put(ring[me : me + 1], [turn], (me + 1) % n)
        world.fence()
        world.signal_op(flags, turn, (me + 1) % n, index=me)
        before = (me - 1) % n
        world.wait_until(flags, Cmp.GE, turn, index=before)
        assert ring.local[before] == turn
        world.barrier()
    assert world.all_reduce(ring).sum() > 0
    ring.local[:] = 0


def test_many_pes_raise_no_false_alarm() -> None:
    emu.launch(many_pes, 20, checks=RACE)


def reuse_of_memory() -> None:
    world = emu.world()
    for _ in range(5):
        data = world.alloc(64, np.float32)
        world.put(data, np.ones(64, np.float32), (world.my_pe + 1) % world.n_pes)
        world.barrier()
        data.local[:] += 1
        data.free()
        world.barrier()


def test_memory_that_was_freed_is_used_again() -> None:
    emu.launch(reuse_of_memory, 2, checks=RACE)


def fails_after_a_race() -> None:
    two_writers(repaired=False)
    emu.world().barrier()
    if emu.world().my_pe == 1:
        raise ValueError("later")


def words_used_again() -> None:
    world = emu.world()
    for _ in range(3):
        data, flag = world.alloc(4, np.float32), world.alloc(1, np.int64)
        if world.my_pe == 0:
            world.put(data, np.ones(4, np.float32), 1)
            world.fence()
            world.signal_op(flag, 1, 1, op=emu.AtomicOp.ADD)
            world.signal_op(flag, 1, 1, op=emu.AtomicOp.ADD)
        else:
            world.wait_until(flag, emu.Cmp.GE, 1)  # the second value is never looked at
            assert data.local.sum() == 4
        world.barrier()
        flag.free()
        data.free()


def test_values_of_a_signal_word_that_was_freed_are_forgotten() -> None:
    emu.launch(words_used_again, 2, checks=RACE)


def test_a_program_that_fails_tells_its_races_too() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        emu.launch(fails_after_a_race, 2, checks=RACE)
    kinds = [type(error) for error in raised.value.exceptions]
    assert kinds == [ValueError, CheckError]


def serve(orders: Any) -> None:
    for repaired in orders:
        two_writers(repaired=repaired)
        orders.reply(emu.world().my_pe)


def test_each_order_of_a_session_has_its_own_findings() -> None:
    with Session(serve, 2, options=emu.LaunchOptions(checks=RACE)) as session:
        assert session.order(True) == [0, 1]
        with pytest.raises(CheckError) as raised:
            session.order(False)
        assert raised.value.results == [0, 1]
        assert session.order(True) == [0, 1]


def serve_one_at_a_time(orders: Any) -> None:
    """The PE that an order names races with itself, at a line of its own."""
    world = emu.world()
    kept = world.alloc(4, np.float32)
    for pe in orders:
        if pe == world.my_pe == 0:
            for _ in range(2):
                world.put(kept, np.ones(4, np.float32), 0)
        elif pe == world.my_pe:
            for _ in range(2):
                world.put(kept, np.ones(4, np.float32), 1)
        orders.reply(None)


def test_findings_of_a_lower_pe_come_after_those_of_a_higher() -> None:
    options = emu.LaunchOptions(checks=Checks(race=True, leak=True))
    told = []
    with Session(serve_one_at_a_time, 2, options=options) as session:
        for pe in (1, 0, 1):
            try:
                session.order(pe)
            except CheckError as error:
                told.append([type(r).__name__ + str(r.first.pe) for r in error.reports])  # type: ignore[union-attr]
    assert told == [["Race1"], ["Race0"]]  # and memory that is still in use is no leak


def serve_then_fail(orders: Any) -> None:
    for program in orders:
        if program == "two writers":
            two_writers(repaired=False)
        else:
            no_wait(repaired=False)
            emu.world().barrier()
            raise ValueError(program)
        orders.reply(None)


def test_an_order_that_fails_tells_what_it_has_found_itself() -> None:
    with Session(serve_then_fail, 2, options=emu.LaunchOptions(checks=RACE)) as session:
        with pytest.raises(CheckError):
            session.order("two writers")
        with pytest.raises(ExceptionGroup) as raised:
            session.order("no wait")
    (found,) = [e for e in raised.value.exceptions if isinstance(e, CheckError)]
    (report,) = found.reports
    assert {report.first.line, report.second.line} == {*marked(no_wait)}  # type: ignore[union-attr]


def fork_and_race() -> None:
    two_writers(repaired=False)


def test_pes_that_are_forks_are_checked() -> None:
    with pytest.raises(CheckError) as raised:
        launch_forked(fork_and_race, 2, emu.LaunchOptions(checks=RACE))
    assert {r.kind for r in raised.value.reports} == {"race"}


def leaves_memory() -> None:
    kept, freed = emu.world().alloc(4, np.float32, name="kept"), emu.world().alloc(4, np.int8)
    assert kept.size
    freed.free()


def test_memory_that_nobody_freed_is_named() -> None:
    with pytest.raises(CheckError) as raised:
        emu.launch(leaves_memory, 2, checks=Checks(leak=True))
    (leak,) = raised.value.reports
    assert leak.text.startswith(
        "leak: 2 members have not freed kept (float32, shape (4,)) (16 bytes"
    )
    assert f"{Path(__file__).name}:" in leak.text


def race_without_a_leak() -> None:
    world = emu.world()
    data = world.alloc(4, np.float32)
    world.put(data, np.ones(4, np.float32), 0)
    world.barrier()
    data.free()


def test_who_asks_for_leaks_is_told_of_no_race() -> None:
    emu.launch(race_without_a_leak, 2, checks=Checks(leak=True))
    with pytest.raises(CheckError):
        emu.launch(race_without_a_leak, 2, checks=RACE)


SCRIPT = """
import numpy as np, emu
world = emu.world()
data = world.alloc(4, np.float32, name="data")
world.put(data, np.ones(4, np.float32), 0)
print("done")
"""


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the racy script."""
    script = folder / "racy.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "2", *options, str(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_ends_with_status_3(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ended = run(tmp_path, "--check", "race", "--report", str(report))
    assert ended.returncode == 3
    assert ended.stdout.count("done") == 2
    assert "racy.py:5: put of PE" in ended.stderr
    (found,) = json.loads(report.read_text())["reports"]
    assert (found["kind"], found["first"]["line"], found["second"]["line"]) == ("race", 5, 5)
    assert run(tmp_path).returncode == 0
    assert run(tmp_path, EMU_CHECK="race").returncode == 3


def test_wrong_options_start_nothing(tmp_path: Path) -> None:
    ended = run(tmp_path, "--check", "rase")
    assert ended.returncode == 2
    assert "did you mean 'race'?" in ended.stderr
    ended = run(tmp_path, "--check", "race", "--memory-model", "x")
    assert ended.returncode == 2
    ended = run(tmp_path, EMU_CHECK="race", EMU_MEMORY_MODEL="middle")
    assert ended.returncode == 2
    assert "memory_model must be 'weak' or 'strong', but got 'middle'" in ended.stderr


def test_a_report_is_a_page_that_needs_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(CheckError) as raised:
        emu.launch(put_without_fence, 2, args=(False,), checks=RACE)
    page = tmp_path / "report.html"
    write_reports(page, raised.value.reports)
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "http" not in text
    assert "<mark>" in text
    assert "called neither fence() nor quiet()" in text
    write_reports(page, ())
    assert "Nothing found" in page.read_text()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"race": 1}, "race must be True or False, but got 1"),
        ({"bounds": "some"}, "bounds must be True, False or 'all', but got 'some'"),
        ({"leak": "yes"}, "leak must be True or False, but got 'yes'"),
        ({"memory_model": None}, "memory_model must be 'weak' or 'strong', but got None"),
    ],
)
def test_wrong_checks_are_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(emu.CommError, match=re.escape(said)):
        Checks(**values)


def test_lists_of_checks() -> None:
    assert Checks.parse("") == Checks()
    assert Checks.parse(" race, leak") == Checks(race=True, leak=True)
    assert Checks.parse("bounds:all").bounds == "all"
    everything = Checks.parse("all")
    assert everything.race
    assert everything.bounds is True
    assert everything.leak
    assert Checks.parse("all,bounds:all").bounds == "all"
    assert Checks.parse(everything.names) == everything
    for text, said in [
        ("bounds,bounds:all", "must have one of bounds and bounds:all"),
        ("hang", "check must be made of race, deadlock"),
    ]:
        with pytest.raises(emu.CommError, match=said):
            Checks.parse(text)
    with pytest.raises(
        emu.CommError, match=r"checks must be an emu\.Checks or None, but got 'race'"
    ):
        emu.launch(leaves_memory, 2, checks="race")  # type: ignore[arg-type]
