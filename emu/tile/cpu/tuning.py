"""Choices of code generation that change how fast code is, and no bit of what it computes.

What is best differs among CPUs that run the same instructions. The table gives the choices for a CPU by LLVM's name of it;
``EMU_CPU_CODE`` forces one or more of them, with commas: ``stream=never``, ``stream=always`` or ``stream=BYTES``, and ``width=256``
or ``width=512``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from emu.kernels.core import environment
from emu.tile.cpu import native

_VARIABLE = "EMU_CPU_CODE"
_LAST_CACHE = 32 << 20
"""Bytes of the last cache where the system does not say."""

_HALVES = ("znver4",)
"""Names of CPUs with AVX-512 that run each 512-bit store as two halves: what only moves and adds is faster in 256 bits."""

_STREAMING = ("znver", "x86-64")
"""Beginnings of the names of CPUs on which results that no cache will hold are written past the caches."""


@dataclass(frozen=True)
class Choices:
    """How code is generated.

    Attributes:
        stream_bytes: A launch that writes so many bytes side by side writes them past the caches (non-temporal stores):
            memory is then not read before it is written, and what is in the caches stays there. ``None``: never.
        width: Bits of the widest vectors in kernels that compute little with what they load; what the CPU lacks is not used.
    """

    stream_bytes: int | None
    width: int


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
        else:
            raise ValueError(
                f"{_VARIABLE} must be stream=never, stream=always or stream=BYTES, or width=256 or width=512, "
                f"or one of each with a comma between, but is {text!r}"
            )
    return chosen


def _bytes(text: str) -> int | None:
    return {"never": None, "always": 0}[text] if not text.isdecimal() else int(text)


@functools.cache
def _of_cpu(name: str) -> Choices:
    streams = native.host_is_x86() and name.startswith(_STREAMING)
    return Choices(last_cache() // 2 if streams else None, 256 if name in _HALVES else 512)


@functools.cache
def last_cache() -> int:
    """Return the size of this machine's last cache in bytes."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [_LAST_CACHE]
    try:
        for index in folder.glob("index*"):
            text = (index / "size").read_text("ascii").strip()
            level = int((index / "level").read_text("ascii"))
            if level >= 3 and text.endswith("K"):
                sizes.append(int(text[:-1]) << 10)
    except (OSError, ValueError):
        return _LAST_CACHE
    return max(sizes[1:], default=_LAST_CACHE)
