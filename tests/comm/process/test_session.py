"""Sessions: PEs that carry out one order after the other, and how they end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError, CommError, DeadlockError, PEDiedError
from emu.comm.process.session import Session, close_all
from emu.comm.world.current import world

ROOT = Path(__file__).parents[3]


def carry_out(orders, base: int) -> None:
    """Do what the orders say."""
    here = world()
    total = here.alloc(1, np.int64)
    for order in orders:
        kind, pe = order if isinstance(order, tuple) else (order, None)
        mine = pe in (None, here.my_pe)
        if kind == "raise" and mine:
            raise ValueError(f"PE {here.my_pe} cannot")
        if kind == "die" and mine:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "leave" and mine:
            sys.exit(0)
        if kind == "wait" and mine:
            here.barrier()
        if kind == "print":
            print("line", here.my_pe)
        if kind == "pid":
            orders.reply(os.getpid())
            continue
        total.local[0] += 1
        orders.reply((base + here.my_pe, int(total.local[0])))


@pytest.fixture
def make() -> Iterator[Callable[..., Session]]:
    made: list[Session] = []

    def start(n_pes: int = 2, **options) -> Session:
        made.append(Session(carry_out, n_pes, args=(10,), options=emu.LaunchOptions(**options)))
        return made[-1]

    yield start
    for session in made:
        session.close()


def test_pes_keep_their_state_from_order_to_order(make) -> None:
    session = make(3)
    for count in (1, 2, 3):
        assert session.order("count") == [(10, count), (11, count), (12, count)]


def test_output_has_arrived_when_an_order_was_carried_out(make, capsys) -> None:
    session = make()
    session.order("print")
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] line 0", "[1] line 1"]


def test_a_pe_that_raises_ends_the_session_with_its_exception(make) -> None:
    session = make()
    with pytest.raises(ExceptionGroup) as caught:
        session.order(("raise", 1))
    assert caught.group_contains(ValueError, match="PE 1 cannot")
    assert not session.is_open
    with pytest.raises(CommError, match="session must be open"):
        session.order("count")


def test_a_pe_that_is_killed_is_reported(make) -> None:
    session = make(3)
    with pytest.raises(ExceptionGroup) as caught:
        session.order(("die", 2))
    assert caught.group_contains(PEDiedError, match="PE 2 .* was killed by SIGKILL")


def test_a_pe_that_was_killed_between_orders_is_reported_by_the_next(make) -> None:
    session = make()
    os.kill(session.order("pid")[0], signal.SIGKILL)
    with pytest.raises(ExceptionGroup) as caught:
        session.order("count")
    assert caught.group_contains(PEDiedError, match="PE 0")


def test_a_pe_that_leaves_in_the_middle_is_reported(make) -> None:
    session = make()
    with pytest.raises(ExceptionGroup) as caught:
        session.order(("leave", 1))
    assert caught.group_contains(CommError, match="PE 1 ended before it had carried out its order")


def test_pes_that_wait_for_one_that_has_carried_out_its_order_are_a_deadlock(make) -> None:
    session = make(timeout=1.0)
    with pytest.raises(ExceptionGroup, match="PE 1 has finished") as caught:
        session.order(("wait", 0))
    assert caught.group_contains(DeadlockError)


def test_time_between_orders_is_no_deadlock(make) -> None:
    session = make(timeout=0.3)
    session.order("count")
    time.sleep(1.0)
    assert session.order("count") == [(10, 2), (11, 2)]


def test_a_session_that_is_collected_ends_its_pes() -> None:
    session = Session(carry_out, 2, args=(0,))
    pids = session.order("pid")
    del session
    gc.collect()
    assert have_ended(pids)


def test_closing_ends_the_pes_and_a_second_time_does_nothing(make) -> None:
    session = make()
    pids = session.order("pid")
    session.close()
    session.close()
    assert have_ended(pids)


def test_all_sessions_can_be_closed(make) -> None:
    sessions = [make(), make()]
    pids = [pid for session in sessions for pid in session.order("pid")]
    close_all()
    assert not any(session.is_open for session in sessions)
    assert have_ended(pids)


def have_ended(pids: list[int]) -> bool:
    for _ in range(500):
        if not any(is_running(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_two_sessions_and_a_launch_beside_each_other(make) -> None:
    first, second = make(2), make(3)
    assert first.order("count")[1] == (11, 1)
    assert emu.launch(os.getpid, 2)
    assert second.order("count")[2] == (12, 1)
    assert first.order("count")[1] == (11, 2)


def test_wrong_arguments_start_nothing() -> None:
    with pytest.raises(ArgumentError, match="n_pes"):
        Session(carry_out, 0)
    with pytest.raises(ArgumentError, match="fn must be callable"):
        Session(3, 2)
    with pytest.raises(ArgumentError, match=r"transport must be 'shm' .* but got 'mpi'"):
        Session(carry_out, 2, options=emu.LaunchOptions(transport="mpi"))


SCRIPT = """
    import os, signal, sys, threading, time
    from tests_session import carry_out
    from emu.comm.process.session import Session

    if __name__ == "__main__":
        session = Session(carry_out, 2, args=(0,))
        print(*session.order("pid"), flush=True)
        {rest}
"""


def run_script(tmp_path: Path, rest: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "tests_session.py").write_text(Path(__file__).read_text())
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).format(rest=rest))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    return subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        ("", 0),
        pytest.param("raise ValueError('mine')", 1, marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        pytest.param("os._exit(3)", 3, marks=pytest.mark.slow),
    ],
)
def test_pes_end_with_their_launcher(tmp_path: Path, rest: str, status: int) -> None:
    done = run_script(tmp_path, rest)
    assert done.returncode == status, done.stderr
    assert have_ended([int(pid) for pid in done.stdout.split()])


def test_ctrl_c_stops_an_order(tmp_path: Path) -> None:
    rest = (
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start(); "
        "session.order(('wait', 0))"
    )
    done = run_script(tmp_path, rest)
    assert "KeyboardInterrupt" in done.stderr
    assert have_ended([int(pid) for pid in done.stdout.split()])
