"""``@pytest.mark.pes``: tests that run on several PEs."""

import signal
from fnmatch import fnmatch

import pytest

from emu.comm.errors import StoppedError
from emu.pytest.pes import note_place

pytest_plugins = "pytester"

HEAD = """
import os, time
import numpy as np
import pytest
import emu
"""


@pytest.fixture
def pytest_in(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest on a file, in a process of its own."""
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(HEAD + text)
        return pytester.runpytest_subprocess(*arguments, timeout=110)

    return run


@pytest.mark.parametrize(
    "arguments",
    [(), *(pytest.param(words, marks=pytest.mark.slow) for words in (("-n", "2"), ("--emu",)))],
    ids=str,
)
def test_fixtures_parameters_and_the_world_reach_the_pes(arguments, pytest_in) -> None:
    result = pytest_in(
        """
class Unpicklable:
    def __reduce__(self):
        raise TypeError("no")

@pytest.fixture(scope="module")
def shared():
    return Unpicklable()

@pytest.fixture
def add(monkeypatch):
    monkeypatch.setattr(os, "listen_here", 3, raising=False)
    monkeypatch.setenv("SET_HERE", "yes")
    return lambda x: x + os.listen_here

@pytest.mark.pes(1, 2, 4)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_ring(world, n_pes, dtype, add, shared, tmp_path):
    assert isinstance(world, emu.World)
    assert (n_pes, world.n_pes) == (len(world.all_gather(np.ones(1))), n_pes)
    assert os.environ["SET_HERE"] == "yes"
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(world.my_pe), str(n_pes))
    assert isinstance(shared, Unpicklable)
    inbox = world.alloc((4,), dtype)
    world.put(inbox, np.full(4, add(world.my_pe), dtype), (world.my_pe + 1) % n_pes)
    world.barrier()
    assert inbox.local[0] == add((world.my_pe - 1) % n_pes)
    (tmp_path / str(world.my_pe)).touch()
    world.barrier()
    assert len(os.listdir(tmp_path)) == n_pes

@pytest.mark.pes(2)
class TestClass:
    def test_method(self, world):
        assert emu.world() is world

    def test_without_fixtures(self):
        assert emu.world().n_pes == 2

def test_alone():
    with pytest.raises(emu.CommError):
        emu.world()
""",
        *arguments,
    )
    result.assert_outcomes(passed=9)


def test_each_failing_pe_shows_its_assertion_and_output(pytest_in) -> None:
    result = pytest_in(
        """
@pytest.mark.pes(3)
def test_fails(world):
    print("on", world.my_pe)
    values = [1, 2, world.my_pe]
    world.barrier()
    time.sleep(0.2 * world.my_pe)
    assert values == [1, 2, 0]
""",
        "-v",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_fails[[]3-PEs[]] FAILED*",
            "On PE 1:",
            ">       assert values == [[]1, 2, 0[]]",
            "E * assert [[]1, 2, 1[]] == [[]1, 2, 0[]]",
            "*Captured stdout call*",
            "[[]1] on 1",
            "FAILED *::test_fails[[]3-PEs[]]*",
        ]
    )
    assert "On PE 0:" not in result.stdout.str()
    assert "launch.py" not in result.stdout.str()


def test_skips_and_expected_failures_are_those_of_pytest(pytest_in) -> None:
    result = pytest_in(
        """
@pytest.mark.pes(2)
def test_skips():
    pytest.skip("not today")

@pytest.mark.pes(2)
def test_expected():
    pytest.xfail("known")

@pytest.mark.pes(2)
@pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
def test_raises(world):
    1 / 0

@pytest.mark.pes(2)
@pytest.mark.xfail(raises=KeyError, strict=True)
def test_raises_another():
    1 / 0

@pytest.mark.pes(2)
def test_fails():
    pytest.fail("by hand", pytrace=False)

@pytest.mark.pes(2)
@pytest.mark.skipif("True")
def test_is_skipped():
    raise AssertionError
""",
        "-rs",
    )
    result.assert_outcomes(passed=0, skipped=2, xfailed=2, failed=2)
    result.stdout.fnmatch_lines(["*by hand*"])


def test_a_crash_a_hang_and_an_exit_fail_that_test_alone(pytest_in) -> None:
    result = pytest_in(
        """
@pytest.mark.pes(2)
def test_crash(world):
    if world.my_pe == 1:
        import ctypes
        ctypes.string_at(0)
    world.barrier()

@pytest.mark.pes(2)
def test_hang(world):
    word = world.alloc((1,), np.int64)
    if world.my_pe == 0:
        world.wait_until(word, emu.Cmp.EQ, 1)
    world.barrier()

@pytest.mark.pes(2)
def test_exit(world):
    os._exit(3)

@pytest.mark.pes(2)
def test_after(world):
    world.barrier()
"""
    )
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*_ test_crash*",
            "*was killed by SIGSEGV; memory that was written*; it was in*",
            "* in test_crash: ctypes.string_at(0)",
            "*_ test_hang*",
            "deadlock: nobody can release PEs 0 and 1 any more",
            "  PE 0 waits in wait_until for <1 int64>[[]0] EQ 1 (there: 0, last writer: nobody)",
            "  PE 1 waits in barrier*",
            "On PE 0:",
            ">           world.wait_until(word, emu.Cmp.EQ, 1)",
            "On PE 1:",
            ">       world.barrier()",
            "*_ test_exit*",
            "*ended with exit status 3*",
        ]
    )


@pytest.mark.slow
def test_a_process_that_the_body_forks_does_not_answer_for_its_pe(pytest_in) -> None:
    result = pytest_in(
        """
import sys

@pytest.mark.pes(2)
@pytest.mark.parametrize("how", ["exits", "returns", "raises"])
def test_forks(world, how):
    child = os.fork()
    if not child:
        if how == "returns":
            return
        if how == "raises":
            raise ValueError("in the child")
        sys.exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == {"exits": 3, "returns": 0, "raises": 1}[how]
    world.barrier()
"""
    )
    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_an_exit_of_python_fails_its_test_and_stops_the_others(pytest_in) -> None:
    result = pytest_in(
        """
import sys

@pytest.mark.pes(2)
@pytest.mark.parametrize("status", [None, 0, 3, "text"])
def test_exits(world, status):
    if world.my_pe == 0:
        sys.exit(status)
    world.barrier()

@pytest.mark.pes(2)
@pytest.mark.xfail(raises=SystemExit, strict=True)
def test_expected(world):
    sys.exit(0)

@pytest.mark.pes(2)
def test_caught(world):
    with pytest.raises(SystemExit):
        sys.exit(1)
"""
    )
    result.assert_outcomes(passed=1, xfailed=1, failed=4)
    result.stdout.fnmatch_lines(["On PE 0:", ">           sys.exit(status)", "E *SystemExit"])
    assert "no progress" not in result.stdout.str()


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("signal", "time.sleep(1000)"),
        pytest.param("signal", "ctypes.CDLL(None).sleep(1000)", marks=pytest.mark.slow),
        pytest.param("signal", "while True: pass", marks=pytest.mark.slow),
    ],
)
def test_a_time_limit_of_pytest_timeout_ends_that_test_alone(
    method: str, body: str, pytest_in
) -> None:
    pytest.importorskip("pytest_timeout")
    result = pytest_in(
        f"""
import ctypes

@pytest.mark.pes(2)
@pytest.mark.timeout(1)  # less than the first test on PEs needs to load them
def test_hangs(world):
    {body}

@pytest.mark.pes(2)
def test_after(world):
    world.barrier()
""",
        f"--timeout-method={method}",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Timeout*from pytest-timeout*"])
    if "CDLL" not in body:  # Python has no say there
        result.stdout.fnmatch_lines(["E *PE 0 was stopped; where this PE was:", f"*{body}*"])
    assert "launch.py" not in result.stdout.str()
    assert "numba" not in result.stdout.str()


def test_an_emulated_link_and_poison_are_those_of_the_mark(pytest_in) -> None:
    result = pytest_in(
        """
@pytest.mark.pes(2)
@pytest.mark.emu(link="1GB/s,5ms", poison=True)
def test_slow(world):
    fresh = world.alloc((4,), np.float32)
    assert np.isnan(fresh.local).all()
    world.barrier()
    if world.my_pe == 0:
        started = time.perf_counter()
        world.put(fresh, np.ones(4, np.float32), 1)
        world.quiet()
        assert time.perf_counter() - started >= 0.005
"""
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_a(world): pass", "*world is of tests with the mark pes*@pytest.mark.pes(2)*"),
        ("def test_a(n_pes): pass", "*n_pes is of tests with the mark pes*"),
        (
            """
@pytest.fixture
def early(world):
    world.barrier()

@pytest.mark.pes(2)
def test_a(early):
    pass
""",
            "*world.barrier must be used in the body of the test*",
        ),
        (
            "import unittest\n@pytest.mark.pes(2)\nclass TestA(unittest.TestCase):\n    def test_a(self): pass",
            "*the mark pes must be on a test function*",
        ),
    ],
)
def test_what_has_no_world_is_told_so(text: str, said: str, pytest_in) -> None:
    result = pytest_in(text)
    assert result.ret != 0
    lines = [*result.outlines, *result.errlines]
    assert any(fnmatch(line, said) for line in lines), result.stdout.str()


@pytest.mark.slow
def test_an_error_without_a_message_fails_its_test_alone(pytest_in) -> None:
    result = pytest_in(
        """
def fails():
    raise ValueError

def test_a():
    emu.launch(fails, 2)

def test_b():
    pass
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*ValueError*"])


def test_a_stop_that_comes_while_the_one_before_is_described_loses_no_place() -> None:
    """The launcher's signal may come at any line of the PE."""
    before = signal.getsignal(signal.SIGTERM)
    calls = []

    def describe() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise StoppedError("again")
        return "line 7"

    stop = StoppedError("first")
    try:
        note_place(stop, describe)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [note.splitlines()[-1] for note in stop.__notes__] == ["line 7"]
