"""NVSHMEM's and rocSHMEM's device functions by symbol, for programs that call them through ``extern_elementwise``.

``torch.distributed._symmetric_memory`` and others name the functions of these libraries, which are called by a block of
threads; addresses are int64. Here each is what the device API does. A symbol is known when a kernel first calls it:
families of them (a reduction for each dtype) are made from their parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from emu.comm.ops import Cmp
from emu.comm.sync import signal_numbers
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.triton.language import types
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
_REDUCTION = re.compile(
    r"(?:nv|roc)shmemx?_(\w+?)_(sum|prod|min|max|and|or|xor)_reduce(?:_block|_wg|_warp)?"
)
_SCOPE = re.compile(r"_(?:block|warp|wg|wave)$")
"""How many threads call a function together: here it is always one program."""


def find_symbol(symbol: str) -> Body | None:
    """Return the function that a symbol of one of the two libraries stands for; None: it is none."""
    library, _, name = symbol.partition("_")
    if library not in ("nvshmem", "nvshmemx", "rocshmem"):
        return None
    reduction = _REDUCTION.fullmatch(symbol)
    if reduction is not None and reduction[1] in _ELEMENTS:
        return _reduce(_ELEMENTS[reduction[1]], reduction[2])
    table = _ROCSHMEM if library == "rocshmem" else _NVSHMEM
    return table.get(_SCOPE.sub("", name).replace("_nbi", ""))


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


def _barrier(team: tensor) -> tensor:
    device.barrier(team)
    return _done()


def _broadcastmem(team: tensor, dst: tensor, src: tensor, nbytes: tensor, root: tensor) -> tensor:
    collectives.broadcast(_at(dst), _at(src), nbytes, root, team)
    return _done()


def _alltoallmem(team: tensor, dst: tensor, src: tensor, nbytes: tensor) -> tensor:
    collectives.all_to_all(_at(dst), _at(src), nbytes, team)
    return _done()


def _fcollectmem(team: tensor, dst: tensor, src: tensor, nbytes: tensor) -> tensor:
    collectives.all_gather(_at(dst), _at(src), nbytes, team)
    return _done()


def _reduce(element: dtype, op: str) -> Body:
    def reduce(team: tensor, dst: tensor, src: tensor, count: tensor) -> tensor:
        collectives.reduce(_at(dst, element), _at(src, element), count, op, team)
        return _done()

    return reduce


def _peer_address(address: tensor, pe: tensor) -> tensor:
    """Return the address of a peer's memory (``shmem_ptr``)."""
    return cast_to(device.remote(_at(address), pe), address.dtype)


_BOTH: dict[str, Body] = {
    "my_pe": device.my_pe,
    "n_pes": device.n_pes,
    "team_my_pe": device.my_pe,
    "team_n_pes": device.n_pes,
    "ptr": _peer_address,
    "putmem": _putmem,
    "getmem": _getmem,
    "fence": _fence,
    "quiet": _quiet,
    "barrier_all": _barrier_all,
    "sync_all": _barrier_all,
    "barrier": _barrier,
    "sync": _barrier,
    "team_sync": _barrier,
    "broadcastmem": _broadcastmem,
    "alltoallmem": _alltoallmem,
    "fcollectmem": _fcollectmem,
}
_WORDS = {
    "int": types.int32,
    "int32": types.int32,
    "uint32": types.uint32,
    "int64": types.int64,
    "uint64": types.uint64,
}
_NVSHMEM = {
    **_BOTH,
    **_signals(_NVSHMEM_SIGNALS),
    **_waits(_NVSHMEM_COMPARISONS, {**_WORDS, "signal": types.uint64}),
}
_ROCSHMEM = {
    **_BOTH,
    **_signals(_ROCSHMEM_SIGNALS),
    **_waits(_ROCSHMEM_COMPARISONS, {**_WORDS, "signal": types.uint64}),
}
