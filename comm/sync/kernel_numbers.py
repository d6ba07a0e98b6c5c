"""Numbers that compiled kernels of other rooms and :mod:`emu.comm.sync.kernel_calls` share; loads no Numba."""

from __future__ import annotations

ME, MY_PE, N_PES, HEAP, STRIDE, HEAP_BYTES, GROUPS, GROUP_BYTES, MEMBERS, SIZE, HAS_GROUPS = range(
    11
)
"""Machine words: address of this PE's block; its number; number of PEs; address of its heap; distance between heaps; bytes
of a heap; address of the first group's entry, and bytes of each; where in an entry the members' numbers and their
count stand; number of groups that there can be."""

WORDS = 11
"""Number of these; behind them stand the addresses of the calls."""

CALLS = (
    "put",
    "get",
    "put_signal",
    "atomic",
    "fence",
    "quiet",
    "changed",
    "waited",
    "arrive",
    "passed",
    "team_size",
    "team_world_pe",
    "team_pe",
)
"""Names of the calls, in the order of their addresses."""

ARGUMENTS = (4, 4, 8, 6, 0, 0, 1, 4, 1, 2, 1, 2, 1)
"""Number of the arguments of each besides the machine words' address."""
