"""The file of a trace: ``EMUTRACE``, a version, and chunks, each written at once.

A chunk is a header (kind, PE, bytes) and a payload. Chunks of events and of sites alternate as the launcher drains the PEs' rings, so
that a run which dies leaves a file that is whole up to there; it lacks the last chunk, END, and nothing else.

==========  =====  =============================================================================
kind        PE     payload
==========  =====  =============================================================================
META        -1     JSON: ``n_pes``, ``command`` (list), ``started`` (seconds since 1970), ``clock``
                   (ns of the monotonic clock then), ``version`` of emu, ``host``, ``pes_per_host``,
                   ``link`` (bytes a second and seconds of the emulated links, or null);
                   ``hosts`` (their names), where there are several
SITES       pe     JSON: a list of [name, file, line, details or null], which continues the PE's table
EVENTS      pe     records (:data:`emu.trace.events.EVENT`); in the order in which they *ended*
END         -1     JSON: ``status`` ("ok", or what ended the run), ``clock``, ``lost`` (events a PE)
==========  =====  =============================================================================

The launcher adds sites and INSTANTs of its own before END: reports of checks, at the PEs that they are about, and, at PE 0, ``end``,
whose ``text`` says what ended a run that failed. A flow of 0, and a peer of -1, say that nothing is known.

Internal: names may change in any release.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from emu.trace.errors import TraceFileError
from emu.trace.events import EVENT, Site

MAGIC = b"EMUTRACE"
VERSION = 1
OPENING = struct.Struct("<8sII")
"""Magic, version, 0."""
HEADER = struct.Struct("<IiQ")
"""Kind, PE, bytes of the payload."""
WHOLE_FILE = -1
"""The PE of a chunk that belongs to none."""


class Chunk(IntEnum):
    """Kinds of chunks."""

    META = 1
    SITES = 2
    EVENTS = 3
    END = 4


class TraceWriter:
    """Writes a trace; each call appends one chunk.

    Args:
        path: The file; one that exists is replaced.
        meta: What META says.

    Raises:
        TraceFileError: The file cannot be written.
    """

    def __init__(self, path: Path, meta: Mapping[str, Any]) -> None:
        try:
            self._file: BinaryIO = path.open("wb", buffering=0)
            self._file.write(OPENING.pack(MAGIC, VERSION, 0))
        except OSError as error:
            raise TraceFileError(f"the trace {path} cannot be written: {error.strerror}") from None
        except ValueError as error:  # of a name with a null byte
            raise TraceFileError(f"the trace {str(path)!r} cannot be written: {error}") from None
        self._chunk(Chunk.META, WHOLE_FILE, json.dumps(dict(meta)).encode())

    def sites(self, pe: int, sites: Sequence[Site]) -> None:
        """Continue the table of sites of a PE."""
        self._chunk(Chunk.SITES, pe, json.dumps(sites).encode())

    def events(self, pe: int, events: npt.NDArray[Any]) -> None:
        """Append events of a PE (dtype :data:`EVENT`), whose sites have been written."""
        self._chunk(Chunk.EVENTS, pe, np.ascontiguousarray(events, EVENT).tobytes())

    def end(self, status: str, clock: int, lost: Sequence[int]) -> None:
        """Write what ended the run, and close the file."""
        end = {"status": status, "clock": clock, "lost": list(lost)}
        self._chunk(Chunk.END, WHOLE_FILE, json.dumps(end).encode())
        self.close()

    def close(self) -> None:
        """Close the file; without :meth:`end` before, readers say that the run did not end."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _chunk(self, kind: Chunk, pe: int, payload: bytes) -> None:
        # One call of the system a chunk: what is killed between two leaves a file that is whole.
        self._file.write(HEADER.pack(kind, pe, len(payload)) + payload)
