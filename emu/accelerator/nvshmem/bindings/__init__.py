"""``nvshmem.bindings``: NVSHMEM's functions on addresses; those of :mod:`.nvshmem`, under their short names too.

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.accelerator.nvshmem.bindings import nvshmem as nvshmem
from emu.accelerator.nvshmem.bindings.nvshmem import *
