"""Values of settings that are more than a number or a text: chains of hooks, tools, durations."""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class CompileTimes:
    """Durations of one compilation in microseconds.

    Attributes:
        ir_initialization: From the source to the tile IR.
        lowering_stages: Name and duration of each stage after it.
        store_results: Writing the code into the cache.
    """

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        """Duration of all stages after the tile IR."""
        return sum(duration for _, duration in self.lowering_stages)

    @property
    def total(self) -> int:
        """Duration of everything."""
        return self.ir_initialization + self.total_lowering + self.store_results


class HookChain(list[F]):
    """Functions that are called one after the other; a list, so that a launch tests it at no cost.

    Args:
        reversed: Call the last that was added first.
    """

    def __init__(self, reversed: bool = False) -> None:
        super().__init__()
        self.reversed = reversed

    @property
    def calls(self) -> list[F]:
        """The functions."""
        return self

    def add(self, func: F) -> None:
        """Add a function; one that is there already is not added again."""
        if func not in self:
            self.append(func)

    def remove(self, func: F) -> None:
        """Remove a function, if it is there."""
        if func in self:
            super().remove(func)

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Call each function with the arguments."""
        for call in reversed(self) if self.reversed else tuple(self):
            call(*args, **kwargs)


@dataclass
class NvidiaTool:
    """A program of the CUDA toolkit.

    Attributes:
        path: Its file.
        version: Its release, such as ``12.8``.
    """

    path: str
    version: str

    @staticmethod
    @functools.cache
    def from_path(path: str) -> NvidiaTool | None:
        """Ask a program for its version; return None if there is no such program, or it says none."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.check_output([path, "--version"], stderr=subprocess.STDOUT)
            release = re.search(r"release (\d+\.\d+)", told.decode("utf-8", "replace"))
            return NvidiaTool(path, release[1]) if release else None
        return None
