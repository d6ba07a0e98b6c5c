"""Bytes that a collective takes from one member to another.

They follow from what the collective means, not from how it is done: each byte that a member needs of another one, once. A reduction of
n elements is cut into as equal parts as there are members: each gets the others' values of its part, and an ``all_reduce``
gives the reduced part to all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Collective(NamedTuple):
    """A collective as one member calls it.

    Attributes:
        name: Its name, as a method of a group.
        my_pe: This member.
        n_pes: How many there are.
        elements: Elements of this member's array.
        itemsize: Bytes of an element.
        detail: For ``all_to_all_v`` the elements for each member; for ``permute`` the members that this one sends to.
        root: Of those that have one.
    """

    name: str
    my_pe: int
    n_pes: int
    elements: int
    itemsize: int
    detail: Sequence[int] = ()
    root: int = 0


def pairs_of(call: Collective) -> Iterator[tuple[int, int]]:
    """Yield the other members that this one sends to, and the bytes."""
    for pe in range(call.n_pes):
        elements = 0 if pe == call.my_pe else _sent(call, pe)
        if elements:
            yield pe, elements * call.itemsize


def _sent(call: Collective, pe: int) -> int:
    """Return the elements that this member sends to another one."""
    name, whole = call.name, call.elements
    if name == "all_gather":
        return whole
    if name in ("all_to_all", "reduce_scatter"):
        return whole // call.n_pes
    if name == "all_reduce":
        return _share(call, pe) + _share(call, call.my_pe)
    if name == "all_to_all_v":
        return call.detail[pe]
    if name == "permute":
        return whole if pe in call.detail else 0
    if name == "gather":
        return whole if pe == call.root else 0
    if call.my_pe != call.root:
        return 0
    return whole if name == "broadcast" else whole // call.n_pes  # scatter


def _share(call: Collective, pe: int) -> int:
    """Return the elements that a member reduces."""
    whole, rest = divmod(call.elements, call.n_pes)
    return whole + (pe < rest)
