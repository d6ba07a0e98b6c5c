"""``World``: the group of all PEs, which also makes the other groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from emu.comm.errors import ArgumentError, UnknownGroupError
from emu.comm.layout import GROUPS
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.comm.world.membership import Identity
from emu.kernels.core.messages import shown


class World(Group):
    """The group of all PEs of a launch; :func:`emu.world` returns it."""

    _group_type: type[Group] = Group

    def __init__(self, segment: Segment, me: int, pe: int, *, poison: bool) -> None:
        super().__init__(
            Identity(
                segment=segment,
                heap=Heap(segment, me, pe, poison=poison),
                me=me,
                world_pe=pe,
                name="world",
                members=tuple(range(segment.layout.n_pes)),
                index=0,
            )
        )
        self._groups: dict[str, Group] = {"world": self}
        self._on_finish: list[Callable[[], None]] = []

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when this PE's function has returned; the last one added is called first."""
        if not callable(callback):
            raise ArgumentError(f"callback must be a function, but got {shown(callback)}")
        self._on_finish.append(callback)

    def finish(self) -> None:
        """Run the callbacks of :meth:`on_finish`; the PE's bootstrap calls it."""
        while self._on_finish:
            self._on_finish.pop()()
        for group in self._groups.values():
            if group.server is not None:
                group.server.stop()

    def group(self, name: str, pes: Sequence[int] | None = None) -> Group:
        """Make the group ``name`` of PEs ``pes``, or find it.

        The members call it with the same list, in any order and without waiting for each other.

        Args:
            name: 1 to 128 characters.
            pes: World numbers of the members in group order. Default: look the name up.

        Returns:
            The group.

        Raises:
            UnknownGroupError: Without ``pes``, a name that is not known.
            ArgumentError: A bad name or list, or a list that is not the one another member gave.
        """
        name = check.text("name", name)
        if not 1 <= len(name) <= 128:
            raise ArgumentError(f"name must have 1 to 128 characters, but got {len(name)}")
        members = None if pes is None else self._check_members(name, pes)
        known = self._groups.get(name)
        if known is None:
            with self.heap.table_lock():
                index, there = self._find_or_make(name, members)
            if self.my_pe not in there:
                raise ArgumentError(
                    f"pes must contain this PE {self.my_pe} for group {name!r}, but got {there}"
                )
            identity = replace(self.identity, name=name, members=there, index=index)
            known = self._group_type(identity)
            self._groups[name] = known
        if members is not None and members != known.members:
            raise ArgumentError(
                f"pes must be the same on every member of group {name!r}, but it has "
                f"{list(known.members)} and PE {self.my_pe} gave {list(members)}"
            )
        return known

    def _check_members(self, name: str, pes: Sequence[int]) -> tuple[int, ...]:
        members = check.integers("pes", pes)
        if not members or len(set(members)) != len(members):
            raise ArgumentError(f"pes must be distinct and not empty, but got {list(members)}")
        for pe in members:
            if not 0 <= pe < self.n_pes:
                raise ArgumentError(f"pes must be in [0, {self.n_pes}), but got {shown(pe)}")
        if self.my_pe not in members:
            raise ArgumentError(
                f"pes must contain this PE {self.my_pe} for group {name!r}, but got {list(members)}"
            )
        return members

    def _find_or_make(
        self, name: str, members: tuple[int, ...] | None
    ) -> tuple[int, tuple[int, ...]]:
        layout = self.segment.layout
        encoded = name.encode()  # at most 128 characters, so at most NAME_BYTES
        for index in range(
            1, GROUPS
        ):  # groups are never removed: the first unused entry ends the search
            start = layout.groups + index * layout.group_bytes
            size = layout.group_dtype.itemsize
            entry = self.segment.bytes[start : start + size].view(layout.group_dtype)[0]
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
        raise ArgumentError(
            f"a world holds at most {GROUPS} groups, but {name!r} would be one more"
        )
