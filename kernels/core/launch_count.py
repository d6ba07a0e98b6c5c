"""Launches of kernels, for those who want to know of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol


class Around(Protocol):
    """What is called in the place of a launch."""

    def __call__(self, name: str, launch: Callable[[], None], /) -> None:
        """Launch the kernel of this name, now or later, or not."""


class Launches:
    """Their count, and what stands around them.

    Attributes:
        are_counted: Whether kernels that are made ready from now on count their launches.
        count: Launches so far.
        around: What is called in the place of every launch; None: nothing.
    """

    are_counted = False
    count = 0
    around: ClassVar[Around | None] = None


def launch_named(name: str, launch: Callable[[], None]) -> None:
    """Launch a kernel through what stands around launches."""
    if Launches.around is None:
        launch()
    else:
        Launches.around(name, launch)
