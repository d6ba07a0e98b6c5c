"""Numbers that compiled kernels of other rooms and :mod:`emu.comm.sync.kernel_calls` share; loads no Numba."""

from __future__ import annotations

ME, MY_PE, N_PES, HEAP, STRIDE, HEAP_BYTES = range(6)
GROUPS, GROUP_BYTES, MEMBERS, SIZE, HAS_GROUPS, GRID, NODE, SAME_PLACE = range(6, 14)
FIRST_HERE, END_HERE, LINK = range(14, 17)
"""Machine words: address of this PE's block; its number; number of PEs; address of its heap; distance between heaps; bytes
of a heap; address of the first group's entry, and bytes of each; where in an entry the members' numbers and their
count stand; number of groups that there can be; address of memory, zero at first, in which the programs of a grid meet;
groups of this PE's node, and of the PEs at its place in each node: -1 where there is only one node; the first PE of this
host, and the one behind its last: the PEs whose heaps loads and stores can reach; 1 if PEs are connected by emulated
links, else 0."""

GRID_BYTES = 64
"""Bytes of that memory."""

WORDS = LINK + 1
"""Number of these; behind them stand the addresses of the calls."""

CALLS = {
    "put": 4,
    "get": 4,
    "put_signal": 8,
    "atomic": 6,
    "fence": 0,
    "quiet": 0,
    "changed": 1,
    "wait_begins": 0,
    "carried": 3,
    "waited": 5,
    "arrive": 1,
    "passed": 2,
    "team_size": 1,
    "team_world_pe": 2,
    "team_pe": 1,
    "settle": 0,
    "take_room": 1,
    "give_room": 1,
    "elements": 7,
}
"""Names of the calls, in the order of their addresses, and the number of the arguments of each besides the machine
words' address."""

OVER_HOSTS = frozenset({"settle", "take_room", "give_room", "elements"})
"""Calls that are made only where a World spans hosts; they are no native code."""

ORDERLESS = frozenset(
    {"put", "get", "changed", "wait_begins", "carried", "team_size", "team_world_pe", "team_pe"}
)
"""Calls by which no program finds an order with another one: neither do they signal, nor do they wait."""
