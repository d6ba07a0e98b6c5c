"""Tests on several PEs.

A test with the mark ``pes`` is set up in pytest's process as any other. Its body then runs in PEs that are forks of this
process: so they have the values of all fixtures and parameters, whatever these are, the modules as fixtures have patched
them, and assertions as pytest has rewritten them. What a PE raises comes back as pytest would print it. The PEs share no
memory but the World's: what a body changes is changed in its PE.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from traceback import print_exc
from typing import Any, NoReturn, cast

import pytest
from _pytest._code.code import (
    ExceptionChainRepr,
    ReprEntryNative,
    ReprFileLocation,
    ReprTraceback,
)

from emu.pytest import settings

_MARK = "pes"
_PARAMETER = "n_pes"
_ANNOUNCED = pytest.StashKey[bool]()
Chain = list[tuple[Any, Any, str | None]]
"""What pytest prints of an exception and its causes."""


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make a test of each number of PEs that the nearest mark names.

    Raises:
        pytest.UsageError: The mark breaks a rule.
    """
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is None:
        return
    counts = _check(metafunc.definition.nodeid, mark)
    if _PARAMETER not in metafunc.fixturenames:
        metafunc.fixturenames.append(_PARAMETER)
    metafunc.parametrize(_PARAMETER, counts, ids=[f"{n}-PE{'s' * (n > 1)}" for n in counts])


def _check(test: str, mark: pytest.Mark) -> list[int]:
    """Return the numbers of a mark.

    Raises:
        pytest.UsageError: It has none, or one is no number of PEs.
    """
    from emu.comm.errors import ArgumentError
    from emu.comm.process.launch_arguments import check_pe_count

    if mark.kwargs or not mark.args:
        raise pytest.UsageError(
            f"{test}: the mark pes takes one or more numbers of PEs, as in pes(2, 4), but got "
            f"{', '.join([*map(repr, mark.args), *(f'{k}={v!r}' for k, v in mark.kwargs.items())]) or 'none'}"
        )
    try:
        return [check_pe_count(n) for n in mark.args]
    except ArgumentError as error:
        raise pytest.UsageError(f"{test}: the mark pes: {error}") from None


def prepare(item: pytest.Item) -> None:
    """Let a test with the mark run on PEs.

    Raises:
        pytest.UsageError: The mark is on something else than a function or method.
    """
    if not has_pes(item):
        return
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        raise pytest.UsageError(
            f"{item.nodeid}: the mark pes must be on a test function, or a method of a class of pytest's, "
            f"but this is a {type(item).__name__} that takes no parameters"
        )
    item.runtest = partial(_run, item, item.runtest)  # type: ignore[method-assign]


def has_pes(item: pytest.Item) -> bool:
    """Return whether a test has the mark."""
    return item.get_closest_marker(_MARK) is not None


def load(item: pytest.Item) -> None:
    """Load what PEs need, for a test with the mark.

    It is done before the test begins: a time limit of the test that interrupted the imports would break those of all tests.
    """
    if not has_pes(item):
        return
    from emu.comm.process.forked import load_machine

    with contextlib.suppress(Exception):  # the test raises it again, and so fails alone
        load_machine()


def refuse_count(test: str) -> NoReturn:
    """Say that a test has no number of PEs."""
    raise pytest.UsageError(f"n_pes is of tests with the mark pes, but {test} has none")


class WorldOfTest:
    """World in the hands of fixtures: they are set up before there are PEs, and may only pass it on."""

    def __getattr__(self, name: str) -> Any:
        from emu.comm.errors import CommError
        from emu.comm.world.current import world

        try:
            here = world()
        except CommError:
            raise AttributeError(
                f"world.{name} must be used in the body of the test, which runs on PEs, but fixtures are set up "
                "before there are any"
            ) from None
        return getattr(here, name)


def check_world(item: pytest.Item) -> None:
    """Check that a test that asks for the World has PEs.

    Raises:
        pytest.UsageError: It has no mark.
    """
    given = getattr(item, "funcargs", {}).get("world")
    if isinstance(given, WorldOfTest) and not has_pes(item):
        raise pytest.UsageError(
            f"world is of tests with the mark pes, but {item.nodeid} has none: write "
            "@pytest.mark.pes(2) above it"
        )


class OutcomeError(Exception):
    """What the body of a test raised on a PE, ready to be printed.

    Attributes:
        chain: What pytest prints.
        kind: ``"failed"``, ``"skipped"`` or ``"xfailed"``.
        reason: The message of the exception.
        error: The exception itself, pickled; None: it cannot be. See :func:`unpickled`.
    """

    def __init__(self, chain: Chain, kind: str, reason: str, error: bytes | None = None) -> None:
        super().__init__(chain, kind, reason, error)
        self.chain = chain
        self.kind = kind
        self.reason = reason
        self.error = error

    def __str__(self) -> str:
        return self.reason


def _run(item: pytest.Function, run: Callable[[], None]) -> None:
    """Run the body of a test on its PEs."""
    from emu.comm.process.forked import launch_forked
    from emu.comm.process.launch_options import LaunchOptions
    from emu.commands.run import torchrun_environment
    from emu.kernels.core.launch_count import Launches

    __tracebackhide__ = True
    of_run = item.config.stash[settings.KEY]
    of_test = item.stash.get(settings.OF_TEST, settings.OfTest())
    n_pes = cast(int, item.callspec.params[_PARAMETER])
    options = LaunchOptions(
        timeout=of_test.timeout or of_run.timeout,
        link=of_test.link,
        poison=of_test.poison,
        prefix_output=n_pes > 1,
    )
    variables = torchrun_environment(n_pes, of_run.devices or n_pes)
    try:
        with _compilation_announced(item.config):
            launched = launch_forked(partial(_run_on_pe, item, run, variables), n_pes, options)
    except ExceptionGroup as group:
        _raise(group)
    Launches.count += sum(launched)


@contextlib.contextmanager
def _compilation_announced(config: pytest.Config) -> Iterator[None]:
    """Print a line when PEs compile kernels of this package: the first test on PEs waits for them, once a machine."""
    from emu.comm.watchdog import compiling
    from emu.kernels.core import cache_folder

    def announce() -> None:
        config.stash[_ANNOUNCED] = True
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        if reporter is None:  # a worker of pytest-xdist has no terminal
            return
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            reporter.ensure_newline()
            reporter.write_line(
                f"emu: compiling kernels for this CPU (once; kept in {cache_folder.base()})"
            )

    before = compiling.announce
    if _ANNOUNCED not in config.stash:
        compiling.announce = announce
    try:
        yield
    finally:
        compiling.announce = before


def _raise(group: ExceptionGroup) -> NoReturn:
    """Raise what stands for the failures of the PEs.

    That is the exception of the first PE that raised one, as marks of expected failures ask for its type; else the group.
    """
    __tracebackhide__ = True
    errors = group.exceptions
    outcomes = [error for error in errors if isinstance(error, OutcomeError)]
    if len(outcomes) == len(errors):
        kinds = {outcome.kind for outcome in outcomes}
        if kinds == {"skipped"}:
            pytest.skip(outcomes[0].reason)
        if kinds == {"xfailed"}:
            pytest.xfail(outcomes[0].reason)
        error = unpickled(outcomes[0].error)
        if error is not None:
            error.__cause__ = group
            raise error
    raise group


def unpickled(data: bytes | None) -> Exception | SystemExit | None:
    """Return the exception of an :class:`OutcomeError`, or None if it could not be sent."""
    if data is not None:
        with contextlib.suppress(Exception):  # the class is the user's
            error = pickle.loads(data)
            if isinstance(error, (Exception, SystemExit)):
                return error
    return None


def _pickled(error: BaseException) -> bytes | None:
    """Return an exception's bytes, or None if it cannot be pickled and rebuilt."""
    try:
        data = pickle.dumps(error)
        return data if isinstance(pickle.loads(data), (Exception, SystemExit)) else None
    except Exception:  # noqa: BLE001 - the class is the user's
        return None


def _run_on_pe(item: pytest.Function, run: Callable[[], None], variables: dict[str, str]) -> int:
    """Run the body on this PE; return how many kernels it has launched."""
    from emu.comm.errors import StoppedError
    from emu.comm.world.current import world
    from emu.kernels.core.launch_count import Launches

    here, before = world(), Launches.count
    ranks = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(here.my_pe))
    os.environ.update(variables | ranks)
    if isinstance(item.funcargs.get("world"), WorldOfTest):
        item.funcargs["world"] = here
    try:
        with _children_ended():
            run()
    except StoppedError as stop:  # in a deadlock it says where the PE waits
        note_place(stop, partial(_described, item, stop))
        raise
    except (pytest.skip.Exception, pytest.xfail.Exception) as outcome:
        kind = "skipped" if isinstance(outcome, pytest.skip.Exception) else "xfailed"
        raise OutcomeError([], kind, str(outcome)) from None
    except (Exception, SystemExit, pytest.fail.Exception) as error:  # noqa: BLE001 - all that a test may raise
        raise OutcomeError(
            _chain(_shown(item, error)), "failed", str(error), _pickled(error)
        ) from None
    finally:
        _save_coverage()
    return Launches.count - before


def _described(item: pytest.Function, error: BaseException) -> str:
    """Return what pytest prints of where an error was raised."""
    return _text(_chain(_shown(item, error))[-1][0])


def note_place(stop: Exception, describe: Callable[[], str]) -> None:
    """Note in what stops this PE where it was.

    A stop comes twice: a wait finds it in shared memory, and the launcher's signal, whose handler raises it again, may come
    while this describes the first. Without this the place would be lost with it.
    """
    from emu.comm.errors import StoppedError

    while True:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            stop.add_note(_WHERE + describe())
        except StoppedError:
            continue
        return


@contextlib.contextmanager
def _children_ended() -> Iterator[None]:
    """End a process that the block has forked, and that leaves it: it is no PE, and must not answer for one."""
    process, status = os.getpid(), 0
    try:
        yield
    except SystemExit as error:
        if os.getpid() == process:
            raise
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        if os.getpid() == process:
            raise
        print_exc()
        status = 1
    if os.getpid() != process:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # it may be closed
                stream.flush()
        os._exit(status & 0xFF)


def _save_coverage() -> None:
    """Write down which lines this PE has run, beside what pytest's process writes; pytest-cov unites the files.

    A PE ends without the functions that Python calls at its end, and so without coverage's.
    """
    coverage = sys.modules.get("coverage")
    measured = coverage.Coverage.current() if coverage is not None else None
    if measured is not None:
        measured.stop()
        measured.save()


def _shown(item: pytest.Item, error: BaseException) -> Any:
    """Return how pytest shows an exception."""
    excinfo = pytest.ExceptionInfo.from_exception(error)
    settings.hide_own_frames(item, excinfo)
    return item.repr_failure(excinfo)


def _chain(shown: Any) -> Chain:
    """Return what pytest makes of an exception as a chain."""
    if isinstance(shown, ExceptionChainRepr):
        return [(traceback, crash, text) for traceback, crash, text in shown.chain]
    if hasattr(shown, "reprtraceback"):
        return [(shown.reprtraceback, shown.reprcrash, None)]
    return [(_lines(str(shown)), None, None)]


def _lines(text: str) -> ReprTraceback:
    return ReprTraceback([ReprEntryNative([f"{text}\n"])], None, "native")


def _text(traceback: Any) -> str:
    """Return what pytest prints of a traceback, without the message at its end."""
    from io import StringIO

    from _pytest._io import TerminalWriter

    buffer = StringIO()
    traceback.toterminal(TerminalWriter(buffer))
    lines = [line for line in buffer.getvalue().splitlines() if not line.startswith("E  ")]
    return "\n".join(lines)


_WHERE = "where this PE was:\n"
"""Beginning of the note of a PE that was stopped."""


def complete(item: pytest.Item, report: Any, call: Any) -> None:
    """Show in the report of a failed test how it failed on each PE."""
    raised = None if call.excinfo is None else call.excinfo.value
    group = raised if isinstance(raised, ExceptionGroup) else getattr(raised, "__cause__", None)
    if report.when != "call" or not isinstance(group, ExceptionGroup) or not report.failed:
        return
    if not all(hasattr(error, "pe") for error in group.exceptions):
        return
    chain: Chain = []
    if "\n" in group.message:  # of a deadlock: what each PE waits for
        chain.append((_lines(group.message), _place(item, group.message), None))
    for error in group.exceptions:
        pe = getattr(error, "pe", "?")
        mine = error.chain if isinstance(error, OutcomeError) else []
        chain.append((ReprTraceback([], None, "long"), None, f"On PE {pe}:"))
        chain += mine or [(_of_error(error), _place(item, str(error)), None)]
    if "\n" in group.message:
        chain.append((ReprTraceback([], None, "long"), chain[0][1], None))
    report.longrepr = ExceptionChainRepr(chain)


def _of_error(error: BaseException) -> ReprTraceback:
    """Return what is shown of a PE that was stopped or has died."""
    for note in getattr(error, "__notes__", []):
        if note.startswith(_WHERE):
            return _lines(f"{note[len(_WHERE) :]}\n{error}")
    return _lines(f"{type(error).__name__}: {error}")


def _place(item: pytest.Item, message: str) -> ReprFileLocation:
    """Return where a test is, with what the summary says of its failure."""
    line = (item.location[1] or 0) + 1
    return ReprFileLocation(item.location[0], line, (message.splitlines() or ["no message"])[0])
