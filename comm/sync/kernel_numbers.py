"""Numbers that compiled kernels of other rooms and :mod:`emu.comm.sync.kernel_calls` share; loads no Numba."""

from __future__ import annotations

ME, MY_PE, N_PES, HEAP, STRIDE, HEAP_BYTES, GROUPS, GROUP_BYTES, MEMBERS, SIZE, HAS_GROUPS = range(
    11
)
"""Machine words: address of this PE's block; its number; number of PEs; address of its heap; distance between heaps; bytes
of a heap; address of the first group's entry, and bytes of each; where in an entry the members' numbers and their
count stand; number of groups that there can be."""

WORDS = HAS_GROUPS + 1
"""Number of these; behind them stand the addresses of the calls."""

CALLS = {
    "put": 4,
    "get": 4,
    "put_signal": 8,
    "atomic": 6,
    "fence": 0,
    "quiet": 0,
    "changed": 1,
    "waited": 4,
    "arrive": 1,
    "passed": 2,
    "team_size": 1,
    "team_world_pe": 2,
    "team_pe": 1,
}
"""Names of the calls, in the order of their addresses, and the number of the arguments of each besides the machine
words' address."""
