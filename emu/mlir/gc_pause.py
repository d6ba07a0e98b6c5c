"""A pause of the cyclic garbage collector while a module is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 10_000
"""So many new objects are worth to count those that the program has frozen: they are many in a PE."""


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
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                # All that was made here is young, and the next allocation would visit it: a fifth of
                # the time of a parse. This moves it to the oldest generation, at no cost. (Not where
                # the program has frozen objects of its own: they would be unfrozen.)
                gc.freeze()
                gc.unfreeze()
            gc.enable()
