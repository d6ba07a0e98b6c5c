"""The one place that decides whether what only Linux has is used.

Futexes, timer slack, nameless sockets, ``/proc`` and signals of descriptors have a slower counterpart each, which
macOS needs. ``EMU_FORCE_PORTABLE=1`` takes these on Linux too, so that they can be tested there; what is compiled for
them has a cache of its own.

Internal: names may change in any release.
"""

from __future__ import annotations

import sys

from emu.kernels.core import environment

LINUX: bool = sys.platform == "linux" and not environment.is_portable()
"""Whether what only Linux has may be used."""
