"""The language of Triton-distributed: signals between PEs and between programs, and what single threads do.

Its libraries import these names from modules of their own; :mod:`emu.triton_distributed` puts these functions
there. ``_semantic`` is what functions written for Triton hand on; it has no part in this.

Internal: names may change in any release.
"""

from emu.triton.language.distributed.calls import extern_call
from emu.triton.language.distributed.memory import (
    atomic_add,
    atomic_cas,
    ld,
    red_release,
    st,
)
from emu.triton.language.distributed.signals import (
    consume_token,
    notify,
    num_ranks,
    rank,
    symm_at,
    wait,
)
from emu.triton.language.distributed.vectors import (
    fill_vector,
    ld_vector,
    make_vector,
    pack,
    st_vector,
    unpack,
    vector,
    vector_type,
    zeros_vector,
)

__all__ = [
    "atomic_add",
    "atomic_cas",
    "consume_token",
    "extern_call",
    "fill_vector",
    "ld",
    "ld_vector",
    "make_vector",
    "notify",
    "num_ranks",
    "pack",
    "rank",
    "red_release",
    "st",
    "st_vector",
    "symm_at",
    "unpack",
    "vector",
    "vector_type",
    "wait",
    "zeros_vector",
]
