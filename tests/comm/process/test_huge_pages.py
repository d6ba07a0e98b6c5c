"""Huge pages of the fork server: asked for where Linux can, and memory stays what it was."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest

import emu
from emu.comm.process import huge_pages


def test_memory_stays_as_it_is() -> None:
    held = np.arange(1 << 20)
    found = huge_pages.join_pages()
    assert found >= 0
    assert (held == np.arange(1 << 20)).all()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_nothing_is_asked_for(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert huge_pages.join_pages() == 0


def test_without_procfs_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError(args)

    monkeypatch.setattr("builtins.open", refuse)
    assert huge_pages.join_pages() == 0


def waits_for_an_alarm() -> bool:
    """A PE has the alarm for itself: its forks do not set it off."""
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        return False
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_pes_have_the_alarm_for_themselves() -> None:
    assert emu.launch(waits_for_an_alarm, 2) == [True, True]
    time.sleep(0.5)  # the server joins its pages meanwhile
    assert emu.launch(waits_for_an_alarm, 2) == [True, True]
