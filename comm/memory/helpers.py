"""Processes that multiprocessing starts by itself: its fork server and its resource tracker.

They are ``python -c``, which looks for modules in the current folder first. There a ``socket.py`` of the user's, which
a script elsewhere never meets, would stop them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from multiprocessing import util
from typing import Any


@contextlib.contextmanager
def importing_alike() -> Iterator[None]:
    """Make helpers that start inside the block import from the same folders as this process.

    Not by ``PYTHONSAFEPATH``: ``sys.flags.safe_path`` would be true in every PE, and programs ask for it (``pdb``
    does since Python 3.13).
    """
    name, before, spawn = "PYTHONPATH", os.environ.get("PYTHONPATH"), _util.spawnv_passfds
    os.environ[name] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    _util.spawnv_passfds = lambda path, words, kept: spawn(path, _without_current(words), kept)
    try:
        yield
    finally:
        _util.spawnv_passfds = spawn
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


_util: Any = util


def _without_current(words: Sequence[str]) -> list[str]:
    """Return a command of Python's that does without the folder which ``-c`` puts first; ``sys`` is no file."""
    if "-c" not in words[:-1]:
        return [*words]
    program = words.index("-c") + 1
    first = "import sys; sys.path[:1] == [''] and sys.path.pop(0); "
    return [*words[:program], first + words[program], *words[program + 1 :]]
