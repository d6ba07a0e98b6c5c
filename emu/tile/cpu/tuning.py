"""Choices of code generation that change how fast code is, and no bit of what it computes.

What is best differs among CPUs that run the same instructions. The table gives the choices for a CPU by LLVM's name of it;
``EMU_CPU_CODE`` forces one or more of them, with commas: ``stream=never``, ``stream=always`` or ``stream=BYTES``, ``width=256``
or ``width=512``, and ``rows=BYTES/LEVEL``.

Measured are ``znver4``, code for ``x86-64-v3`` on it, rows on ``znver3``, and rows and width on an Intel Xeon with AMX, which stands here as
``sapphirerapids`` (its streams were not measured). The others are estimated: what ``llvm-mca`` says of a loop that adds two vectors
(docs/dev/streams.md), and of prefetches what was measured on the next relative of the same maker.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from emu.kernels.core import environment
from emu.kernels.core.caches import last_cache
from emu.tile.cpu import native

_VARIABLE = "EMU_CPU_CODE"
_ROWS = re.compile("[0-9]{1,6}/[123]")


@dataclass(frozen=True)
class Choices:
    """How code is generated.

    Attributes:
        stream_bytes: A launch that writes so many bytes side by side writes them past the caches (non-temporal stores):
            memory is then not read before it is written, and what is in the caches stays there. ``None``: never.
        width: Bits of the widest vectors in kernels that compute little with what they load; what the CPU lacks is not used.
        rows_ahead: Bytes of a tile between a row that is reduced and the one that is prefetched with it.
        rows_level: Level of the caches to which it is brought.
    """

    stream_bytes: int | None
    width: int
    rows_ahead: int
    rows_level: int


@dataclass(frozen=True)
class _Row:
    """Choices for CPUs whose names begin alike.

    Attributes:
        streams: Whether results that no cache will hold are written past the caches.
    """

    streams: bool = False
    width: int = 512
    rows_ahead: int = 2048
    rows_level: int = 1


_FAR = _Row(streams=True, rows_ahead=8192, rows_level=2)

_TABLE = {
    # Each 512-bit store runs as two halves: what only moves and adds is faster in 256 bits.
    "znver4": replace(_FAR, width=256),
    # Rows of a tile that are far apart share few sets of its caches: what is asked for early is lost again.
    "znver3": replace(_FAR, rows_ahead=1536, rows_level=1),
    "znver": _FAR,  # estimated; those before Zen 4 have no 512 bits, Zen 5 stores as many at once
    "x86-64": _FAR,
    "sapphirerapids": _Row(),
    "haswell": _Row(),  # this and all that follow are estimated
    "broadwell": _Row(),
    "skylake": _Row(),
    "cascadelake": _Row(),
    "cooperlake": _Row(),
    "icelake": _Row(),
}
"""By the beginning of LLVM's name of a CPU; the first that fits counts."""


def choices() -> Choices:
    """Return the choices for the CPU that code is compiled for, as the environment has them now.

    Raises:
        ValueError: ``EMU_CPU_CODE`` has what is no choice.
    """
    chosen = _of_cpu(native.default_target().cpu)
    text = environment.cpu_code()
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name == "stream" and (value in ("never", "always") or value.isdecimal()):
            chosen = replace(chosen, stream_bytes=_bytes(value))
        elif name == "width" and value in ("256", "512"):
            chosen = replace(chosen, width=int(value))
        elif name == "rows" and _ROWS.fullmatch(value):
            ahead, level = map(int, value.split("/"))
            chosen = replace(chosen, rows_ahead=ahead, rows_level=level)
        else:
            raise ValueError(
                f"{_VARIABLE} must be stream=never, stream=always or stream=BYTES, width=256 or width=512, or "
                "rows=BYTES/LEVEL with a LEVEL of 1 to 3, or some of these with a comma between, "
                f"but is {text!r}"
            )
    return chosen


def _bytes(text: str) -> int | None:
    return {"never": None, "always": 0}[text] if not text.isdecimal() else int(text)


@functools.cache
def _of_cpu(name: str) -> Choices:
    found = next((row for start, row in _TABLE.items() if name.startswith(start)), _Row())
    streams = native.host_is_x86() and found.streams
    bytes_ = last_cache() // 2 if streams else None
    return Choices(bytes_, found.width, found.rows_ahead, found.rows_level)
