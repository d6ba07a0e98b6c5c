"""Settings of a run of pytest, and of a test: from options, the configuration and marks."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from emu.comm.link_model import Link

T = TypeVar("T")
_PLUGIN = __package__
_DEFAULT_TIMEOUT = 60.0
_MAX_DEVICES = 1024
MAX_SEED = 2**32 - 1
"""The largest that NumPy takes."""
_STREAM_CHECK = "emu.accelerator.stream_check"
RANDOM = "random"
"""As a seed: a new one for each test and run."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        is_on: Whether tests have emulated devices.
        devices: Number of emulated devices. None: the environment's, or 1, and on PEs as many as there are.
        device_model: GPU that CUDA devices answer as. None: what the environment says.
        check: What is checked as programs run. None: what the environment says.
        autotune: Which configurations autotuned kernels take. None: what the environment says, or "first".
        timeout: Seconds without progress after which PEs are deadlocked.
        seed: Seed of every test, or "random". None: none.
    """

    is_on: bool
    devices: int | None
    device_model: str | None
    check: str | None
    autotune: str | None
    timeout: float
    seed: int | str | None = None


KEY = pytest.StashKey[Settings]()


def begin(config: pytest.Config) -> Settings:
    """Read the settings of a run, install what they ask for, and return them.

    Raises:
        pytest.UsageError: A setting breaks a rule; nothing was installed.
    """
    from emu.commands import option_types

    given = config.known_args_namespace
    settings = Settings(
        is_on=bool(given.emu) or bool(config.getini("emu")) or _PLUGIN in (given.plugins or ()),
        devices=_read(config, "devices", _as_device_count),
        device_model=_read(config, "device_model", option_types.device_model),
        check=_read(config, "check", option_types.check),
        autotune=_read(config, "autotune", option_types.autotune),
        timeout=_read(config, "timeout", option_types.seconds) or _DEFAULT_TIMEOUT,
        seed=_read(config, "seed", _as_seed),
    )
    config.stash[KEY] = settings
    if settings.is_on:
        _install(config, settings)
    return settings


def _read(config: pytest.Config, name: str, read: Callable[[str], T]) -> T | None:
    """Return the value of an option, else that of the configuration, else None.

    Raises:
        pytest.UsageError: It breaks a rule.
    """
    import argparse

    where, text = (
        f"--emu-{name.replace('_', '-')}",
        getattr(config.known_args_namespace, f"emu_{name}"),
    )
    if text is None:
        where, text = f"emu_{name}", config.getini(f"emu_{name}")
    if text is None or text == "":
        return None
    try:
        return read(str(text))
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise pytest.UsageError(f"{where}: {error}") from None


def _as_device_count(text: str) -> int:
    """Return a number of devices: not more than there can be PEs.

    Raises:
        argparse.ArgumentTypeError, ValueError: It is none.
    """
    from emu.commands import option_types

    if text.isdecimal() and (len(text) > 4 or int(text) > _MAX_DEVICES):
        raise ValueError(f"must be at most {_MAX_DEVICES}, but got {text!r}")
    return option_types.count(text)


def _install(config: pytest.Config, settings: Settings) -> None:
    """Install the stand-ins.

    Raises:
        pytest.UsageError: Another Triton was imported already, or ``EMU_DEVICES`` or ``EMU_DEVICE_MODEL`` breaks a rule.
    """
    from emu.commands import stand_ins
    from emu.commands.freed_memory import keep_freed_memory
    from emu.kernels.core import environment

    other = sys.modules.get("triton")
    if other is not None and getattr(other, "__name__", "") != "emu.triton":
        raise pytest.UsageError(
            f"emu must be installed before triton is imported, but a plugin has imported {other.__file__}; "
            "leave that plugin out (-p no:NAME), or load emu before it (-p emu.pytest)"
        )
    keep_freed_memory(1)
    if settings.device_model is not None:
        environment.pass_on({"EMU_DEVICE_MODEL": settings.device_model})
    try:
        devices = settings.devices or environment.device_count()
        environment.device_model()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if devices is not None:  # else processes that a test starts have as many as they are
        environment.pass_on({"EMU_DEVICES": str(devices)})
    if settings.check is not None:
        from emu.triton import knobs  # it may have been imported, and asks the environment then

        knobs.runtime.check = settings.check
        environment.pass_on({"EMU_CHECK": settings.check})
    # A test asks whether results are right, seldom which settings are fast; measuring takes most of a first run.
    if settings.autotune is not None or not environment.autotune():
        environment.pass_on({"EMU_AUTOTUNE": settings.autotune or "first"})
    stand_ins.install()


@dataclass(frozen=True)
class OfTest:
    """Settings of a test: its run's, and what its marks say.

    Attributes:
        check: What is checked as it runs. None: what the run says.
        link: Emulated link between its PEs.
        timeout: Seconds without progress after which its PEs are deadlocked. None: what the run says.
        poison: Whether new symmetric memory is filled with NaN, or 0xA5 in every byte.
        seed: Seed of random numbers, or "random". None: what the run says.
    """

    check: str | None = None
    link: Link | None = None
    timeout: float | None = None
    poison: bool = False
    seed: int | str | None = None


OF_TEST = pytest.StashKey[OfTest]()


def prepare(item: pytest.Item) -> None:
    """Read the marks of a test.

    Raises:
        pytest.UsageError: A mark breaks a rule.
    """
    if item.get_closest_marker("emu") is not None:
        item.stash[OF_TEST] = _marked(item)


def _marked(item: pytest.Item) -> OfTest:
    """Return the settings that a test's marks ``emu`` give; the nearest mark wins.

    Raises:
        pytest.UsageError: A mark breaks a rule.
    """
    found = OfTest()
    for mark in reversed([*item.iter_markers("emu")]):
        if mark.args:
            raise pytest.UsageError(
                f"{item.nodeid}: the mark emu takes arguments by name, but got {mark.args!r}"
            )
        given = {name: _setting(item, name, value) for name, value in mark.kwargs.items()}
        found = replace(found, **given)
    return found


def _setting(item: pytest.Item, name: str, value: Any) -> Any:
    """Return a mark's setting after a check; texts are what the command line takes.

    Raises:
        pytest.UsageError: There is no such setting, or the value breaks a rule.
    """
    import argparse

    from emu.comm.link_model import Link
    from emu.commands import option_types

    where = f"{item.nodeid}: {name} of the mark emu"
    try:
        if name == "check" and (value is None or isinstance(value, str)):
            return value if value is None else option_types.check(value)
        if name == "link" and (value is None or isinstance(value, (str, Link))):
            return option_types.link(value) if isinstance(value, str) else value
        if name == "timeout" and isinstance(value, (int, float)) and not isinstance(value, bool):
            return option_types.seconds(str(value))
        if name == "poison" and isinstance(value, bool):
            return value
        if name == "seed" and isinstance(value, (int, str)) and not isinstance(value, bool):
            return _as_seed(str(value))
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise pytest.UsageError(f"{where}: {error}") from None
    rules = {
        "check": "a text such as 'bounds'",
        "link": "an emu.Link, or a text such as '25GB/s,2us'",
        "timeout": "a number of seconds",
        "poison": "True or False",
        "seed": f"a whole number in [0, {MAX_SEED}], or 'random'",
    }
    if name not in rules:
        raise pytest.UsageError(
            f"{item.nodeid}: the mark emu takes {', '.join(rules)}, but got {name}"
        )
    raise pytest.UsageError(f"{where} must be {rules[name]}, but got {value!r}")


def _as_seed(text: str) -> int | str:
    """Return a seed, or "random".

    Raises:
        ValueError: It is neither.
    """
    if text == RANDOM:
        return text
    if not (text.isascii() and text.isdecimal()) or len(text) > 10 or int(text) > MAX_SEED:
        raise ValueError(
            f"must be a whole number in [0, {MAX_SEED}], or 'random', but got {text!r}"
        )
    return int(text)


def seed_of(item: pytest.Item) -> int | str | None:
    """Return the seed that the marks of a test give, else that of the run, else None.

    A number that the run gives stands for "random" of a mark.
    """
    of_item = item.stash[OF_TEST].seed if OF_TEST in item.stash else None
    of_run = item.config.stash[KEY].seed
    if of_item == RANDOM and of_run is not None:  # a failure is run again so
        return of_run
    return of_run if of_item is None else of_item


@contextlib.contextmanager
def of_test(item: pytest.Item) -> Iterator[None]:
    """Let what a test's marks say hold inside the block."""
    checked: Any = sys.modules.get(_STREAM_CHECK)
    if checked is not None:
        checked.forget_reports()
    check = item.stash[OF_TEST].check if OF_TEST in item.stash else None
    if check is None:
        yield
        return
    from emu.triton import knobs

    with knobs.runtime.scope(), _shadows_for(check), pytest.MonkeyPatch.context() as patch:
        knobs.runtime.check = check
        patch.setenv("EMU_CHECK", check)  # for processes that the test starts
        with _streams_for(check):
            yield


@contextlib.contextmanager
def _streams_for(check: str) -> Iterator[None]:
    """Check the order of streams inside the block, if the check asks for that."""
    import emu.accelerator
    from emu.triton.runtime.check_modes import has_streams

    checked: Any = sys.modules.get(_STREAM_CHECK)
    if not has_streams(check) or (checked is not None and checked.is_on()):
        yield
        return
    if emu.accelerator.installed():  # else it begins when torch is imported
        from emu.accelerator import stream_check

        stream_check.start()
    try:
        yield
    finally:
        checked = sys.modules.get(_STREAM_CHECK)
        if checked is not None:
            checked.stop()


@contextlib.contextmanager
def _shadows_for(check: str) -> Iterator[None]:
    """Note what is written to memory that is allocated inside the block, if the check asks for that."""
    from emu.kernels.core import shadows
    from emu.triton.runtime.check_modes import has_uninit

    begins = has_uninit(check) and not shadows.are_kept()
    if begins:
        shadows.keep()
    try:
        yield
    finally:
        if begins:
            shadows.keep(False)


def hide_own_frames(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Leave emu's own functions out of a traceback, unless pytest is to show it in full or to debug it.

    They are taken out of the traceback itself: pytest makes others of it, which a filter of one does not reach.
    """
    if item.config.getoption("fulltrace", False) or item.config.getoption("usepdb", False):
        return
    import emu

    home = Path(emu.__file__).parent
    own = tuple(
        f"{folder}{os.sep}"
        for name in (".", "comm", "kernels")
        for folder in {home / name, (home / name).resolve()}
    )
    at: Any = excinfo.tb
    while at is not None:
        following = at.tb_next
        is_inside = False
        while following is not None:
            file = following.tb_frame.f_code.co_filename
            is_own = file.startswith((*own, "<launcher of"))
            if not is_own and not (is_inside and file == contextlib.__file__):
                break
            is_inside = True  # its with-statements pass through contextlib
            following = following.tb_next
        at.tb_next = following
        at = following
