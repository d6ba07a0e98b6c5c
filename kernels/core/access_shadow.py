"""Shadow of the memory that programs touch: who has read and written each granule, and who of them had no order.

Accesses come one after another, those of a program in its order. Each granule of memory (as many bytes as the smallest
element that is accessed) has a *cell*: its last write, one read, and a list of further reads and of atomic accesses. An
access of one program is ordered before one of another if the latter's clock says so: a vector of the time of each
program that it knows of. A launch of Triton kernels keeps the clocks (``emu.triton.runtime.grid_observer``).

Two programs are enough to convict a third: without order in the kernel a list is never longer than a few entries. With
order, an entry is replaced by one that comes after it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from emu.kernels.core.address import as_pointer
from emu.kernels.core.jit import carray, jit

PAGE: Final = 4096
_PAGE_BITS: Final = 12
_MIX: Final = 0x1E3779B97F4A7C15

# Words of a cell. A program is its number plus one, 0 for none.
W_PROGRAM: Final = 0
W_CLOCK: Final = 1
W_SITE: Final = 2
W_LANE: Final = 3
W_TURN: Final = 4
CHANGED: Final = 5  # whether a write has changed the bits
CO_PROGRAM: Final = 6  # a program without order that has written the same bits before
CO_SITE: Final = 7
R_PROGRAM: Final = 8
R_CLOCK: Final = 9
R_SITE: Final = 10
LIST: Final = 11  # number of its first node plus one
SNAPSHOT: Final = 12  # of the clock that was released to it last
SNAPSHOT_SIZE: Final = 13  # bytes of that access: one of another width does not acquire it
CELL: Final = 14

# Words of a node.
N_PROGRAM: Final = 0
N_CLOCK: Final = 1
N_SITE: Final = 2
N_KIND: Final = 3  # kind of the access, plus 16 times the bytes
N_NEXT: Final = 4
NODE: Final = 5

READ: Final = 0
WRITE: Final = 1
ATOMIC_READ: Final = 2
ATOMIC_WRITE: Final = 3
"""Kinds of accesses."""

# Words of a site.
S_KIND: Final = 0
S_FAILED: Final = 1  # kind of the access of a lane whose compare-and-swap has failed
S_SIZE: Final = 2
S_COUNT: Final = 3
S_MASK: Final = 4
S_VALUES: Final = 5
S_SWAPPED: Final = 6
SITE: Final = 7

# Words of the state.
PAGES: Final = 0
NODES: Final = 1
FREE: Final = 2  # first free node plus one
TURN: Final = 3  # number of the access
FOUND: Final = 4
STATE: Final = 5

RACE: Final = 0
BENIGN: Final = 1
LANES: Final = 2
"""What a record is about."""

FINE: Final = 0
NEEDS_PAGES: Final = 1
NEEDS_NODES: Final = 2
MISALIGNED: Final = 3

MOST: Final = 256
"""Records that there is room for."""

_LONGEST: Final = 64
"""Nodes of a list that are looked through for one that can be replaced."""


@jit()
def _find_page(keys: Any, pages: Any, state: Any, number: int, limit: int) -> int:
    """Return the page of a number, made if there is room below ``limit``; -1 if there is none."""
    mask = keys.shape[0] - 1
    at = ((number * _MIX) >> 20) & mask
    while keys[at] != 0:
        if keys[at] == number + 1:
            break
        at = (at + 1) & mask
    if keys[at] == 0:
        if state[PAGES] >= limit:
            return -1
        keys[at] = number + 1
        pages[at] = state[PAGES]
        state[PAGES] += 1
    found: int = pages[at]
    return found


@jit()
def rehash(keys: Any, pages: Any, old_keys: Any, old_pages: Any) -> None:
    """Enter all pages of a table into a larger one that is empty."""
    mask = keys.shape[0] - 1
    for n in range(old_keys.shape[0]):
        if old_keys[n] != 0:
            at = (((old_keys[n] - 1) * _MIX) >> 20) & mask
            while keys[at] != 0:
                at = (at + 1) & mask
            keys[at] = old_keys[n]
            pages[at] = old_pages[n]


@jit()
def _word(address: int, number: int) -> int:
    found: int = carray(as_pointer(address), number + 1, np.int64)[number]
    return found


@jit()
def _bits(granule: int) -> int:
    """Return the binary logarithm of a power of two."""
    bits = 0
    while granule >> bits > 1:
        bits += 1
    return bits


@jit()
def _same_bytes(first: int, second: int, count: int) -> bool:
    a = carray(as_pointer(first), count, np.uint8)
    b = carray(as_pointer(second), count, np.uint8)
    for n in range(count):  # noqa: SIM110 - Numba has no generators here
        if a[n] != b[n]:
            return False
    return True


@jit()
def _take_node(nodes: Any, state: Any) -> int:
    """Return a free node; there is one."""
    free: int = state[FREE]
    if free != 0:
        state[FREE] = nodes[free - 1, N_NEXT]
        return free - 1
    fresh: int = state[NODES]
    state[NODES] += 1
    return fresh


@jit()
def _free_list(cell: Any, nodes: Any, state: Any) -> None:
    node = cell[LIST]
    while node != 0:
        following = nodes[node - 1, N_NEXT]
        nodes[node - 1, N_NEXT] = state[FREE]
        state[FREE] = node
        node = following
    cell[LIST] = 0


@jit()
def _record(
    state: Any, seen: Any, records: Any, what: int, here: tuple[int, int, int, int], other: Any
) -> None:
    """Record a pair of accesses, the first of its pair of sites.

    Args:
        state: The state.
        seen: What was recorded, by the two sites and what it is about.
        records: Gets what, the access (site, program, lane, address), the other's site and program.
        what: ``RACE``, ``BENIGN`` or ``LANES``.
        here: The access.
        other: Program and site of the other one.
    """
    site, program, lane, address = here
    if seen[site, other[1], what]:
        return
    seen[site, other[1], what] = 1
    at = state[FOUND]
    if at >= records.shape[0]:
        return
    state[FOUND] += 1
    records[at, 0] = what
    records[at, 1] = site
    records[at, 2] = program
    records[at, 3] = lane
    records[at, 4] = address
    records[at, 5] = other[1]
    records[at, 6] = other[0]


@jit()
def _is_conflict(kind: int, size: int, other: int) -> bool:
    """Return whether an access conflicts with that of a node."""
    there, width = other & 15, other >> 4
    if there == READ:
        return kind in (WRITE, ATOMIC_WRITE)
    if kind == WRITE:
        return True
    if kind == READ:
        return there == ATOMIC_WRITE
    return width != size and (kind == ATOMIC_WRITE or there == ATOMIC_WRITE)


@jit()
def _check_list(
    cell: Any, nodes: Any, clock: Any, access: tuple[int, int, int], here: Any, out: Any, same: bool
) -> None:
    """Compare an access with the nodes of a cell."""
    kind, size, me = access
    state, seen, records = out
    node = cell[LIST]
    while node != 0:
        entry = nodes[node - 1]
        other = entry[N_PROGRAM]
        if (
            other != me
            and clock[other - 1] < entry[N_CLOCK]
            and _is_conflict(kind, size, entry[N_KIND])
        ):
            benign = same and kind == WRITE and (entry[N_KIND] & 15) == READ
            what = BENIGN if benign else RACE
            _record(state, seen, records, what, here, (other - 1, entry[N_SITE]))
        node = entry[N_NEXT]


@jit()
def _check_others(
    cell: Any, nodes: Any, clock: Any, access: tuple[int, int, int], here: Any, out: Any, same: bool
) -> bool:
    """Compare an access with those of other programs; return whether the last write was one without order."""
    kind, _, me = access
    state, seen, records = out
    other, unordered = cell[W_PROGRAM], False
    if other != 0 and other != me and clock[other - 1] < cell[W_CLOCK]:
        unordered = True
        benign = same if kind == WRITE else (kind == READ and cell[CHANGED] == 0)
        what = BENIGN if benign else RACE
        _record(state, seen, records, what, here, (other - 1, cell[W_SITE]))
    if kind == WRITE and not same:
        other = cell[CO_PROGRAM]
        if other != 0 and other != me:
            _record(state, seen, records, RACE, here, (other - 1, cell[CO_SITE]))
        cell[CO_PROGRAM] = 0
    if kind in (WRITE, ATOMIC_WRITE):
        other = cell[R_PROGRAM]
        if other != 0 and other != me and clock[other - 1] < cell[R_CLOCK]:
            what = BENIGN if same and kind == WRITE else RACE
            _record(state, seen, records, what, here, (other - 1, cell[R_SITE]))
    if cell[LIST] != 0:
        _check_list(cell, nodes, clock, access, here, out, same)
    return unordered


@jit()
def _enter(
    cell: Any, nodes: Any, state: Any, clock: Any, entry: tuple[int, int, int, int], order: bool
) -> None:
    """Enter an access into the list of a cell, in the place of one that comes before it."""
    kind, me, now, site = entry
    node, count, others = cell[LIST], 0, 0
    while node != 0 and count < _LONGEST:
        there = nodes[node - 1]
        if there[N_KIND] == kind:
            if there[N_PROGRAM] == me or clock[there[N_PROGRAM] - 1] >= there[N_CLOCK]:
                there[N_PROGRAM] = me
                there[N_CLOCK] = now
                there[N_SITE] = site
                return
            others += 1
        count += 1
        node = there[N_NEXT]
    if not order and others >= 2:
        return
    made = _take_node(nodes, state)
    there = nodes[made]
    there[N_PROGRAM] = me
    there[N_CLOCK] = now
    there[N_SITE] = site
    there[N_KIND] = kind
    there[N_NEXT] = cell[LIST]
    cell[LIST] = made + 1


@jit()
def _check_lanes(
    cell: Any, here: tuple[int, int, int, int], out: Any, met: int, lanes: Any, same: bool
) -> None:
    """Compare a write with the last one of the same program, by another lane."""
    state, seen, records = out
    addresses, values, size, place, granule = lanes
    _, program, lane, address = here
    before = cell[W_LANE]
    if cell[W_TURN] == state[TURN]:
        mine = values + lane * size + (place - address)
        others = values + before * size + (place - addresses[before])
        differ = not _same_bytes(mine, others, granule)
    else:
        differ = cell[W_TURN] > met and before != lane and not same
    if differ:
        _record(state, seen, records, LANES, here, (program, cell[W_SITE]))


@jit()
def _update(
    cell: Any,
    nodes: Any,
    state: Any,
    clock: Any,
    entry: tuple[int, int, int, int, int],
    order: bool,
) -> None:
    """Note an access that is no write."""
    kind, me, now, site, size = entry
    if kind == READ:
        other = cell[R_PROGRAM]
        if other == 0 or other == me or clock[other - 1] >= cell[R_CLOCK]:
            cell[R_PROGRAM] = me
            cell[R_CLOCK] = now
            cell[R_SITE] = site
            return
    _enter(cell, nodes, state, clock, (kind | size << 4, me, now, site), order)


@jit()
def _write(
    cell: Any, nodes: Any, state: Any, entry: tuple[int, int, int, int], same: bool, unordered: bool
) -> None:
    """Note a plain write."""
    me, now, site, lane = entry
    if unordered and same:
        cell[CO_PROGRAM] = cell[W_PROGRAM]
        cell[CO_SITE] = cell[W_SITE]
    if not same:
        cell[CHANGED] = 1
        cell[R_PROGRAM] = 0
        _free_list(cell, nodes, state)
    cell[W_PROGRAM] = me
    cell[W_CLOCK] = now
    cell[W_SITE] = site
    cell[W_LANE] = lane
    cell[W_TURN] = state[TURN]
    cell[SNAPSHOT] = 0


@jit()
def _look(site: Any, addresses: Any, masks: Any, tables: Any, state: Any, granule: int) -> int:
    """Find or make the pages of what a site accesses; return ``FINE``, or what is in the way."""
    _, keys, pages, cells, nodes, _ = tables
    size, count = site[S_SIZE], site[S_COUNT]
    if nodes.shape[0] - state[NODES] < count * max(1, size // granule):
        return NEEDS_NODES
    last = -1
    for lane in range(count):
        if site[S_MASK] and not masks[lane]:
            continue
        address = addresses[lane]
        if address & (granule - 1):
            return MISALIGNED
        for page_number in range(address >> _PAGE_BITS, ((address + size - 1) >> _PAGE_BITS) + 1):
            if page_number != last:
                last = page_number
                if _find_page(keys, pages, state, last, cells.shape[0]) < 0:
                    return NEEDS_PAGES
    return FINE


@jit()
def _touch(
    cell: Any, tables: Any, out: Any, kind: int, who: Any, here: Any, lanes: Any, order: bool
) -> None:
    """Note the access of one lane to one cell."""
    sites, _, _, _, nodes, clock = tables
    number, program, lane, address = here
    _, now, met = who
    _, values, size, place, granule = lanes
    state, me = out[0], program + 1
    is_store = sites[number, S_VALUES]
    same = False
    if is_store and kind == WRITE:
        same = _same_bytes(values + lane * size + (place - address), place, granule)
        if cell[W_PROGRAM] == me:
            _check_lanes(cell, here, out, met, lanes, same)
    unordered = _check_others(cell, nodes, clock, (kind, size, me), here, out, same)
    if kind == WRITE:
        _write(cell, nodes, state, (me, now, number, lane), same, unordered)
        return
    _update(cell, nodes, state, clock, (kind, me, now, number, size), order)
    if is_store:
        cell[SNAPSHOT] = 0  # an atomic store; one that releases gets another after this


@jit()
def note(
    record: int,
    number: int,
    who: tuple[int, int, int],
    tables: Any,
    out: Any,
    granule: int,
    order: bool,
) -> int:
    """Note what a site has done, unless there is no room for it.

    Args:
        record: Address of what the observer was told.
        number: Number of the site.
        who: The program, its own time, and the turn at which its lanes have met last.
        tables: Sites; keys and numbers of pages; cells; nodes; the program's clock.
        out: State, what was seen, records.
        granule: Bytes of a cell.
        order: Whether anything in the kernel orders programs.

    Returns:
        ``FINE``, or what is in the way: then nothing was noted.
    """
    sites, keys, pages, cells, _, _ = tables
    state, site = out[0], sites[number]
    count = site[S_COUNT]
    addresses = carray(as_pointer(_word(record, 4)), count, np.int64)
    masks = carray(as_pointer(_word(record, 5 if site[S_MASK] else 4)), count, np.uint8)
    values = _word(record, 5 + site[S_MASK] if site[S_VALUES] else 4)
    at = 5 + site[S_MASK] + site[S_VALUES]
    swapped = carray(as_pointer(_word(record, at if site[S_SWAPPED] else 4)), count, np.uint8)
    status = _look(site, addresses, masks, tables, state, granule)
    if status != FINE:
        return status
    state[TURN] += 1
    shift, last, page = _bits(granule), -1, 0
    for lane in range(count):
        if site[S_MASK] and not masks[lane]:
            continue
        address = addresses[lane]
        kind = site[S_FAILED] if site[S_SWAPPED] and not swapped[lane] else site[S_KIND]
        here = (number, who[0], lane, address)
        for place in range(address, address + site[S_SIZE], granule):
            if place >> _PAGE_BITS != last:
                last = place >> _PAGE_BITS
                page = _find_page(keys, pages, state, last, cells.shape[0])
            cell = cells[page, (place & (PAGE - 1)) >> shift]
            lanes = (addresses, values, site[S_SIZE], place, granule)
            _touch(cell, tables, out, kind, who, here, lanes, order)
    return FINE


@jit()
def collect(record: int, number: int, tables: Any, state: Any, granule: int, found: Any) -> int:
    """Write the snapshots that were released to what a site accesses; return how many different ones, without order."""
    sites, keys, pages, cells, _, _ = tables
    site = sites[number]
    count = site[S_COUNT]
    addresses = carray(as_pointer(_word(record, 4)), count, np.int64)
    masks = carray(as_pointer(_word(record, 5 if site[S_MASK] else 4)), count, np.uint8)
    shift = _bits(granule)
    different, last, page = 0, -1, 0
    for lane in range(count):
        if site[S_MASK] and not masks[lane]:
            continue
        address = addresses[lane]
        if address >> _PAGE_BITS != last:
            last = address >> _PAGE_BITS
            page = _find_page(keys, pages, state, last, cells.shape[0])
        if page < 0:
            continue  # not accessed before
        cell = cells[page, (address & (PAGE - 1)) >> shift]
        snapshot = cell[SNAPSHOT]
        if snapshot != 0 and cell[SNAPSHOT_SIZE] == site[S_SIZE]:
            known = False
            for n in range(different - 1, -1, -1):
                if found[n] == snapshot:
                    known = True
                    break
            if not known:
                found[different] = snapshot
                different += 1
    return different


@jit()
def publish(
    record: int, number: int, tables: Any, state: Any, granule: int, renamed: tuple[Any, Any, int]
) -> None:
    """Set the snapshots of what a site has written.

    Args:
        record: As of ``note``.
        number: As of ``note``.
        tables: As of ``note``.
        state: The state.
        granule: As of ``note``.
        renamed: Snapshots before, and what they become; what all others become.
    """
    sites, keys, pages, cells, _, _ = tables
    olds, news, rest = renamed
    site = sites[number]
    count = site[S_COUNT]
    addresses = carray(as_pointer(_word(record, 4)), count, np.int64)
    masks = carray(as_pointer(_word(record, 5 if site[S_MASK] else 4)), count, np.uint8)
    at = 5 + site[S_MASK] + site[S_VALUES]
    swapped = carray(as_pointer(_word(record, at if site[S_SWAPPED] else 4)), count, np.uint8)
    shift = _bits(granule)
    last, page = -1, 0
    for lane in range(count):
        if (site[S_MASK] and not masks[lane]) or (site[S_SWAPPED] and not swapped[lane]):
            continue
        address = addresses[lane]
        if address >> _PAGE_BITS != last:
            last = address >> _PAGE_BITS
            page = _find_page(keys, pages, state, last, cells.shape[0])
        cell = cells[page, (address & (PAGE - 1)) >> shift]
        becomes = rest
        for n in range(olds.shape[0]):
            if olds[n] == cell[SNAPSHOT]:
                becomes = news[n]
        cell[SNAPSHOT] = becomes
        cell[SNAPSHOT_SIZE] = site[S_SIZE]


@jit()
def split_lists(cells: Any, nodes: Any, state: Any, parts: int) -> None:
    """Give each of ``parts`` neighbouring cells, which are copies of one, a list of its own; there is room."""
    for page in range(state[PAGES]):
        for first in range(0, cells.shape[1], parts):
            for n in range(1, parts):
                cell = cells[page, first + n]
                node, cell[LIST] = cell[LIST], 0
                while node != 0:
                    made = _take_node(nodes, state)
                    following = nodes[node - 1, N_NEXT]
                    for word in range(NODE):
                        nodes[made, word] = nodes[node - 1, word]
                    nodes[made, N_NEXT] = cell[LIST]
                    cell[LIST] = made + 1
                    node = following


@jit()
def program_of(record: int) -> tuple[int, int, int]:
    """Return the numbers x, y, z of the program of a record."""
    return _word(record, 0), _word(record, 1), _word(record, 2)
