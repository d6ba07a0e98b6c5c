"""Seeds of tests: of Python's, NumPy's and torch's random numbers, and on PEs of PyPTO's random schedule.

A test has a seed if its mark or the run gives one. ``"random"`` draws one for each test and run. The seed that a test has
failed with is kept in pytest's cache, and the test has it again until it passes.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from emu.pytest import settings

RANDOM = settings.RANDOM
_SEED = pytest.StashKey[int]()
_CACHED = "emu/failing-seeds"
_FAILING = pytest.StashKey[dict[str, int]]()
_PYPTO = "emu.pypto.context"


def prepare(item: pytest.Item) -> None:
    """Let a test that has a seed begin its body with it."""
    if settings.seed_of(item) is not None and isinstance(item, pytest.Function):
        item.runtest = partial(_run, item, item.runtest)  # type: ignore[method-assign]


def _run(item: pytest.Item, run: Callable[[], None]) -> None:
    """Run the body of a test, on each of its PEs: they draw the same numbers, in the orders of PyPTO's operations that differ."""
    __tracebackhide__ = True
    seed = item.stash[_SEED]
    _seed(seed)
    pypto: Any = sys.modules.get(_PYPTO)
    with pypto.set_schedule("random", seed) if pypto is not None else contextlib.nullcontext():
        run()


@contextlib.contextmanager
def of_test(item: pytest.Item) -> Iterator[None]:
    """Seed what the fixtures of a test draw; generators are afterwards where they were."""
    given = settings.seed_of(item)
    if given is None:
        yield
        return
    item.stash[_SEED] = seed = _chosen(item) if given == RANDOM else int(given)
    with _kept():
        _seed(seed)
        yield


def _chosen(item: pytest.Item) -> int:
    """Return the seed that the test has failed with, or a new one."""
    failed = failing(item.config).get(item.nodeid)
    return secrets.randbelow(settings.MAX_SEED + 1) if failed is None else failed


def _seed(seed: int) -> None:
    """Seed the generators of the modules that are loaded."""
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    """Restore the states of the generators at the end of the block."""
    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            stack.callback(numpy.random.set_state, numpy.random.get_state())
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            stack.enter_context(torch.random.fork_rng(range(torch.cuda.device_count())))
        yield


def note(item: pytest.Item, report: Any) -> None:
    """Put the seed into the report of a test, and into what is printed of its failure.

    Under pytest-xdist the report is what reaches the process that keeps the cache.
    """
    seed = item.stash.get(_SEED, None)
    if seed is None:
        return
    is_random = settings.seed_of(item) == RANDOM
    if is_random:
        report.emu_seed = seed
    if report.failed:
        text = f"{seed}; --emu-seed={seed} gives it again" if is_random else str(seed)
        report.sections.append(("Seed of random numbers", text))


def failing(config: pytest.Config) -> dict[str, int]:
    """Return the seeds of the tests that failed with one when they last ran."""
    if _FAILING not in config.stash:
        cache: Any = getattr(config, "cache", None)
        kept = {} if cache is None else cache.get(_CACHED, {})
        valid = kept if isinstance(kept, dict) else {}
        config.stash[_FAILING] = {
            str(test): seed
            for test, seed in valid.items()
            if isinstance(seed, int) and 0 <= seed <= settings.MAX_SEED
        }
    return config.stash[_FAILING]


class Keeper:
    """Plugin that remembers failing seeds, and forgets them when their tests have passed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Look at a report."""
        seed = getattr(report, "emu_seed", None)
        if seed is None:
            return
        known = failing(self._config)
        before = known.get(report.nodeid)
        if report.failed:
            known[report.nodeid] = seed
        elif report.when == "call" and report.passed:
            known.pop(report.nodeid, None)
        cache: Any = getattr(self._config, "cache", None)
        if cache is not None and known.get(report.nodeid) != before:
            cache.set(_CACHED, known)
