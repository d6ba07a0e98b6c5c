"""Where the files of this package lie: what looks for a program's line goes past them."""

from __future__ import annotations

import os
from pathlib import Path

import emu

_HOME = Path(emu.__file__).parent

OWN_FOLDERS: tuple[str, ...] = tuple(
    sorted(
        f"{folder}{os.sep}"
        for folder in {_HOME, *((_HOME / name).resolve() for name in ("kernels", "comm"))}
    )
)
"""Beginnings of the paths of its files; two rooms are reached by links, and may be known by either path."""
