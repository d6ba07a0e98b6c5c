"""Kernels that tell of their accesses: what an observer hears, of either backend, in the order of the program."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from emu.tile import cpu, observing, reference
from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import MEMORY, Code, Rmw
from emu.tile.passes.observe_accesses import ATOMIC, BARRIER, END, LOAD, STORE, observe_accesses
from emu.tile.types import F32, I32, I64, Pointer


def _kernel() -> Module:
    x, count = Value(Pointer(F32)), Value(Pointer(I32))
    body = Region([x, count])
    build = Builder(body)
    lanes = build.arange(0, 4)
    at = build.ptr_add(build.splat(x, (4,)), lanes)
    limit = build.splat(build.constant(3, I32), (4,))
    mask = build.compare(Code.LT, lanes, limit)
    value = build.load(at, mask)
    build.store(at, value, mask)
    build.atomic_rmw(Rmw.ADD, count, build.constant(1, I32), order={"order": "release"})
    build.atomic_cas(count, build.constant(9, I32), build.constant(2, I32))
    build.barrier()
    build.return_()
    return Module({"kernel": Function("kernel", body)})


@pytest.mark.parametrize("how", ["cpu", "reference"])
def test_an_observer_hears_of_each_access(how: str) -> None:
    module = _kernel()
    sites = observe_accesses(module, {o for o in module.kernel.body.walk() if o.code in MEMORY})
    assert [s.kind for s in sites] == [LOAD, STORE, ATOMIC, ATOMIC, BARRIER, END]
    assert [s.order for s in sites[:4]] == ["", "", "release", "acq_rel"]
    assert [s.may_fail for s in sites[:4]] == [False, False, False, True]
    x, count = np.arange(4, dtype=np.float32) + 1, np.zeros(1, np.int32)
    heard: list[tuple[Any, ...]] = []

    def observe(site: int, record: int) -> None:
        words = (ctypes.c_int64 * 8).from_address(record)
        told: list[Any] = [site, words[0]]
        access = sites[site].access
        lanes = int(np.prod(access.shape))
        if access.size:
            addresses = np.frombuffer(ctypes.string_at(words[4], 8 * lanes), np.int64)
            told.append(
                (addresses - (count if sites[site].kind == ATOMIC else x).ctypes.data).tolist()
            )
        if access.is_masked:
            told.append(list(ctypes.string_at(words[5], lanes)))
        if sites[site].kind == STORE:
            told.append(
                np.frombuffer(ctypes.string_at(words[6], 4 * lanes), np.float32).tolist()[:3]
            )
        if sites[site].may_fail:
            told.append(list(ctypes.string_at(words[5], 1)))
        heard.append(tuple(told))

    with observing.observing(observe) as number:
        values = [x.ctypes.data, count.ctypes.data, number]
        if how == "cpu":
            cpu.compile(module).bind(1)(2, 1, 1, values)
        else:
            reference.run(module, values, (2,))
    wanted = []
    for program in range(2):
        wanted += [
            (0, program, [0, 4, 8, 12], [1, 1, 1, 0]),
            (1, program, [0, 4, 8, 12], [1, 1, 1, 0], [1.0, 2.0, 3.0]),
            (2, program, [0]),
            (3, program, [0], [0]),
            (4, program),
            (5, program),
        ]
    assert heard == wanted
    assert not observing._observers


def test_the_number_of_the_observer_is_an_argument_behind_the_others() -> None:
    module = _kernel()
    before = len(module.kernel.body.arguments)
    observe_accesses(module, ())
    assert len(module.kernel.body.arguments) == before + 1
    assert module.kernel.body.arguments[-1].type == I64
