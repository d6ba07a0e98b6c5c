"""Names of sites, without the numbers that a program gives what it makes again and again.

A program that numbers its arrays in a loop (each create of PyPTO does) would have a new name, and so a new site, each time, until the trace has no
room for more. A star stands for numbers.

Internal: names may change in any release.
"""

from __future__ import annotations

import functools
import re

_NUMBERS = re.compile(r"\d+")
_CREATED = re.compile(r"\bshmem\d+")
"""Names that PyPTO gives what it creates."""


@functools.lru_cache(1024)
def unnumbered(name: str) -> str:
    """Return the name of an array without numbers: ``buffer*`` of ``buffer3``."""
    return _NUMBERS.sub("*", name)


@functools.lru_cache(1024)
def with_unnumbered(text: str) -> str:
    """Return a text in which arrays that PyPTO has created have names without numbers; its other numbers stay."""
    return _CREATED.sub(lambda found: unnumbered(found[0]), text) if "shmem" in text else text
