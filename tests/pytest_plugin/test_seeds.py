"""Seeds of tests, by mark and by option, and the failing ones that are kept."""

import re

import pytest

pytest_plugins = "pytester"

HEAD = """
import random
import numpy as np
import pytest
"""


@pytest.fixture
def pytest_in(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest on a file, in a process of its own."""
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(HEAD + text)
        return pytester.runpytest_subprocess("-p", "no:randomly", *arguments, timeout=110)

    return run


def seeds(result: pytest.RunResult) -> list[str]:
    """Return the seeds that failures show."""
    return re.findall(r"--emu-seed=(\d+) gives it again", result.stdout.str())


def test_a_seed_fixes_what_fixtures_and_each_pe_draw(pytest_in) -> None:
    result = pytest_in(
        """
import pypto
from emu.pypto.context import CONTEXT

def draw():
    return random.random(), np.random.rand()

random.seed(5)
np.random.seed(5)
EXPECTED = draw()
random.seed(1)
BEFORE = random.getstate()

@pytest.fixture
def drawn():
    return draw()

@pytest.mark.pes(2)
@pytest.mark.emu(seed=5)
def test_on_pes(drawn, world):
    assert drawn == EXPECTED
    assert draw() == EXPECTED
    assert (CONTEXT.settings.schedule, CONTEXT.settings.seed) == ("random", 5)
    orders = world.all_gather(np.array([CONTEXT.graph.scope.rng.random()]))
    assert orders[0] != orders[1]

@pytest.mark.emu(seed=5)
def test_alone(drawn):
    assert drawn == draw() == EXPECTED
    assert CONTEXT.settings.schedule == "random"

def test_without():
    assert random.getstate() == BEFORE
    assert CONTEXT.settings.schedule == "program"
""",
        "--emu",
    )
    result.assert_outcomes(passed=3)


FAILING = """
@pytest.mark.emu(seed="random")
@pytest.mark.parametrize("limit", [0, 2])
def test_a(limit):
    assert random.random() < limit

def test_b():
    pass
"""


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=str
)
def test_a_failing_seed_is_used_again_until_it_passes(arguments, pytest_in) -> None:
    first = pytest_in(FAILING, *arguments)
    first.assert_outcomes(passed=2, failed=1)
    (seed,) = seeds(first)
    assert seeds(pytest_in(FAILING, *arguments)) == [seed]
    assert seeds(pytest_in(FAILING, "--emu-seed", "7", *arguments)) == []
    passing = FAILING.replace("< limit", "<= 1")
    pytest_in(passing, *arguments).assert_outcomes(passed=3)
    assert seeds(pytest_in(FAILING, *arguments)) != [seed]


@pytest.mark.slow
def test_without_a_cache_each_run_draws_anew(pytest_in) -> None:
    runs = [seeds(pytest_in(FAILING, "-p", "no:cacheprovider")) for _ in range(2)]
    assert [len(run) for run in runs] == [1, 1]
    assert runs[0] != runs[1]


def test_a_spoilt_cache_is_no_error(pytest_in, pytester) -> None:
    kept = pytester.path / ".pytest_cache/v/emu/failing-seeds"
    kept.parent.mkdir(parents=True)
    kept.write_text('{"test_a_spoilt_cache_is_no_error.py::test_a[0]": -3}')
    (seed,) = seeds(pytest_in(FAILING))
    assert int(seed) >= 0


def test_the_seed_of_the_run_holds_where_no_mark_says_another(pytest_in) -> None:
    result = pytest_in(
        """
def test_a():
    assert not random.random()

@pytest.mark.emu(seed=2)
def test_b():
    assert not random.random()
""",
        "--emu-seed=9",
    )
    lines = result.outlines
    shown = [lines[i + 1] for i, line in enumerate(lines) if "Seed of random numbers" in line]
    assert shown == ["9", "2"]


@pytest.mark.parametrize("value", ["-1", "4294967296", "1.5", "none", "1" * 5000, "٣"])
def test_what_is_no_seed_ends_the_run(value: str, pytest_in) -> None:
    result = pytest_in("def test_a(): pass", f"--emu-seed={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --emu-seed: must be a whole number in*or 'random', but*"])
