"""Which edge a report names, from the clocks of a few operations."""

from __future__ import annotations

import numpy as np

from emu.check.area import Area
from emu.check.edges import End, Graphs, _Op
from emu.check.races.sites import Place
from emu.check.reports import Access, Race

AREA = Area(n_pes=2, heap=1 << 16)
RACE = Race(
    Access(0, "shmem_put", "writes", "a.py", 1),
    Access(1, "shmem_get", "reads", "a.py", 4),
    *(1, "x", 0, 4, "first at element 0", "nothing is known", "nothing"),
)


def _op(pe: int, serial: int, operation: str, line: int, *after: _Op) -> _Op:
    """Return an operation on a chain of its own, which comes after others."""
    chain = AREA.base_lines + serial * AREA.n_pes + pe
    clock = np.zeros(AREA.lines, np.int64)
    for other in after:
        np.maximum(clock, other.clock, out=clock)
    clock[chain] = 1
    return _Op(pe, serial, Place(operation, "a.py", line), chain, 1, 1, clock)


def _end(op: _Op) -> End:
    return op.pe, op.line, op.first


def _explained(one: _Op, two: _Op, *others: _Op) -> str:
    graphs = Graphs(AREA, np.zeros(0, np.uint8))
    for pe in range(2):
        graphs._ops[pe] = [op for op in (one, two, *others) if op.pe == pe]
    return graphs.explain(RACE, (_end(one), _end(two))).reason


def test_a_read_that_does_not_wait() -> None:
    put = _op(0, 1, "shmem_put", 1)
    signal = _op(0, 2, "shmem_signal", 2, put)
    wait = _op(1, 1, "shmem_wait_until", 3, signal)
    get = _op(1, 2, "shmem_get", 4)
    said = "shmem_get (line 4) of PE 1 has no pred that leads to shmem_wait_until (line 3)"
    assert _explained(put, get, signal, wait) == said
    assert _explained(get, put, signal, wait) == said


def test_a_signal_that_does_not_come_after_what_it_announces() -> None:
    put = _op(0, 1, "shmem_put", 1)
    signal = _op(0, 2, "shmem_signal", 2)
    wait = _op(1, 1, "shmem_wait_until", 3, signal)
    get = _op(1, 2, "shmem_get", 4, wait)
    said = "shmem_signal (line 2) of PE 0 has no pred that leads to shmem_put (line 1)"
    assert _explained(put, get, signal, wait) == said


def test_both_edges_are_missing() -> None:
    put = _op(0, 1, "shmem_put", 1)
    signal = _op(0, 2, "shmem_signal", 2)
    wait = _op(1, 1, "shmem_wait_until", 3, signal)
    get = _op(1, 2, "shmem_get", 4)
    said = _explained(put, get, signal, wait)
    assert "shmem_signal (line 2) of PE 0 has no pred that leads to shmem_put (line 1)" in said
    assert "shmem_get (line 4) of PE 1 has no pred that leads to shmem_wait_until" in said


def test_two_operations_of_one_pe() -> None:
    put, get = _op(0, 1, "shmem_put", 1), _op(0, 3, "shmem_get", 4)
    said = "shmem_get (line 4) of PE 0 has no pred that leads to shmem_put (line 1)"
    assert _explained(put, get) == said
    assert _explained(get, put) == said
    wait = _op(0, 2, "shmem_wait_until", 3, put)
    said = "shmem_get (line 4) of PE 0 has no pred that leads to shmem_wait_until (line 3)"
    assert _explained(put, get, wait) == said


def test_without_a_signal_between_the_report_stays() -> None:
    put, get = _op(0, 1, "shmem_put", 1), _op(1, 1, "shmem_get", 4)
    signal = _op(0, 2, "shmem_signal", 2, put)
    wait = _op(1, 2, "shmem_wait_until", 3)
    assert _explained(put, get, signal, wait) == "nothing is known"
    graphs = Graphs(AREA, np.zeros(0, np.uint8))
    graphs._ops = {0: [put], 1: []}
    assert graphs.explain(RACE, (_end(put), (1, 1, 7))) == RACE  # the program itself, and no op
