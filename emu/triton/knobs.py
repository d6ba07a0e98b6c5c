"""Settings of the runtime that programs reach as ``triton.knobs``.

Those that have an effect here are ``runtime.interpret`` (the reference backend), ``runtime.debug``
(``device_assert`` is checked in every kernel), ``runtime.launch_enter_hook`` and ``launch_exit_hook``,
``autotuning.print``, ``autotuning.cache`` and ``autotuning.listener``. The others hold what is assigned
to them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

__all__ = ["HookChain", "autotuning", "cache", "compilation", "language", "runtime"]

F = TypeVar("F", bound=Callable[..., Any])


class HookChain(list[F]):
    """Functions that are called one after the other; a list, whose truth a launch can see at once.

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

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call each function with the arguments."""
        for call in reversed(self) if self.reversed else tuple(self):
            call(*args, **kwargs)


def _truth(name: str, default: bool = False) -> bool:
    return os.environ.get(name, "1" if default else "").lower() in ("1", "true", "on", "yes", "y")


class Knobs:
    """A group of settings.

    Args:
        **defaults: Name and value of each; a callable that takes nothing is called for the value at
            every :meth:`reset`.
    """

    def __init__(self, **defaults: Callable[[], Any]) -> None:
        self.__dict__["_defaults"] = defaults
        self.reset()

    def __getattr__(self, name: str) -> Any:  # only what is not set
        raise AttributeError(f"there is no setting {name!r}; there are {sorted(self.knobs)}")

    @property
    def knobs(self) -> dict[str, Any]:
        """All settings of the group by name."""
        return {k: v for k, v in vars(self).items() if k != "_defaults"}

    def reset(self) -> Knobs:
        """Set everything to its default; returns the group."""
        for name, default in vars(self)["_defaults"].items():
            setattr(self, name, default())
        return self

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Undo what is assigned inside, at its end."""
        before = self.knobs
        try:
            yield
        finally:
            for name in self.knobs:
                if name not in before:
                    delattr(self, name)
            vars(self).update(before)


def _none() -> None:
    return None


runtime = Knobs(
    interpret=lambda: _truth("TRITON_INTERPRET"),
    debug=lambda: _truth("TRITON_DEBUG"),
    launch_enter_hook=HookChain,
    launch_exit_hook=lambda: HookChain(reversed=True),
    kernel_load_start_hook=HookChain,
    kernel_load_end_hook=lambda: HookChain(reversed=True),
    jit_cache_hook=_none,
    jit_post_compile_hook=_none,
    override_arch=lambda: os.environ.get("TRITON_OVERRIDE_ARCH"),
    sanitize_overflow=lambda: True,
    add_stages_inspection_hook=_none,
)
autotuning = Knobs(
    print=lambda: _truth("TRITON_PRINT_AUTOTUNING"),
    cache=lambda: _truth("TRITON_CACHE_AUTOTUNING"),
    listener=_none,
)
compilation = Knobs(
    override=lambda: _truth("TRITON_KERNEL_OVERRIDE"),
    dump_ir=lambda: _truth("TRITON_KERNEL_DUMP"),
    always_compile=lambda: _truth("TRITON_ALWAYS_COMPILE"),
    disable_line_info=lambda: _truth("TRITON_DISABLE_LINE_INFO"),
    front_end_debugging=lambda: _truth("TRITON_FRONT_END_DEBUGGING"),
    listener=_none,
)
language = Knobs(
    fp32_default=lambda: os.environ.get("TRITON_F32_DEFAULT"),
    default_fp_fusion=lambda: _truth("TRITON_DEFAULT_FP_FUSION", True),
    strict_reduction_ordering=lambda: False,
)
cache = Knobs(
    home_dir=lambda: os.environ.get("TRITON_HOME", os.path.expanduser("~")),
    dir=lambda: os.environ.get("TRITON_CACHE_DIR"),
)
nvidia = Knobs()
amd = Knobs()
proton = Knobs()
build = Knobs()
