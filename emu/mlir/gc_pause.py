"""A pause of the cyclic garbage collector while a module is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector inside the block.

    A module is one large graph of cycles, none of it garbage while it is built: each collection
    would visit all of it, so the time per operation would grow with the module.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
