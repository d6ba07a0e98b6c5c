"""How many kernels were launched, where somebody wants to know."""

from __future__ import annotations


class Launches:
    """The count.

    Attributes:
        are_counted: Whether kernels that are made ready from now on count their launches.
        count: Launches so far.
    """

    are_counted = False
    count = 0
