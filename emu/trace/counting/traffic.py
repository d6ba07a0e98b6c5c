"""Bytes that a PE moves to and from each other one by puts, gets, signals, atomic operations and collectives."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np

from emu.comm.world.array import SymmetricArray
from emu.comm.world.world import World
from emu.tile.counting.state import Counting
from emu.trace.counting.collectives import Collective, pairs_of

_STORES = ("put", "put_nbi")
_FETCHES = ("get", "get_nbi")
_SIGNALLED = ("put_signal", "put_signal_nbi")
_WORDS = ("signal_op", "fetch_add", "swap", "compare_swap", "fetch")
_GROUP_TYPES = ("_group_type", "_spanning_type", "_here_type")
"""Attributes of a World that name the classes of its groups."""
_COLLECTIVES = (
    *("broadcast", "scatter", "gather", "all_gather", "all_to_all", "all_to_all_v", "permute"),
    *("all_reduce", "reduce_scatter"),
)
_WORDS_NBI = ("fetch_add_nbi", "swap_nbi", "compare_swap_nbi", "fetch_nbi")


class Traffic:
    """Bytes by (from PE, to PE).

    Attributes:
        bytes: They.
    """

    def __init__(self) -> None:
        self.bytes: Counter[tuple[int, int]] = Counter()
        self._depth = 0

    def watch(self, world: World) -> None:
        """Note what the program, and its kernels, do with a World from now on."""
        Counting.moved = self.add
        # The World was made before anybody knew of this: its class is replaced by one that does the same and notes it. Calls of
        # kernels then go through its methods, too.
        world.__class__ = self._watched(type(world))

    def add(self, source: int, target: int, nbytes: int) -> None:
        """Note a transfer that no method of the World makes."""
        self.bytes[source, target] += nbytes

    def _watched(self, kind: type[Any]) -> type[Any]:
        methods: dict[str, Any] = {}
        for name in (*_STORES, *_FETCHES, *_SIGNALLED, *_WORDS, *_WORDS_NBI, *_COLLECTIVES):
            methods[name] = self._noting(name, getattr(kind, name))
        for name in _GROUP_TYPES:
            if hasattr(kind, name):
                methods[name] = self._watched(getattr(kind, name))
        return type(f"Counted{kind.__name__}", (kind,), methods)

    def _noting(self, name: str, method: Any) -> Any:
        @functools.wraps(method)
        def noting(group: Any, *args: Any, **named: Any) -> Any:
            self._depth += 1  # one method may call another
            try:
                result = method(group, *args, **named)
            finally:
                self._depth -= 1
            if not self._depth:
                self._note(name, group, _bound(method, group, args, named), result)
            return result

        return noting

    def _note(self, name: str, group: Any, given: dict[str, Any], result: Any) -> None:
        if name in _COLLECTIVES:
            for pe, nbytes in pairs_of(_called(name, group, given)):
                self.bytes[group.members[group.my_pe], group.members[pe]] += nbytes
            return
        me, other = group.members[group.my_pe], group.members[given["pe"]]
        if name in _STORES or name in _SIGNALLED:
            nbytes = int(np.size(given["src"])) * given["dst"].itemsize
            if name in _SIGNALLED:
                nbytes += given["signal"].itemsize
            self.bytes[me, other] += nbytes
        elif name in _FETCHES:
            fetched = given.get("out") if result is None else result
            self.bytes[other, me] += int(getattr(fetched, "nbytes", 0))
        else:
            word = given.get("signal", given.get("target"))
            self.bytes[me, other] += int(getattr(word, "itemsize", 0))


def _called(name: str, group: Any, given: dict[str, Any]) -> Collective:
    """Return a collective as this member has called it."""
    array = given.get("array")
    if isinstance(array, SymmetricArray):
        array = array.local
    elements, itemsize = (0, 1) if array is None else (np.size(array), array.itemsize)
    me, detail = group.my_pe, []
    if name == "permute":
        detail = [target for source, target in given["pairs"] if source == me]
    elif name == "all_to_all_v":
        row = int(np.prod(array.shape[1:])) if array is not None else 0
        detail = [int(n) * row for n in given["send_counts"]]
    return Collective(name, me, group.n_pes, elements, itemsize, detail, given.get("root", 0))


def _bound(method: Any, group: Any, args: Any, named: Any) -> dict[str, Any]:
    """Return the arguments of a call by name; it has been made, so that they fit."""
    return dict(_signature(method).bind(group, *args, **named).arguments)


@functools.cache
def _signature(method: Any) -> Any:
    import inspect

    return inspect.signature(method)


def describe(moved: Counter[tuple[int, int]], n_pes: int) -> str:
    """Return bytes by pair as a matrix: a row for each PE that they come from."""
    lines = ["bytes " + "".join(f"{f'to PE {pe}':>16}" for pe in range(n_pes))]
    for source in range(n_pes):
        row = "".join(f"{moved[source, target]:>16,}" for target in range(n_pes))
        lines.append(f"{f'PE {source}':<6}{row}")
    return "\n".join(lines)
