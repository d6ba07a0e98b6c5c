"""``torch.jit`` and ``torch.compile`` while devices are emulated.

A compiled function is no call that a mode sees: its results would count as the host's. So both run functions
eagerly, until :mod:`emu.inductor` teaches ``torch.compile`` of emulated devices.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from torch.jit import _state

from emu.accelerator.patches import record

_VARIABLES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
_REASON = "a mode does not see what compiled functions call"


class _Compilation:
    """Whether ``torch.compile`` compiles, and the variables that were set so that it does not."""

    is_allowed = False
    disabled_by: tuple[str, ...] = ()


def disable() -> None:
    """Run scripted functions eagerly, and compiled ones unless :func:`allow` was called."""
    if _state._enabled.enabled:
        _state.disable()
        record("torch.jit", _REASON, _state.enable)
    if _Compilation.is_allowed:
        return
    _Compilation.disabled_by = tuple(name for name in _VARIABLES if name not in os.environ)
    for name in _Compilation.disabled_by:
        os.environ[name] = "1"
        record(f"os.environ[{name}]", _REASON, partial(os.environ.pop, name, None))


def allow() -> None:
    """Let ``torch.compile`` compile, unless the program's own environment says that it must not."""
    _Compilation.is_allowed = True
    for name in _Compilation.disabled_by:
        os.environ.pop(name, None)
    config: Any = sys.modules.get("torch._dynamo.config")
    if config is not None and _Compilation.disabled_by:
        config.disable = False
    _Compilation.disabled_by = ()


def disallow() -> None:
    """Let :func:`disable` run compiled functions eagerly again."""
    _Compilation.is_allowed = False
