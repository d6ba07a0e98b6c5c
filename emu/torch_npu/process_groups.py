"""Process groups by the names that scripts pass to operators."""

from __future__ import annotations

from emu.comm.errors import ArgumentError, UnknownGroupError
from emu.comm.world.checks import check
from emu.comm.world.current import world
from emu.comm.world.group import Group
from emu.mc2.arguments import NAME_CHARACTERS


def find_group(name: str, value: object, **size: object) -> Group:
    """Return the World's group of a name; "world" is the group of all PEs.

    Args:
        name: The argument's name in errors.
        value: The group's name.
        **size: Number of PEs that the script expects, under that argument's name in errors.

    Raises:
        ArgumentError: There is no such group, or it has another size.
    """
    if not isinstance(value, str):
        raise ArgumentError(
            f"{name} must be the name of a process group, but got {type(value).__name__}"
        )
    if not 1 <= len(value) <= NAME_CHARACTERS:
        raise ArgumentError(
            f"{name} must have 1 to {NAME_CHARACTERS} characters, but got {len(value)}"
        )
    try:
        group = world().group(check.text(name, value))
    except UnknownGroupError:
        raise ArgumentError(
            f"{name} must be the name of a process group of this PE, but got {value!r}"
        ) from None
    for size_name, given in size.items():
        if check.integer(size_name, given) != group.n_pes:
            raise ArgumentError(
                f"{size_name} must be {group.n_pes}, the size of group {value!r}, but got {given!r}"
            )
    return group


def check_rank(name: str, value: object, group: Group) -> None:
    """Check that a rank is this PE's in the group."""
    if check.integer(name, value) != group.my_pe:
        raise ArgumentError(
            f"{name} must be {group.my_pe}, the rank of this PE in group {group.name!r}, "
            f"but got {value!r}"
        )
