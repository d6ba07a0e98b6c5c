"""The process of a PE: what is set up before its function is called."""

from __future__ import annotations

import signal

import emu


def takes_interrupts() -> bool:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return signal.SIGINT not in blocked


def test_pes_may_handle_interrupts_themselves() -> None:
    assert emu.launch(takes_interrupts, 2) == [True, True]
