"""Bytes that a PE moves to and from each other one by puts, gets, signals, atomic operations and collectives."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
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
        self._is_inside = False
        self._classes: dict[type[Any], type[Any]] = {}

    def watch(self, world: World) -> None:
        """Note what the program, and its kernels, do with a World from now on."""
        Counting.moved = self.add
        # The World was made before anybody knew of this: its class is replaced by one that does the same and notes it.
        world.__class__ = self.counted(type(world))

    def add(self, source: int, target: int, nbytes: int) -> None:
        """Note a transfer that no method of the World makes."""
        self.bytes[source, target] += nbytes

    def counted(self, kind: type[Any]) -> type[Any]:
        """Return the class of groups that do what those of ``kind`` do, and note the bytes; one for each."""
        found = self._classes.get(kind)
        if found is not None:
            return found
        methods: dict[str, Any] = {}
        for name in (*_STORES, *_FETCHES, *_SIGNALLED, *_WORDS, *_WORDS_NBI, *_COLLECTIVES):
            method = getattr(kind, name)
            methods[name] = self._noting(method, self._note_of(name, _arguments(kind, name)))
        for name in _GROUP_TYPES:
            if hasattr(kind, name):
                methods[name] = self.counted(getattr(kind, name))
        # Calls of kernels go through the methods, those of a World that is recorded, too.
        methods["native_kernel_calls"] = None
        found = self._classes[kind] = type(f"Counted{kind.__name__}", (kind,), methods)
        return found

    def _noting(self, method: Any, note: _Note) -> Any:
        @functools.wraps(method)
        def noting(group: Any, *args: Any, **named: Any) -> Any:
            if self._is_inside:  # one method calls another
                return method(group, *args, **named)
            self._is_inside = True
            try:
                result = method(group, *args, **named)
            finally:
                self._is_inside = False
            note(group, args, named, result)
            return result

        return noting

    def _note_of(self, name: str, arguments: Mapping[str, _Argument]) -> _Note:
        """Return what notes a call of a method that is over, and was given arguments that fit."""
        if name in _COLLECTIVES:
            return self._note_of_collective(name, arguments)
        pe_of = arguments["pe"]
        if name in _STORES or name in _SIGNALLED:
            return self._note_of_store(arguments)
        moved = self.bytes
        if name in _FETCHES:
            out_of = arguments.get("out", _nothing)

            def fetched(group: Any, args: Any, named: Any, result: Any) -> None:
                array = out_of(args, named) if result is None else result
                members = group.members
                pair = members[pe_of(args, named)], members[group.my_pe]
                moved[pair] += int(getattr(array, "nbytes", 0))

            return fetched
        word_of = arguments.get("signal") or arguments["target"]

        def changed(group: Any, args: Any, named: Any, result: Any) -> None:
            members = group.members
            pair = members[group.my_pe], members[pe_of(args, named)]
            moved[pair] += int(word_of(args, named).itemsize)

        return changed

    def _note_of_store(self, arguments: Mapping[str, _Argument]) -> _Note:
        moved = self.bytes
        source_of, target_of, pe_of = (arguments[name] for name in ("src", "dst", "pe"))
        signal_of = arguments.get("signal", _nothing)

        def stored(group: Any, args: Any, named: Any, result: Any) -> None:
            source, signal = source_of(args, named), signal_of(args, named)
            size = source.size if isinstance(source, np.ndarray) else np.size(source)
            nbytes = int(size) * target_of(args, named).itemsize
            members = group.members
            pair = members[group.my_pe], members[pe_of(args, named)]
            moved[pair] += nbytes if signal is None else nbytes + signal.itemsize

        return stored

    def _note_of_collective(self, name: str, arguments: Mapping[str, _Argument]) -> _Note:
        given = {each: arguments[each] for each in _OF_COLLECTIVES if each in arguments}

        def together(group: Any, args: Any, named: Any, result: Any) -> None:
            values = {each: find(args, named) for each, find in given.items()}
            for pe, nbytes in pairs_of(_called(name, group, values)):
                self.bytes[group.members[group.my_pe], group.members[pe]] += nbytes

        return together


_Argument = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Returns an argument of a call, given those by place (without the group) and those by name."""

_Note = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
"""Notes a call: the group, arguments by place and by name, the result."""

_OF_COLLECTIVES = ("array", "root", "pairs", "send_counts")


def _nothing(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return an argument that a method does not have."""
    return None


def _arguments(kind: type[Any], name: str) -> dict[str, _Argument]:
    """Return what finds each argument of a method in a call.

    A class that only passes arguments on, as one that records may, does not name them: the one before it does.
    """
    import inspect

    methods = [vars(each)[name] for each in kind.__mro__ if name in vars(each)]
    signatures = [inspect.signature(method) for method in methods]
    named = next(s for s in signatures if not _passes_on(s))
    _, *parameters = named.parameters.values()
    found = {}
    for place, each in enumerate(parameters):
        by_place = each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if each.default is inspect.Parameter.empty else each.default
        found[each.name] = _finder(each.name, place if by_place else None, default)
    return found


def _passes_on(signature: Any) -> bool:
    """Return whether a method takes any arguments."""
    return any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())


def _finder(name: str, place: int | None, default: Any) -> _Argument:
    if place is None:
        return lambda args, named: named.get(name, default)
    return lambda args, named: args[place] if len(args) > place else named.get(name, default)


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


def describe(moved: Counter[tuple[int, int]], n_pes: int) -> str:
    """Return bytes by pair as a matrix: a row for each PE that they come from."""
    lines = ["bytes " + "".join(f"{f'to PE {pe}':>16}" for pe in range(n_pes))]
    for source in range(n_pes):
        row = "".join(f"{moved[source, target]:>16,}" for target in range(n_pes))
        lines.append(f"{f'PE {source}':<6}{row}")
    return "\n".join(lines)
