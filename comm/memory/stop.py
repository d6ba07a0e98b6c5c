"""The reason why a world was stopped: written by the launcher, raised by every PE."""

from __future__ import annotations

import numpy as np

from emu.comm.errors import DeadlockError, PEDiedError, PeerFailedError, StoppedError
from emu.comm.layout import ABORT_TEXT_BYTES, H_ABORT
from emu.comm.memory.segment import Segment

PEER_FAILED, PE_DIED, DEADLOCK, INTERRUPTED = 1, 2, 3, 4
_ERRORS: dict[int, type[StoppedError]] = {
    PEER_FAILED: PeerFailedError,
    PE_DIED: PEDiedError,
    DEADLOCK: DeadlockError,
    INTERRUPTED: StoppedError,
}


def publish_stop(segment: Segment, reason: int, text: str) -> None:
    """Stop a world: from now on every wait raises ``reason`` with ``text``."""
    data = text.encode(errors="backslashreplace")[: ABORT_TEXT_BYTES - 1]
    start = segment.layout.abort_text
    segment.bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
    segment.bytes[start + len(data)] = 0
    segment.header[H_ABORT] = reason


def check_stopped(segment: Segment) -> None:
    """Raise the reason why the world was stopped, if it was."""
    reason = int(segment.header[H_ABORT])
    if reason:
        start = segment.layout.abort_text
        raw = bytes(segment.bytes[start : start + ABORT_TEXT_BYTES])
        text = raw.split(b"\0", 1)[0].decode(errors="replace")
        raise _ERRORS[reason](text)
