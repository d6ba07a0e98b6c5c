"""Plugin of pytest: tests of programs for accelerators run where there is none.

``pytest --emu`` (or ``-p emu.pytest``, or ``emu = true`` in pytest's configuration) gives tests ``triton``, ``torch_npu`` and
``pypto``, and torch emulated devices, before any test file or ``conftest.py`` is imported, in every worker of pytest-xdist.
``@pytest.mark.pes(2, 4)`` runs a test on that many PEs, with or without the option.

pytest loads this module in every run where emu is installed, so it imports next to nothing; what it does is in
:mod:`emu.pytest.settings`, :mod:`emu.pytest.pes`, :mod:`emu.pytest.seeds`, :mod:`emu.pytest.launches` and
:mod:`emu.pytest.addresses`. The options, marks and fixtures are public.

Internal: names may change in any release.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from emu import World

_HELP = {
    "--emu": "run tests on emulated devices: triton, torch_npu, pypto and torch's cuda and npu are there",
    "--emu-devices": "number of emulated devices (default: EMU_DEVICES, or 1; on several PEs as many as there are)",
    "--emu-device-model": "GPU that cuda devices answer as, such as a100 or h100 (default: EMU_DEVICE_MODEL, or none of them)",
    "--emu-check": "what is checked as tests run: of Triton kernels bounds, bounds:all, uninit, race, race:all; of torch's streams their "
    "order, streams; several with commas between them (default: EMU_CHECK)",
    "--emu-autotune": "which configuration an autotuned Triton kernel takes: first (that compiles), cached (the fastest; "
    "measured once, and kept on disk), full (measured in each process) (default: EMU_AUTOTUNE, or first)",
    "--emu-seed": "seed of every test: of Python's, NumPy's and torch's random numbers, and of PyPTO's schedule; random: a "
    "new one each time, and again the one that a test has failed with (default: none)",
    "--emu-timeout": "seconds without progress after which waiting PEs are reported as deadlocked (default: 60)",
}


def pytest_addoption(parser: pytest.Parser, pluginmanager: Any) -> None:
    """Add the options, and what a configuration can say instead."""
    _leave_unrewritten(pluginmanager)
    group = parser.getgroup("emu", "emulated accelerators")
    group.addoption("--emu", action="store_true", default=None, help=_HELP["--emu"])
    group.addoption("--emu-devices", metavar="N", help=_HELP["--emu-devices"])
    group.addoption("--emu-device-model", metavar="GPU", help=_HELP["--emu-device-model"])
    group.addoption("--emu-check", metavar="CHECK", help=_HELP["--emu-check"])
    group.addoption("--emu-autotune", metavar="HOW", help=_HELP["--emu-autotune"])
    group.addoption("--emu-seed", metavar="N", help=_HELP["--emu-seed"])
    group.addoption("--emu-timeout", metavar="S", help=_HELP["--emu-timeout"])
    parser.addini("emu", "as --emu", type="bool", default=False)
    for name in ("devices", "device-model", "check", "autotune", "seed", "timeout"):
        parser.addini(f"emu_{name.replace('-', '_')}", f"as --emu-{name}", default=None)


def _leave_unrewritten(pluginmanager: Any) -> None:
    """Keep pytest from rewriting emu's own assertions: it does that to all modules of a plugin's distribution.

    Compiled functions cannot contain what it makes of them. pytest offers no other way than a docstring in each module.
    """
    hook: Any = getattr(pluginmanager, "rewrite_hook", None)
    marked = getattr(hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("emu")
    cache = getattr(hook, "_marked_for_rewrite_cache", None)
    if isinstance(cache, dict):
        for name in [name for name in cache if name.split(".")[0] == "emu"]:
            del cache[name]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install what tests import, before the first of them is imported, and each ``conftest.py``."""
    from emu.pytest import settings

    if settings.begin(early_config).is_on:
        from emu.pytest import launches

        launches.count()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and what keeps failing seeds."""
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist sends reports
        from emu.pytest import seeds

        config.pluginmanager.register(seeds.Keeper(config), "emu-seeds")
    config.addinivalue_line(
        "markers",
        "pes(*counts): run the test on that many PEs, once for each count; its fixtures `world` and `n_pes` say where it is",
    )
    config.addinivalue_line(
        "markers",
        "emu(check=None, link=None, timeout=None, poison=False, seed=None): how a test's kernels are checked, its PEs run, "
        "and random numbers are drawn",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each number of PEs."""
    from emu.pytest import pes

    pes.parametrize(metafunc)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Check the marks, and let the tests with PEs run on them."""
    from emu.pytest import pes, seeds, settings

    for item in items:
        settings.prepare(item)
        seeds.prepare(item)
        pes.prepare(item)


@pytest.fixture
def n_pes(request: pytest.FixtureRequest) -> int:
    """Return the number of PEs that the test runs on."""
    from emu.pytest import pes

    pes.refuse_count(request.node.nodeid)  # the mark parametrizes it otherwise


@pytest.fixture(scope="session")
def world() -> World:
    """Return the World of the PE, as ``emu.world()`` returns it; only a test with the mark ``pes`` has one."""
    from emu.pytest import pes

    return cast("World", pes.WorldOfTest())


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check that a test that asks for the World has PEs."""
    from emu.pytest import pes

    pes.check_world(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let the marks of a test hold while it runs, its fixtures included."""
    from emu.pytest import pes, seeds, settings

    pes.load(item)
    with settings.of_test(item), seeds.of_test(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """Show how the test failed on each PE, and count its launches."""
    from emu.pytest import addresses, pes, seeds, settings

    is_on = item.config.stash[settings.KEY].is_on
    if call.excinfo is not None and (is_on or pes.has_pes(item)):
        settings.hide_own_frames(item, call.excinfo)
    report = yield
    pes.complete(item, report, call)
    seeds.note(item, report)
    error = None if call.excinfo is None else call.excinfo.value
    lines = addresses.in_red_zones() if is_on else []
    addresses.note(report, error, item.config.invocation_params.dir, lines)
    if is_on:
        from emu.pytest import launches

        launches.note(item, report)
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List bad addresses, and say how many tests have launched kernels: one that launches none proves nothing of them."""
    from emu.pytest import addresses, settings

    addresses.summarize(terminalreporter)

    if config.stash[settings.KEY].is_on:
        from emu.pytest import launches

        launches.summarize(terminalreporter)
