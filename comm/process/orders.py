"""``Orders``: what a PE of a session is told to do, one order after the other."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from emu.comm.arrays import Words
from emu.comm.layout import B_STATE, FINISHED, RUNNING


class Orders:
    """A PE's end of its channel to the launcher; iterate over it, and answer each order.

    Args:
        channel: The connection.
        block: Words of the PE's block.
    """

    def __init__(self, channel: Any, block: Words) -> None:
        self._channel = channel
        self._block = block

    def __iter__(self) -> Iterator[Any]:
        """Yield orders until the session ends."""
        while True:
            # For reports: a PE that waits for its next order has finished the one before.
            self._block[B_STATE] = FINISHED
            try:
                data = self._channel.recv_bytes()
            except (EOFError, OSError):
                return
            finally:
                self._block[B_STATE] = RUNNING
            yield pickle.loads(data)

    def reply(self, value: object) -> None:
        """Send the answer to the order."""
        self._channel.send_bytes(pickle.dumps(value, protocol=5))
