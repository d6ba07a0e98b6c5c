"""``World``: the group of all PEs, which also makes the other groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from emu.comm.errors import ArgumentError
from emu.comm.memory.group_table import find_or_make
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.comm.world.membership import Identity
from emu.kernels.core.messages import shown


class World(Group):
    """The group of all PEs of a launch; :func:`emu.world` returns it."""

    _group_type: type[Group] = Group

    def __init__(
        self, segment: Segment, me: int, pe: int, *, poison: bool, heap: Heap | None = None
    ) -> None:
        super().__init__(
            Identity(
                segment=segment,
                heap=heap if heap is not None else Heap(segment, me, pe, poison=poison),
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
            index, there = self._agree_on(name, members)
            if self.my_pe not in there:
                raise ArgumentError(
                    f"pes must contain this PE {self.my_pe} for group {name!r}, but got {there}"
                )
            identity = replace(self.identity, name=name, members=there, index=index)
            known = self._new_group(identity)
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

    def _agree_on(self, name: str, members: tuple[int, ...] | None) -> tuple[int, tuple[int, ...]]:
        """Return (number, members) of the group ``name`` in the table of groups, where it may be made now."""
        with self.heap.table_lock():
            return find_or_make(self.segment, name, members)

    def _new_group(self, identity: Identity) -> Group:
        """Return a group that this PE did not know."""
        return self._group_type(identity)
