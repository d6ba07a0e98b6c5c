"""The platforms on which PEs can run."""

from __future__ import annotations

import sys

from emu.comm.errors import PlatformError


def check_platform() -> None:
    """Raise ``PlatformError`` on Windows, which has neither fork servers nor descriptors to pass."""
    if sys.platform == "win32":
        raise PlatformError(
            "emu runs PEs on Linux and macOS, but this is Windows: use WSL, where it is Linux"
        )
