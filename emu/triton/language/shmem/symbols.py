"""NVSHMEM's and rocSHMEM's device functions by symbol, for programs that call them through ``extern_elementwise``.

``torch.distributed._symmetric_memory`` and others name the functions of these libraries, which are called by a block of
threads; addresses are int64. Here each is what the device API does. A symbol is known when a kernel first calls it:
families of them (a reduction for each dtype) are made from their parts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from emu.comm.ops import Cmp
from emu.comm.sync import signal_numbers
from emu.tile.ir import Region, Value
from emu.tile.ops import Code
from emu.triton.language import threads, types
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.shmem import collectives, device, machine
from emu.triton.language.types import dtype, int32, pointer_type, uint8
from emu.triton.language.values import tensor

Body = Callable[..., tensor]

_NVSHMEM_COMPARISONS = (Cmp.EQ, Cmp.NE, Cmp.GT, Cmp.LE, Cmp.LT, Cmp.GE)
_ROCSHMEM_COMPARISONS = (Cmp.EQ, Cmp.NE, Cmp.GT, Cmp.GE, Cmp.LT, Cmp.LE)
_CODES = {
    Cmp.EQ: Code.EQ,
    Cmp.NE: Code.NE,
    Cmp.GT: Code.GT,
    Cmp.GE: Code.GE,
    Cmp.LT: Code.LT,
    Cmp.LE: Code.LE,
}

# The library's numbers are 9 and 10; torch's documentation says 0 and 5.
_NVSHMEM_SIGNALS = {
    9: signal_numbers.SET,
    0: signal_numbers.SET,
    10: signal_numbers.ADD,
    5: signal_numbers.ADD,
}
_ROCSHMEM_SIGNALS = {0: signal_numbers.SET, 1: signal_numbers.ADD}

_ELEMENTS: dict[str, dtype] = {
    "int8": types.int8,
    "int16": types.int16,
    "int32": types.int32,
    "int64": types.int64,
    "uint8": types.uint8,
    "uint16": types.uint16,
    "uint32": types.uint32,
    "uint64": types.uint64,
    "half": types.float16,
    "bfloat16": types.bfloat16,
    "float": types.float32,
    "double": types.float64,
}
_REDUCTION = re.compile(r"(sum|prod|min|max|and|or|xor)_reduce")
_COUNTED = ("broadcast", "fcollect", "alltoall")
_TEAMS = {1: "node", 2: "node", 3: "same_place"}
"""NVSHMEM's own teams, and the machine words that hold their groups: of those that share memory, the node's, those at the
same place of each node."""
_LEADERS = 5
"""Its team of devices' leaders: all."""
_SCOPE = re.compile(r"_(?:block|warp|wg|wave)$")
"""How many threads call a function together: here it is always one program."""
_WARP = re.compile(r"_(?:warp|wave)$")


class _Library(NamedTuple):
    """What differs between the two libraries.

    Attributes:
        comparisons: Comparisons by their numbers.
        signals: What the numbers of signals' operations stand for.
        team: Returns the number of a team as the device API has it.
    """

    comparisons: tuple[Cmp, ...]
    signals: Mapping[int, int]
    team: Callable[[tensor], tensor]


def find_symbol(symbol: str) -> Body | None:
    """Return the function that a symbol of one of the two libraries stands for; None: it is none."""
    prefix, _, name = symbol.partition("_")
    if prefix not in ("nvshmem", "nvshmemx", "nvshmemi", "rocshmem"):
        return None
    library = _ROCSHMEM_LIBRARY if prefix == "rocshmem" else _NVSHMEM_LIBRARY
    table = _ROCSHMEM if prefix == "rocshmem" else _NVSHMEM
    body = _find(_SCOPE.sub("", name).replace("_nbi", ""), table, library)
    return _of_one_lane(body) if body is not None and _WARP.search(name) else body


def _find(name: str, table: Mapping[str, Body], library: _Library) -> Body | None:
    kind, _, rest = name.partition("_")
    if kind in _ELEMENTS:
        op = _REDUCTION.fullmatch(rest)
        if op is not None:
            return _reduce(_ELEMENTS[kind], op[1], library.team)
        if rest in _COUNTED:
            return _of_elements(_ELEMENTS[kind], table, rest)
    return table.get(name)


def _of_one_lane(body: Body) -> Body:
    """Return a function that a warp calls together: where threads run one after the other, its first one does it."""

    @functools.wraps(body)
    def once(*operands: tensor) -> tensor:
        if threads.state().index is None:
            return body(*operands)
        emit, first, others = builder(), Region(), Region()
        is_first = (threads.lane_index() == 0).handle
        with emit.into(first):
            emit.yield_(body(*operands).handle)
        with emit.into(others):
            emit.yield_(_done().handle)
        return tensor(emit.if_(is_first, first, others)[0], int32)

    return once


def _done() -> tensor:
    """Return the status of a function that has not failed."""
    return to_tensor(0).to(int32)


def _at(address: tensor, element: dtype = uint8) -> tensor:
    return cast_to(address, pointer_type(element))


def _putmem(dst: tensor, src: tensor, nbytes: tensor, pe: tensor) -> tensor:
    device.put(_at(dst), _at(src), nbytes, pe)
    return _done()


def _getmem(dst: tensor, src: tensor, nbytes: tensor, pe: tensor) -> tensor:
    device.get(_at(dst), _at(src), nbytes, pe)
    return _done()


def _chosen(value: tensor, known: Mapping[int, int], name: str) -> Value:
    """Return what a number stands for, i64, after a check that it stands for something."""
    emit, given = builder(), machine.integer(value, name)
    found, is_known = machine.number(0), emit.compare(Code.NE, given, given)
    for number, meaning in known.items():
        here = emit.compare(Code.EQ, given, machine.number(number))
        found = emit.select(here, machine.number(meaning), found)
        is_known = emit.binary(Code.OR, is_known, here)
    said = ", ".join(map(str, known))
    machine.demand(is_known, f"{name} must be one of {said}", {name: given})
    return found


def _signals(known: Mapping[int, int]) -> dict[str, Body]:
    def putmem_signal(
        dst: tensor,
        src: tensor,
        nbytes: tensor,
        flag: tensor,
        value: tensor,
        op: tensor,
        pe: tensor,
    ) -> tensor:
        how = _at(flag, types.uint64), value, _chosen(op, known, "sig_op")
        device.put_signal_by(_at(dst), _at(src), nbytes, how, pe)
        return _done()

    def signal_op(flag: tensor, value: tensor, op: tensor, pe: tensor) -> tensor:
        device.signal_by(_at(flag, types.uint64), value, pe, _chosen(op, known, "sig_op"))
        return _done()

    return {"putmem_signal": putmem_signal, "signal_op": signal_op}


def _waits(comparisons: tuple[Cmp, ...], kinds: Mapping[str, dtype]) -> dict[str, Body]:
    def wait(element: dtype) -> Body:
        def wait_until(flag: tensor, cmp: tensor, value: tensor) -> tensor:
            known = {number: int(which) for number, which in enumerate(comparisons)}
            chosen = _chosen(cmp, known, "cmp")

            def holds(seen: Value, wanted: Value) -> Value:
                emit = builder()
                found = emit.compare(Code.EQ, seen, wanted)
                for which, code in _CODES.items():
                    here = emit.compare(Code.EQ, chosen, machine.number(int(which)))
                    found = emit.select(here, emit.compare(code, seen, wanted), found)
                return found

            device.wait(_at(flag, element), chosen, value, holds)
            return _done()

        return wait_until

    return {f"{name}_wait_until": wait(element) for name, element in kinds.items()}


def _fence() -> tensor:
    device.fence()
    return _done()


def _quiet() -> tensor:
    device.quiet()
    return _done()


def _barrier_all() -> tensor:
    device.barrier()
    return _done()


def _nvshmem_team(team: tensor) -> tensor:
    """Return the number of a team as the device API has it: NVSHMEM's own have numbers of their own."""
    emit, given = builder(), machine.integer(team, "team")
    meant = {number: machine.read(word) for number, word in _TEAMS.items()}
    meant[_LEADERS] = machine.number(machine.WORLD)
    found = given
    for number, group in meant.items():
        here = emit.compare(Code.EQ, given, machine.number(number))
        found = emit.select(here, group, found)
    return machine.typed(found, types.int32)


def _of_teams(team_of: Callable[[tensor], tensor]) -> dict[str, Body]:
    """Return the functions that take a team, which ``team_of`` translates."""

    def barrier(team: tensor) -> tensor:
        device.barrier(team_of(team))
        return _done()

    def broadcastmem(
        team: tensor, dst: tensor, src: tensor, nbytes: tensor, root: tensor
    ) -> tensor:
        collectives.broadcast(_at(dst), _at(src), nbytes, root, team_of(team))
        return _done()

    def alltoallmem(team: tensor, dst: tensor, src: tensor, nbytes: tensor) -> tensor:
        collectives.all_to_all(_at(dst), _at(src), nbytes, team_of(team))
        return _done()

    def fcollectmem(team: tensor, dst: tensor, src: tensor, nbytes: tensor) -> tensor:
        collectives.all_gather(_at(dst), _at(src), nbytes, team_of(team))
        return _done()

    def team_translate_pe(source: tensor, pe: tensor, target: tensor) -> tensor:
        member = machine.integer(team_of(target), "dest_team")
        machine.demand(
            builder().compare(Code.EQ, member, machine.number(machine.WORLD)),
            "dest_team must be a team of all PEs",
            {"dest_team": member, "my_pe": machine.read("my_pe")},
        )
        return device.world_pe(pe, team_of(source))

    return {
        "team_my_pe": lambda team: device.my_pe(team_of(team)),
        "team_n_pes": lambda team: device.n_pes(team_of(team)),
        "team_translate_pe": team_translate_pe,
        **dict.fromkeys(("barrier", "sync", "team_sync"), barrier),
        "broadcastmem": broadcastmem,
        "alltoallmem": alltoallmem,
        "fcollectmem": fcollectmem,
    }


def _of_elements(element: dtype, table: Mapping[str, Body], name: str) -> Body | None:
    """Return a collective that counts elements, made of the one that counts bytes; None: there is none."""
    by_bytes = table.get(f"{name}mem")
    if by_bytes is None:
        return None
    width = element.primitive_bitwidth // 8

    def collective(team: tensor, dst: tensor, src: tensor, count: tensor) -> tensor:
        return by_bytes(team, dst, src, count.to(types.int64) * width)

    def rooted(team: tensor, dst: tensor, src: tensor, count: tensor, root: tensor) -> tensor:
        return by_bytes(team, dst, src, count.to(types.int64) * width, root)

    return rooted if name == "broadcast" else collective


def _reduce(element: dtype, op: str, team_of: Callable[[tensor], tensor]) -> Body:
    def reduce(team: tensor, dst: tensor, src: tensor, count: tensor) -> tensor:
        collectives.reduce(_at(dst, element), _at(src, element), count, op, team_of(team))
        return _done()

    return reduce


def _single(element: dtype) -> Body:
    """Return the function that stores one element on a PE (``shmem_p``)."""

    def p(dst: tensor, value: tensor, pe: tensor) -> tensor:
        device.store(_at(dst, element), value, pe)
        return _done()

    return p


def _peer_address(address: tensor, pe: tensor) -> tensor:
    """Return the address of a peer's memory (``shmem_ptr``)."""
    return cast_to(device.remote(_at(address), pe), address.dtype)


_BOTH: dict[str, Body] = {
    "my_pe": device.my_pe,
    "n_pes": device.n_pes,
    "ptr": _peer_address,
    "putmem": _putmem,
    "getmem": _getmem,
    "fence": _fence,
    "quiet": _quiet,
    "barrier_all": _barrier_all,
    "sync_all": _barrier_all,
    **{f"{name}_p": _single(element) for name, element in {**_ELEMENTS, "int": int32}.items()},
}
_WORDS = {
    "int": types.int32,
    "int32": types.int32,
    "uint32": types.uint32,
    "int64": types.int64,
    "uint64": types.uint64,
    "signal": types.uint64,
}


def _table(library: _Library) -> dict[str, Body]:
    made = {**_BOTH, **_of_teams(library.team), **_signals(library.signals)}
    # What NVSHMEM calls its transport's own, which some libraries name.
    made["transfer_rma_put"], made["transfer_put_signal"] = made["putmem"], made["putmem_signal"]
    return {**made, **_waits(library.comparisons, _WORDS)}


_NVSHMEM_LIBRARY = _Library(_NVSHMEM_COMPARISONS, _NVSHMEM_SIGNALS, _nvshmem_team)
_ROCSHMEM_LIBRARY = _Library(_ROCSHMEM_COMPARISONS, _ROCSHMEM_SIGNALS, lambda team: team)
_NVSHMEM, _ROCSHMEM = _table(_NVSHMEM_LIBRARY), _table(_ROCSHMEM_LIBRARY)
