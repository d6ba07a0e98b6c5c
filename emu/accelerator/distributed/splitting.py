"""Splitting process groups as ``torch.distributed.split_group`` does, and the options that groups are made with.

Torch splits where it would make many small groups at once: the dimensions of a device mesh, once
``init_process_group`` was told the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import distributed_c10d

from emu.accelerator.distributed import world_groups
from emu.comm.errors import ArgumentError

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.group import Group

_module: Any = distributed_c10d  # its types have no process groups written in Python

TIMEOUT = timedelta(minutes=10)
"""How long ranks wait for each other to make a group, as with NCCL."""


class NcclOptions:
    """Stand-in for ``ProcessGroupNCCL.Options``, whose attributes have no effect."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self.use_pg_for_symm_mem_rendezvous = False
        self._timeout = TIMEOUT


class Splitting:
    """The part of a process group that splits it.

    Attributes:
        emu_group: Group of the World.
        device_kinds: Types of the devices whose tensors it takes.
    """

    emu_group: Group
    device_kinds: tuple[str, ...]
    supports_splitting = True
    _split_count = 0
    _store: Any = None

    @property
    def options(self) -> NcclOptions:
        """Options for another group like this one."""
        return NcclOptions()

    def _like(self, devices: Sequence[str], group: Group) -> Any:
        """Return a process group of the same backend over another group."""
        raise NotImplementedError

    def comm_split_count(self) -> int:
        """Return how many times this group was split."""
        return self._split_count

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Do nothing: members are connected from the beginning."""

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Do nothing: ranks that become no member need not take part."""

    def get_group_store(self) -> Any:
        """Return the store of a group that was split from another; None for others."""
        return self._store

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: object = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> Any:
        """Make a group of some members; all members of this one call it, each with the ranks of its own part.

        Args:
            ranks: Members of the new group, as ranks of this one.
            timeout: Without effect.
            opts: Without effect.
            group_name: Torch's name of the new group.
            group_desc: Torch's description of it.
            device_types: Devices whose tensors it takes. Default: those of this group.

        Returns:
            The new group; None: this rank is not among them.

        Raises:
            ArgumentError: A rank is none of this group's, or is given twice; or there is no such device type.
        """
        self._split_count += 1
        parent = self.emu_group
        _check(ranks, parent.n_pes)
        kinds = self._kinds(device_types)
        if parent.my_pe not in ranks:
            return None
        members = [parent.members[rank] for rank in ranks]
        # Parts of one split have no member in common, so the first tells them apart.
        name = f"split {self._split_count} of group {parent.identity.index} from PE {members[0]}"
        part = self._like(kinds, world_groups.world_group_of(name, members))
        part._set_group_name(name if group_name is None else group_name)
        part._set_group_desc("undefined" if group_desc is None else group_desc)
        part._store = PrefixStore(f"{name}/", _module._world.pg_map[self][1])
        return part

    def _kinds(self, device_types: Sequence[torch.device] | None) -> tuple[str, ...]:
        if device_types is None:
            return self.device_kinds
        kinds = tuple(torch.device(device).type for device in device_types)
        if not kinds or not set(kinds) <= set(self.device_kinds):
            raise ArgumentError(
                f"device_types must be some of {', '.join(self.device_kinds)}, but got {list(kinds)}"
            )
        return kinds


def _check(ranks: Sequence[int], size: int) -> None:
    for rank in ranks:
        if not 0 <= rank < size:
            raise ArgumentError(f"ranks must be in [0, {size}), but got {rank}")
    if not ranks or len(set(ranks)) != len(ranks):
        raise ArgumentError(f"ranks must be distinct and not empty, but got {list(ranks)}")
