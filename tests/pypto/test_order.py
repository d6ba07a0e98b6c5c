"""Missing preds are found in one run, whatever the order was, and named; what is ordered is not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest

import emu
import emu.pypto as p
from emu.check import CheckError, Race
from emu.pypto import distributed as d

N_PES = 2


def _peer() -> int:
    return 1 - int(d.my_symbolic_pe("tp"))


def _memory() -> d.ShmemTensor:
    data = d.create_shmem_tensor("tp", N_PES, p.DT_FP32, [4, 4])
    p.set_vec_tile_shapes(2, 4)
    return data


def _ones() -> p.Tensor:
    return p.full([4, 4], 1.0, p.DT_FP32)


@p.frontend.jit
def get_without_wait(out):
    data, peer = _memory(), _peer()
    stored = d.shmem_put(_ones(), [0, 0], data, peer)
    d.shmem_signal(data, 0, 1, target_pe=peer, pred=[stored])
    d.shmem_wait_until(data, 0, 1)  # earlier
    out[:, :] = d.shmem_get(data, 1 - peer)  # later


@p.frontend.jit
def signal_without_put(out):
    data, peer = _memory(), _peer()
    d.shmem_put(_ones(), [0, 0], data, peer)  # earlier
    d.shmem_signal(data, 0, 1, target_pe=peer)  # later
    came = d.shmem_wait_until(data, 0, 1)
    out[:, :] = d.shmem_get(data, 1 - peer, pred=[came])


@p.frontend.jit
def get_of_own_memory(out):
    data, peer = _memory(), _peer()
    d.shmem_put(_ones(), [0, 0], data, 1 - peer)  # earlier
    out[:, :] = d.shmem_get(data, 1 - peer)  # later


@p.frontend.jit
def barrier_without_put(out):
    data, peer = _memory(), _peer()
    d.shmem_put(_ones(), [0, 0], data, peer)  # earlier
    met = d.shmem_barrier_all(data)  # later
    out[:, :] = d.shmem_get(data, 1 - peer, pred=[met])


@p.frontend.jit
def put_before_others_have_read(out):
    data, peer = _memory(), _peer()
    ready = d.create_shmem_signal("tp", N_PES)
    stored = d.shmem_put(_ones(), [0, 0], data, peer)
    d.shmem_signal(data, 0, 1, target_pe=peer, pred=[stored])
    came = d.shmem_wait_until(data, 0, 1, clear_signal=True)
    seen = d.shmem_get(data, 1 - peer, pred=[came])
    d.shmem_signal(ready, 0, 1, target_pe=peer, pred=[seen])
    d.shmem_wait_until(ready, 0, 1)  # earlier
    again = d.shmem_put(seen, [0, 0], data, peer)  # later
    d.shmem_signal(data, 1, 1, target_pe=peer, pred=[again])
    back = d.shmem_wait_until(data, 1, 1)
    out[:, :] = d.shmem_get(data, 1 - peer, pred=[back])


@p.frontend.jit
def all_is_ordered(out):
    """By preds, by local ops, by writes of what was read, and by scalars that the program reads."""
    data, peer = _memory(), _peer()
    more = d.create_shmem_tensor("tp", N_PES, p.DT_INT32, [4, 4])
    source = _ones()
    stored = d.shmem_put(source, [0, 0], data, peer)
    source[:, :] = p.full([4, 4], 2.0, p.DT_FP32)  # when the put has read it
    d.shmem_signal(data, 0, 1, target_pe=peer, pred=[source])
    came = d.shmem_wait_until(data, 0, 1, pred=[stored])
    half = d.shmem_get(data, 1 - peer, [2, 4], [0, 0], pred=[came])
    total = p.add(half, d.shmem_get(data, 1 - peer, [2, 4], [2, 0], pred=[came]))
    number = p.cast(total, p.DT_INT32)
    met = d.shmem_barrier_all(data, pred=[number])
    stored = d.shmem_put(number, [0, 0], more, peer, pred=[met])
    d.shmem_signal(more, 1, 1, target_pe=peer, pred=[stored])
    d.shmem_get(more, 1 - peer, pred=[d.shmem_wait_until(more, 1, 1)])
    if int(number[0, 0]) == 2:  # what follows is made when the sum is there
        out[:2, :] = d.shmem_get(data, 1 - peer, [2, 4])


def _run(kernel: p.frontend.Kernel, seed: int | None) -> float:
    out = np.zeros((4, 4), np.float32)
    if seed is None:
        kernel(out)
    else:
        with p.set_schedule("random", seed):
            kernel(out)
    return float(out.sum())


def _line(function: Callable[..., object], comment: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return next(first + at for at, line in enumerate(lines) if line.rstrip().endswith(comment))


WRONG = {
    "get_without_wait": ("shmem_get", "shmem_wait_until"),
    "signal_without_put": ("shmem_signal", "shmem_put"),
    "get_of_own_memory": ("shmem_get", "shmem_put"),
    "barrier_without_put": ("shmem_barrier_all", "shmem_put"),
    "put_before_others_have_read": ("shmem_put", "shmem_wait_until"),
}


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("name", WRONG)
def test_the_missing_edge_is_named(name: str, seed: int | None) -> None:
    kernel = globals()[name]
    with pytest.raises(CheckError) as caught:
        emu.launch(_run, N_PES, args=(kernel, seed), checks=emu.Checks(race=True), timeout=30)
    function = inspect.unwrap(kernel)
    later, earlier = WRONG[name]
    expected = (
        rf"{later} \(line {_line(function, '# later')}\) of PE \d has no pred that leads to "
        rf"{earlier} \(line {_line(function, '# earlier')}\)"
    )
    races = [report for report in caught.value.reports if isinstance(report, Race)]
    assert races
    for race in races:
        assert re.search(expected, race.reason), race.text


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_what_is_ordered_is_not_told(seed: int | None) -> None:
    emu.launch(_run, N_PES, args=(all_is_ordered, seed), checks=emu.Checks(race=True), timeout=30)


def _outside(synchronized: bool) -> None:
    world = emu.world()
    data, peer = _memory(), 1 - world.my_pe
    d.shmem_put(_ones(), [0, 0], data, peer)
    if synchronized:
        p.synchronize()
    world.barrier()
    assert d.shmem_get(data, world.my_pe).numpy().sum() == 16


def test_outside_of_kernels_the_program_waits_by_synchronize() -> None:
    checks = emu.Checks(race=True)
    emu.launch(_outside, N_PES, args=(True,), checks=checks, timeout=30)
    with pytest.raises(CheckError, match="no signal that comes after line"):
        emu.launch(_outside, N_PES, args=(False,), checks=checks, timeout=30)


def many(count: int) -> None:
    """More independent ops than there are chains, twice."""
    me = int(d.my_symbolic_pe("tp"))
    for _ in range(2):
        _many_of(np.ones((count, 4), np.float32), me)


@p.frontend.jit
def _many_of(x, me):
    rows = x.shape[0]
    data = d.create_shmem_tensor("tp", N_PES, p.DT_FP32, [rows, 4])
    p.set_vec_tile_shapes(1, 4)
    for row in range(rows):
        view = d.shmem_view(data, [1, 4], [row, 0])
        stored = d.shmem_put(x[row : row + 1, :], [0, 0], view, 1 - me)
        d.shmem_signal(view, 0, 1, target_pe=1 - me, pred=[stored])
    for row in range(rows):
        view = d.shmem_view(data, [1, 4], [row, 0])
        came = d.shmem_wait_until(view, 0, 1)
        x[row:, :] = d.shmem_get(view, me, pred=[came])


def test_more_ops_than_chains_are_no_false_alarm() -> None:
    emu.launch(many, N_PES, args=(100,), checks=emu.Checks(race=True), timeout=60)
