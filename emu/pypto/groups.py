"""Groups of PEs by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.kernels.core.messages import shown
from emu.pypto.context import CONTEXT
from emu.pypto.errors import ArgumentError, GroupError
from emu.pypto.symbolic import SymbolicScalar, as_int

if TYPE_CHECKING:
    from emu.comm.world.group import Group

MAX_NAME = 128


def check_name(group_name: object) -> str:
    """Check a name of 1 to 128 characters, and return it."""
    if not isinstance(group_name, str):
        raise ArgumentError(f"group_name must be a str, but got {shown(group_name)}")
    if not 1 <= len(group_name) <= MAX_NAME:
        raise ArgumentError(
            f"group_name must have 1 to {MAX_NAME} characters, but got {len(group_name)}: "
            f"{group_name[:40]!r}"
        )
    if "\0" in group_name or not _encodable(group_name):
        raise ArgumentError(
            f"group_name must be text without NUL and lone surrogates, but got {group_name!r}"
        )
    return group_name


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_group(group_name: str) -> Group:
    """Return the group of this name; a name never given to a group means all PEs.

    Raises:
        ArgumentError: If it is not a name.
        GroupError: If this PE is not a member.
    """
    known = CONTEXT.groups.get(group_name) if isinstance(group_name, str) else None
    if known is not None:
        return known
    name = check_name(group_name)
    from emu.comm.errors import ArgumentError as CommArgumentError
    from emu.comm.errors import UnknownGroupError
    from emu.comm.world.current import world

    everyone = world()
    try:
        group = CONTEXT.groups[name] = everyone.group(name)
    except UnknownGroupError:
        return everyone  # not remembered: the program may still give the name to a group
    except CommArgumentError as error:
        raise GroupError(
            f"this PE must be a member of group {name!r}, but PE {everyone.my_pe} is not: {error}"
        ) from None
    return group


def group_of(group_name: str, n_pes: object) -> Group:
    """Return the group for a create of ``n_pes`` PEs.

    Raises:
        ArgumentError: If ``n_pes`` is not positive, or not that of an earlier create.
        GroupError: If the group has another number of PEs.
    """
    name, count = check_name(group_name), as_int(n_pes, "n_pes")
    if count < 1:
        raise ArgumentError(f"n_pes must be at least 1, but got {count}")
    before = CONTEXT.group_sizes.get(name)
    if before not in (None, count):
        raise ArgumentError(
            f"n_pes must be equal for every create of group {name!r}, {before} so far, but got {count}"
        )
    group = find_group(name)
    if group.n_pes != count:
        raise GroupError(
            f"n_pes must be {group.n_pes}, the number of PEs of group {name!r}, but got {count}; "
            + _remedy(name, count)
        )
    CONTEXT.group_sizes[name] = count
    CONTEXT.groups[name] = group
    return group


def _remedy(name: str, count: int) -> str:
    from emu.comm.world.current import world

    if count > world().n_pes:
        return f"start as many PEs as the program is written for, as in emu run -n {count}"
    if name in CONTEXT.groups:
        return "that is what its members were given when it was made"
    return (
        "a name not yet given to a group means all PEs; its members make one beforehand, for "
        f'instance with emu.world().group("{name}", {list(range(count))})'
    )


def my_symbolic_pe(group_name: str) -> SymbolicScalar:
    """Return this PE's number in a group.

    Raises:
        GroupError: If this PE is not a member.
    """
    return SymbolicScalar(find_group(group_name).my_pe)
