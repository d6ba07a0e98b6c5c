"""Crashes in native code: the report shows where the PE was."""

from __future__ import annotations

import ctypes
import os
import threading

import pytest

import emu
from emu.comm.errors import (
    PEDiedError,
)


def crash_deep(how: str, depth: int) -> None:
    if depth:
        crash_deep(how, depth - 1)
    elif how == "abort":
        os.abort()
    else:
        ctypes.string_at(0)


def crash(how: str) -> None:
    world = emu.world()
    if world.my_pe == 1:
        if how == "in a thread":
            thread = threading.Thread(target=crash_deep, args=(how, 2))
            thread.start()
            thread.join()
        crash_deep(how, 2)
    world.barrier()


@pytest.mark.parametrize("how", ["read", "abort", "in a thread"])
def test_a_crash_shows_where_the_pe_was(how: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(crash, 2, args=(how,))
    (error,) = caught.value.exceptions
    assert isinstance(error, PEDiedError)
    assert error.pe == 1
    report = str(error)
    name = "SIGABRT" if how == "abort" else "SIGSEGV"
    assert f"was killed by {name}; " in report
    assert "; it was in (innermost call first)\n" in report
    assert "--check bounds" in report
    assert report.count(" in crash_deep: crash_deep(how, depth - 1)") == 2
    last = "os.abort()" if how == "abort" else "ctypes.string_at(0)"
    assert f" in crash_deep: {last}" in report
    assert f"{__file__}:" in report
    assert "comm/process/pe.py" not in report  # how every PE begins says nothing
    assert "When that happened:\n  PE 0 " in report


def test_deaths_still_have_their_status() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(os._exit, 1, args=(255,))
    (error,) = caught.value.exceptions
    assert isinstance(error, PEDiedError)
    assert error.exitcode == 255
    assert str(error).endswith("function returned.")  # and nothing about others: there are none
