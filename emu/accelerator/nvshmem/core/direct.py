"""``nvshmem.core.direct``: numbers of PEs and members, and teams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emu.accelerator.nvshmem.context import active
from emu.accelerator.nvshmem.enums import Teams
from emu.accelerator.nvshmem.errors import NvshmemInvalid, check
from emu.accelerator.nvshmem.operands import check_pe
from emu.kernels.core.messages import shown

__all__ = [
    "TeamConfig",
    "my_pe",
    "n_pes",
    "team_destroy",
    "team_get_config",
    "team_my_pe",
    "team_n_pes",
    "team_split_2d",
    "team_split_strided",
    "team_translate_pe",
]


@dataclass(frozen=True)
class TeamConfig:
    """Configuration of a team; it has no effect.

    Attributes:
        num_contexts: Number of contexts that the program may make.
    """

    num_contexts: int = 0


def my_pe() -> int:
    """Return this PE's number.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    return active("nvshmem.core.my_pe").world.my_pe


def n_pes() -> int:
    """Return the number of PEs.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    return active("nvshmem.core.n_pes").world.n_pes


def team_my_pe(team: Teams | int) -> int:
    """Return this PE's number in a team; -1 for ``TEAM_INVALID``.

    Raises:
        NvshmemInvalid: There is no such team.
    """
    op = "nvshmem.core.team_my_pe"
    here = active(op)
    return -1 if _is_none(op, team) else here.group(op, team).my_pe


def team_n_pes(team: Teams | int) -> int:
    """Return the number of a team's members; -1 for ``TEAM_INVALID``.

    Raises:
        NvshmemInvalid: There is no such team.
    """
    op = "nvshmem.core.team_n_pes"
    here = active(op)
    return -1 if _is_none(op, team) else here.group(op, team).n_pes


def team_translate_pe(src_team: Teams | int, src_pe: int, dest_team: Teams | int) -> int:
    """Return the number in one team of a member of another; -1: it is no member, or a team is ``TEAM_INVALID``.

    Raises:
        NvshmemInvalid: There is no such team, or no such member.
    """
    op = "nvshmem.core.team_translate_pe"
    here = active(op)
    if _is_none(op, src_team) or _is_none(op, dest_team):
        return -1
    source, target = here.group(op, src_team, "src_team"), here.group(op, dest_team, "dest_team")
    world_pe = source.members[check_pe(op, "src_pe", src_pe, source)]
    return target.members.index(world_pe) if world_pe in target.member_set else -1


def team_split_strided(
    parent_team: Teams | int,
    start: int,
    stride: int,
    size: int,
    config: TeamConfig | None = None,
    config_mask: int = 0,
) -> int:
    """Make a team of every ``stride``-th member of another; every member of that calls it, with the same arguments.

    Args:
        parent_team: The other team.
        start: Number of the first member, in it.
        stride: Step from member to member, not 0.
        size: Number of members.
        config: No effect.
        config_mask: No effect.

    Returns:
        The new team's number, by which kernels know it too; ``TEAM_INVALID`` on PEs that are not in it.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    op = "nvshmem.core.team_split_strided"
    parent = active(op).group(op, parent_team, "parent_team")
    first = check_pe(op, "start", start, parent)
    step = check.integer(f"{op}: stride", stride)
    count = check.integer(f"{op}: size", size, 1)
    last = first + (count - 1) * step
    if not 0 <= last < parent.n_pes or (step == 0 and count > 1):
        raise NvshmemInvalid(
            f"{op}: start, stride and size must pick different members of a team of {parent.n_pes}, but got {first}, "
            f"{shown(stride)} and {count}"
        )
    return active(op).split(parent, [first + each * step for each in range(count)])


def team_split_2d(
    parent_team: Teams | int,
    xrange: int,
    xaxis_config: TeamConfig | None = None,
    xaxis_mask: int = 0,
    yaxis_config: TeamConfig | None = None,
    yaxis_mask: int = 0,
) -> tuple[int, int]:
    """Divide a team into rows, and into columns; every member calls it, with the same arguments.

    Args:
        parent_team: The team.
        xrange: Members of a row, who follow each other in the team; the last row may have fewer.
        xaxis_config: No effect.
        xaxis_mask: No effect.
        yaxis_config: No effect.
        yaxis_mask: No effect.

    Returns:
        The numbers of this PE's row and of its column.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    op = "nvshmem.core.team_split_2d"
    here = active(op)
    parent = here.group(op, parent_team, "parent_team")
    width = check.integer(f"{op}: xrange", xrange, 1)
    row = parent.my_pe - parent.my_pe % width
    members = range(parent.n_pes)
    x = here.split(parent, [*members[row : row + width]])
    return x, here.split(parent, [*members[parent.my_pe % width :: width]])


def team_get_config(team: Teams | int) -> TeamConfig:
    """Return the configuration of a team, which is the default one.

    Raises:
        NvshmemInvalid: There is no such team.
    """
    op = "nvshmem.core.team_get_config"
    active(op).group(op, team)
    return TeamConfig()


def team_destroy(team: Teams | int) -> None:
    """Destroy a team that :func:`team_split_strided` has made; every member calls it. ``TEAM_INVALID`` is left alone.

    Raises:
        NvshmemInvalid: It is no such team.
    """
    op = "nvshmem.core.team_destroy"
    here = active(op)
    if not _is_none(op, team):
        here.destroy(op, team)


def _is_none(op: str, team: Any) -> bool:
    return check.integer(f"{op}: team", team) == Teams.TEAM_INVALID
