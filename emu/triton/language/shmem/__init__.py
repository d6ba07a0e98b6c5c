"""Communication from inside kernels: a device API in the manner of OpenSHMEM, for ``@triton.jit`` functions.

Programs import it as ``emu.shmem``.

Internal: names may change in any release.
"""

from emu.triton.language.shmem.collectives import all_gather, all_to_all, broadcast, reduce
from emu.triton.language.shmem.device import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    barrier,
    fence,
    get,
    load,
    my_pe,
    n_pes,
    put,
    put_signal,
    quiet,
    remote,
    signal,
    store,
    test,
    wait_until,
    world_pe,
)

__all__ = [
    "all_gather",
    "all_to_all",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "barrier",
    "broadcast",
    "fence",
    "get",
    "load",
    "my_pe",
    "n_pes",
    "put",
    "put_signal",
    "quiet",
    "reduce",
    "remote",
    "signal",
    "store",
    "test",
    "wait_until",
    "world_pe",
]
