"""The machine as kernels of a PE see it: what MACHINE_WORD reads, and what MACHINE_CALL asks for.

Both stand for what only the process knows in which a kernel runs: the same code serves every PE. A word is the same for
all programs of a launch. A call changes or reads memory of several PEs by the machine's own rules, so that emulated links,
checks and reports of hangs know of it. Values are i64; a call gives one, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.comm.sync import kernel_numbers as numbers
from emu.tile.ir import Builder, Value
from emu.tile.ops import Code
from emu.tile.types import I64

WORDS: dict[str, int] = {
    "my_pe": numbers.MY_PE,
    "n_pes": numbers.N_PES,
    "heap": numbers.HEAP,
    "stride": numbers.STRIDE,
    "heap_bytes": numbers.HEAP_BYTES,
    "groups": numbers.GROUPS,
    "group_bytes": numbers.GROUP_BYTES,
    "grid": numbers.GRID,
    "node": numbers.NODE,
    "same_place": numbers.SAME_PLACE,
    "first_here": numbers.FIRST_HERE,
    "end_here": numbers.END_HERE,
    "link": numbers.LINK,
}
"""Words by name, and where they stand: number of this PE, number of PEs, address of this PE's heap, distance to that of
the next PE, bytes of a heap; address of the first group's barrier, and distance to that of the next group; address of
memory, zero at first, in which the programs of a grid meet; groups of this PE's node, and of its place in each node; first
PE of this host, and the one behind its last; whether PEs are connected by emulated links."""

CALLS: dict[str, int] = numbers.CALLS
"""Calls by name, and the number of their operands; :mod:`emu.comm.sync.kernel_calls` says what they do."""


ORDERLESS = numbers.ORDERLESS
"""Names of the calls by which no program finds an order with another one."""


def place_of_call(what: str) -> int:
    """Return the number of the machine word that holds a call's address."""
    return numbers.WORDS + list(CALLS).index(what)


def read_word(builder: Builder, what: str) -> Value:
    """Append a MACHINE_WORD, and return its value."""
    return builder.append(Code.MACHINE_WORD, (), (I64,), {"what": what}).result


def call(builder: Builder, what: str, operands: Sequence[Value]) -> Value:
    """Append a MACHINE_CALL, and return its value."""
    return builder.append(Code.MACHINE_CALL, operands, (I64,), {"what": what}).result
