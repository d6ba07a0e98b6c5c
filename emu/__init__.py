"""Run programs written for many accelerators on one ordinary machine.

Every PE (processing element) is an operating-system process, memory between PEs is real shared
memory, and the arithmetic is compiled by Numba to native code. Importing this package is cheap:
NumPy and Numba load when the first of the names below is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emu.comm.errors import CommError as CommError
    from emu.comm.errors import DeadlockError as DeadlockError
    from emu.comm.errors import PEDiedError as PEDiedError
    from emu.comm.errors import PeerFailedError as PeerFailedError
    from emu.comm.errors import SymmetricMemoryError as SymmetricMemoryError
    from emu.comm.link_model import Link as Link
    from emu.comm.ops import AtomicOp as AtomicOp
    from emu.comm.ops import Cmp as Cmp
    from emu.comm.process.launch import launch as launch
    from emu.comm.process.launch_options import LaunchOptions as LaunchOptions
    from emu.comm.world.array import SymmetricArray as SymmetricArray
    from emu.comm.world.current import world as world
    from emu.comm.world.group import Group as Group
    from emu.comm.world.world import World as World

_HOME = {
    "AtomicOp": "emu.comm.ops",
    "Cmp": "emu.comm.ops",
    "CommError": "emu.comm.errors",
    "DeadlockError": "emu.comm.errors",
    "Group": "emu.comm.world.group",
    "LaunchOptions": "emu.comm.process.launch_options",
    "Link": "emu.comm.link_model",
    "PEDiedError": "emu.comm.errors",
    "PeerFailedError": "emu.comm.errors",
    "SymmetricArray": "emu.comm.world.array",
    "SymmetricMemoryError": "emu.comm.errors",
    "World": "emu.comm.world.world",
    "launch": "emu.comm.process.launch",
    "world": "emu.comm.world.current",
}

__all__ = [
    "AtomicOp",
    "Cmp",
    "CommError",
    "DeadlockError",
    "Group",
    "LaunchOptions",
    "Link",
    "PEDiedError",
    "PeerFailedError",
    "SymmetricArray",
    "SymmetricMemoryError",
    "World",
    "__version__",
    "launch",
    "world",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tile-emu")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'emu' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
