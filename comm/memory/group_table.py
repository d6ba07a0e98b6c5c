"""The table of groups: found by name or made, under the lock of the tables."""

from __future__ import annotations

from emu.comm.errors import ArgumentError, UnknownGroupError
from emu.comm.layout import GROUPS
from emu.comm.memory.segment import Segment


def find_or_make(
    segment: Segment, name: str, members: tuple[int, ...] | None
) -> tuple[int, tuple[int, ...]]:
    """Return (number, members) of a group; the caller holds the lock of the tables.

    Args:
        segment: Shared memory of the world.
        name: At most 128 characters.
        members: World numbers of the members of a group that is made if there is none of this name. None: look it up.

    Raises:
        UnknownGroupError: Without ``members``, a name that is not known.
        ArgumentError: There is no room for one more group.
    """
    layout = segment.layout
    encoded = name.encode()  # at most 128 characters, so at most NAME_BYTES
    for index in range(
        1, GROUPS
    ):  # groups are never removed: the first unused entry ends the search
        start = layout.groups + index * layout.group_bytes
        size = layout.group_dtype.itemsize
        entry = segment.bytes[start : start + size].view(layout.group_dtype)[0]
        if entry["used"] and entry["name"] == encoded:
            return index, tuple(int(p) for p in entry["members"][: entry["n_pes"]])
        if not entry["used"]:
            if members is None:
                raise UnknownGroupError(
                    f"name must be that of a known group, but {name!r} is not known; make it on each of its members with "
                    f'world.group("{name}", [PE numbers])'
                )
            entry["members"][: len(members)] = members
            entry["n_pes"], entry["name"], entry["used"] = len(members), encoded, 1
            return index, members
    raise ArgumentError(f"a world holds at most {GROUPS} groups, but {name!r} would be one more")
