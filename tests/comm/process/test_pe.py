"""The process of a PE: what is set up before its function is called."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

import pytest

import emu


def takes_interrupts() -> bool:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.SIGINT not in blocked


def test_pes_may_handle_interrupts_themselves() -> None:
    assert emu.launch(takes_interrupts, 2) == [True, True]


def stopped_again_as_it_reports(where: str) -> None:
    world = emu.world()
    if world.my_pe == 0:
        world.barrier()
        raise ValueError("first")
    # A stop that the main thread blocks goes to another, if there is one.
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()

    def stop_again(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == where:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    world.barrier()
    try:
        world.barrier()
    finally:
        sys.setprofile(stop_again)


@pytest.mark.parametrize("where", ["_block_stop", "failure_message", "_left_over_threads"])
def test_a_stop_that_comes_as_a_pe_reports_is_dropped(
    where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(stopped_again_as_it_reports, 2, args=(where,), timeout=30)
    assert [str(error) for error in caught.value.exceptions] == ["first"]
    assert capfd.readouterr().err == ""
