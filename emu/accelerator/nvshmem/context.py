"""What ``init`` has made: the World, the device, the allocations that live, and the teams."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from emu.accelerator.distributed import spawned, works
from emu.accelerator.nvshmem.enums import FIRST_NEW_TEAM, InitStatus, Teams
from emu.accelerator.nvshmem.errors import NvshmemError, NvshmemInvalid, check
from emu.comm.errors import SymmetricMemoryError
from emu.comm.world.current import current, places_of, spans_hosts
from emu.comm.world.nodes import node_of, ranks_per_node, same_place
from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # they load Numba
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group
    from emu.comm.world.world import World


class Allocation:
    """Symmetric memory that one collective call has allocated.

    Attributes:
        array: Its bytes in the World.
        nbytes: Their number.
        label: What errors and reports call it.
        is_freed: Whether it was freed.
    """

    def __init__(self, array: SymmetricArray, label: str) -> None:
        self.array = array
        self.nbytes = array.nbytes
        self.label = label
        self.is_freed = False

    @property
    def offset(self) -> int:
        """Place of the first byte in each PE's heap."""
        return self.array.offset


class Placement(NamedTuple):
    """Where a piece of memory lies.

    Attributes:
        pe: World number of the PE whose heap it lies in; -1: in no heap.
        offset: Its place there.
        label: What reports call it.
        arrays: Arrays of it that were made already.
    """

    pe: int
    offset: int
    label: str
    arrays: dict[tuple[object, ...], SymmetricArray]


_MOST_PLACES = 4096


class Context:
    """NVSHMEM between ``init`` and ``finalize``.

    Args:
        world: The World of this PE.
        device: Device of the tensors.
        handle: What the program gave as ``device``.
    """

    def __init__(self, world: World, device: torch.device, handle: object) -> None:
        self.world = world
        self.device = device
        self.handle = handle
        self.inits = 1
        self.places: dict[tuple[int, int], Placement] = {}
        self.has_nodes = spans_hosts(world) or ranks_per_node(world.n_pes) < world.n_pes
        self._by_offset: dict[int, Allocation] = {}
        self._offsets: list[int] = []
        self._teams: dict[int, tuple[Group, str]] = {}

    # --- memory ----------------------------------------------------------------------------------

    def allocate(self, op: str, nbytes: int, what: str) -> Allocation:
        """Allocate on every PE; all call it, and it ends with a barrier.

        Args:
            op: The call, for errors.
            nbytes: Bytes, at least 1.
            what: Description of the memory.

        Raises:
            NvshmemError: There is no room, or PEs asked for different sizes.
        """
        number = next(_numbers)
        label = f"nvshmem {what} #{number}"
        works.flush_collectives()
        try:
            array = self.world.alloc(nbytes, np.uint8, name=label, key=f"nvshmem {number}")
        except SymmetricMemoryError as error:
            raise NvshmemError(f"{op}: {error}") from error
        made = Allocation(array, label)
        self._by_offset[made.offset] = made
        bisect.insort(self._offsets, made.offset)
        self.world.barrier()
        return made

    def find(self, offset: int) -> Allocation | None:
        """Return the allocation that lies around a place of the heaps; None: there is none of ours."""
        at = bisect.bisect_right(self._offsets, offset) - 1
        if at < 0:
            return None
        found = self._by_offset[self._offsets[at]]
        return found if offset < found.offset + found.nbytes else None

    def keep(self, address: int, nbytes: int, placement: Placement) -> None:
        """Remember where a piece of an allocation lies, until one is freed."""
        if len(self.places) >= _MOST_PLACES:
            self.places.clear()
        self.places[address, nbytes] = placement

    def free(self, allocation: Allocation) -> None:
        """Free memory on every PE; all call it. Barriers before and after: nobody uses it, and it is gone."""
        works.flush_collectives()
        self.world.barrier()
        self._free(allocation)
        self.world.barrier()

    def _free(self, allocation: Allocation) -> None:
        allocation.is_freed = True
        self.places.clear()
        self._offsets.remove(allocation.offset)
        del self._by_offset[allocation.offset]
        allocation.array.free()

    def free_all(self) -> None:
        """Free what was not freed; every PE calls it."""
        works.flush_collectives()
        self.world.barrier()
        for allocation in list(self._by_offset.values()):
            self._free(allocation)

    # --- teams -----------------------------------------------------------------------------------

    def group(self, op: str, team: Any, name: str = "team") -> Group:
        """Return the World's group behind a team.

        Raises:
            NvshmemInvalid: There is no such team, or this PE is no member.
        """
        number = check.integer(f"{op}: {name}", team)
        if number in _EVERYBODY:
            return self.world
        if number in _OF_NODE:
            return node_of(self.world)
        if number == Teams.TEAM_SAME_MYPE_NODE and self.has_nodes:
            return same_place(self.world)
        if number in _ALONE:
            return self.world.group(f"nvshmem PE {self.world.my_pe}", [self.world.my_pe])
        if number not in self._teams:
            raise NvshmemInvalid(
                f"{op}: {name} must be one of Teams or the number of a team that was made and not destroyed, but got "
                f"{shown(team)}"
            )
        return self._teams[number][0]

    def split(self, parent: Group, members: list[int]) -> int:
        """Make a team of some members of another; return its number, or -1 where this PE is not in it."""
        if parent.my_pe not in members:
            return int(Teams.TEAM_INVALID)
        world_pes = [parent.members[pe] for pe in members]
        everyone = list(range(self.world.n_pes))
        for number in range(1, FIRST_NEW_TEAM):  # the predefined teams' numbers are theirs
            self.world.group(f"nvshmem team {number}", everyone)
        step = members[1] - members[0] if len(members) > 1 else 1
        shape = f"{members[0]}:{step}:{len(members)}"
        taken = {name for _, name in self._teams.values()}
        names = (f"nvshmem {parent.index}/{shape}#{k}" for k in itertools.count())
        name = next(each for each in names if each not in taken)
        group = self.world.group(name, world_pes)
        self._teams[group.index] = group, name
        return group.index

    def destroy(self, op: str, team: Any) -> None:
        """Forget a team.

        Raises:
            NvshmemInvalid: It is a predefined one, or none.
        """
        number = check.integer(f"{op}: team", team)
        if number in set(Teams) - {Teams.TEAM_INVALID}:
            raise NvshmemInvalid(
                f"{op}: team must be one that team_split_strided has made, but got {shown(team)}"
            )
        self.group(op, number)
        del self._teams[number]


_EVERYBODY = frozenset((Teams.TEAM_WORLD, Teams.TEAM_GPU_LEADERS))
_OF_NODE = frozenset((Teams.TEAM_SHARED, Teams.TEAM_NODE))
_ALONE = frozenset((Teams.TEAM_SAME_MYPE_NODE, Teams.TEAM_SAME_GPU))
_numbers = itertools.count()  # of allocations, through all initialisations


class _Process:
    """NVSHMEM in this process."""

    context: Context | None = None
    was_initialised = False


def active(op: str) -> Context:
    """Return what ``init`` has made.

    Raises:
        NvshmemError: It was not called, or ``finalize`` was called since.
    """
    found = _Process.context
    if found is None:
        since = "finalize() was called since" if _Process.was_initialised else "it was not"
        raise NvshmemError(f"{op}: nvshmem.core.init() must be called before, but {since}")
    return found


def status() -> InitStatus:
    """Return whether NVSHMEM is initialised."""
    if _Process.context is not None:
        return InitStatus.STATUS_IS_INITIALIZED
    if _Process.was_initialised:
        return InitStatus.STATUS_IS_BOOTSTRAPPED
    return InitStatus.STATUS_NOT_INITIALIZED


def begin(context: Context) -> None:
    """Keep what ``init`` has made."""
    _Process.context, _Process.was_initialised = context, True


def found() -> Context | None:
    """Return what ``init`` has made; None: nothing."""
    return _Process.context


def end() -> None:
    """Forget what ``init`` has made."""
    _Process.context = None


def find_world() -> World | None:
    """Return the World of this process, which becomes a PE if it is invited to; None: it is none."""
    return current() or spawned.accept()


def check_reach(what: str, pe: int, world: World) -> int:
    """Return the number of a PE whose memory loads and stores can reach: it is on this host.

    Raises:
        NvshmemInvalid: It is on another one.
    """
    places = places_of(world)
    if places is not None and pe not in places.local:
        raise NvshmemInvalid(
            f"{what} must be on this host, as loads and stores cannot reach another, but PE {pe} is on "
            f"{places.describe(places.host_of(pe))}; use put() and get()"
        )
    return pe


def make_lone_world() -> World:
    """Make this process, which nobody has launched, the one PE of a World."""
    from emu.comm.process.invitation import Gathering

    return Gathering(1).invitation.accept(0)
