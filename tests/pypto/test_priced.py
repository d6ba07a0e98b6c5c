"""What a batch of ops is on a device: kernels, by hand, on both backends; and the sums of random kernels beside their counts."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from pypto_random_kernels import Program

from emu import pypto
from emu.comm.world import recording
from emu.pypto import operation
from emu.pypto.native import plan
from emu.tile.counting.counts import Counts
from emu.trace.counting import collect
from emu.trace.events import Kind


class Events:
    """A recorder that keeps names and details."""

    def __init__(self) -> None:
        self.sites: list[tuple[int, str, dict[str, Any]]] = []
        self.keys: list[tuple[str, object]] = []

    def here(self, kind: int, name: str, details: Any = None, *, key: object = None) -> int:
        found = details() if callable(details) else details
        self.sites.append((kind, name, json.loads(json.dumps(found or {}))))
        self.keys.append((name, key))
        return len(self.sites) - 1

    def site(self, kind: int, name: str, *_: object, **__: object) -> int:
        return self.here(kind, name)

    def end(self, kind: int, name: str, begun: int) -> None:
        self.here(kind, name)

    def write(self, *_: object) -> None: ...

    write_span = write

    def hold_line(self) -> bool:
        return False

    def release_line(self, holds: bool) -> None: ...

    def of_ops(self) -> list[list[Counts]]:
        """Return the counts of each batch that was computed."""
        return [
            [Counts.from_json(c) for c in details["counts"]]
            for kind, _, details in self.sites
            if kind == Kind.OP and "counts" in details
        ]


@pytest.fixture(params=["native", "reference"])
def events(request, monkeypatch):
    monkeypatch.setattr(operation, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(plan, "_plans", {})
    found = Events()
    monkeypatch.setattr(recording, "active", found)
    with pypto.set_options(backend=request.param), collect(operators=True):
        yield found


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def run(kernel, *arrays: np.ndarray) -> None:
    pypto.frontend.jit(kernel)(*arrays)


def moved(counts: Counts) -> tuple[int, int]:
    return counts.loaded, counts.stored


def test_a_chain_of_vector_ops_is_one_kernel_that_moves_what_passes_through_it(events) -> None:
    def kernel(x, y, out):
        pypto.assemble(pypto.exp(x * y) + x, [0, 0], out)

    run(kernel, array(40, 30), array(40, 30), array(40, 30))
    ((counts,),) = events.of_ops()
    assert moved(counts) == (2 * 4 * 1200, 4 * 1200)  # x and y once, and the result
    assert counts.work == {"vector": {"f32": 2400}, "special": {"f32": 1200}}
    assert (counts.operations, counts.launches) == (1, 1)


def test_what_the_program_holds_is_stored_too(events) -> None:
    held = []

    def kernel(x, out):
        held.append(x + 1.0)
        pypto.assemble(held[0] * 2.0, [0, 0], out)

    run(kernel, array(40, 30), array(40, 30))
    ((counts,),) = events.of_ops()
    assert moved(counts) == (4 * 1200, 2 * 4 * 1200)


def test_a_product_is_a_kernel_and_what_follows_loads_its_result(events) -> None:
    def kernel(a, b, out):
        pypto.assemble(pypto.sigmoid(pypto.matmul(a, b)) * 2.0, [0, 0], out)

    run(kernel, array(8, 16), array(16, 4), array(8, 4))
    ((product, chain),) = events.of_ops()
    assert product.work == {"dot": {"f32": 2 * 8 * 16 * 4}}
    assert [(d.m, d.n, d.k) for d in product.dots] == [(8, 4, 16)]
    assert moved(product) == (4 * (8 * 16 + 16 * 4), 4 * 32)
    assert chain.work == {"special": {"f32": 32}, "vector": {"f32": 32}}
    assert moved(chain) == (4 * 32, 4 * 32)


def test_rows_that_fit_are_walked_twice_and_longer_ones_are_loaded_again(
    events, monkeypatch
) -> None:
    def kernel(x, out):
        pypto.assemble(x / pypto.sum(x, -1, keepdim=True), [0, 0], out)

    run(kernel, array(10, 50), array(10, 50))
    monkeypatch.setattr("emu.pypto.priced.LONGEST_ROW", 49)
    run(kernel, array(10, 50), array(10, 50))
    (short,), (total, quotient) = events.of_ops()
    assert moved(short) == (4 * 500, 4 * 500)
    assert moved(total) == (4 * 500, 4 * 10)
    assert moved(quotient) == (4 * (500 + 10), 4 * 500)
    assert short.work == (total + _named(quotient, total)).work


def _named(counts: Counts, other: Counts) -> Counts:
    return Counts.from_json({**counts.to_json(), "name": other.name})


def test_ops_of_other_extents_are_other_kernels_and_alike_ones_count_together(events) -> None:
    def kernel(x, y, out, other):
        for _ in range(3):
            pypto.assemble(x * 2.0, [0, 0], out)
            pypto.assemble(y * 2.0, [0, 0], other)

    run(kernel, array(4, 8), array(3, 5), array(4, 8), array(3, 5))
    ((wide, small),) = events.of_ops()
    assert (wide.launches, small.launches) == (3, 3)
    assert moved(wide) == (3 * 4 * 32, 3 * 4 * 32)
    assert moved(small) == (3 * 4 * 15, 3 * 4 * 15)


def test_what_is_no_vector_operation_is_a_kernel_of_its_own(events) -> None:
    def kernel(x, out):
        turned = pypto.transpose(x + 1.0, 0, 1)
        flat = pypto.reshape(turned * 2.0, [12, 2])
        total = pypto.sum(flat, [0, 1], keepdim=True)
        pypto.assemble(pypto.exp(total), [0, 0], out)

    run(kernel, array(4, 6), array(1, 1))
    (kernels,) = events.of_ops()
    assert [counts.name for counts in kernels] == [
        "add",
        "transpose",
        "mul",
        "reshape",
        "sum over axes",
        "exp",
    ]
    assert [moved(counts) for counts in kernels] == [*[(96, 96)] * 4, (96, 4), (4, 4)]


def test_a_line_has_a_site_for_each_shape(events) -> None:
    for n in (4, 8, 4):
        pypto.from_numpy(array(n, n)) + 1.0
    keys = events.keys
    assert keys[0] == keys[2] != keys[1]
    assert [moved(c) for (c,) in events.of_ops()] == [(64, 64), (256, 256), (64, 64)]


def test_a_kernel_is_one_launch_and_ops_outside_are_launches_of_their_own(events) -> None:
    def kernel(x, out):
        pypto.assemble(x + 1.0, [0, 0], out)

    run(kernel, array(4, 8), array(4, 8))
    pypto.from_numpy(array(4, 8)) + 1.0
    assert [
        (Kind(kind), name, details.get("launches")) for kind, name, details in events.sites
    ] == [
        (Kind.LAUNCH, "kernel", None),
        (Kind.OP, "add, assemble", 0),
        (Kind.OP, "add", None),
    ]
    assert events.sites[0][2] == {"counts": []}


def test_without_counting_an_event_has_a_name_alone(monkeypatch) -> None:
    found = Events()
    monkeypatch.setattr(recording, "active", found)
    pypto.frontend.jit(lambda x: x + 1.0)(array(4, 8))
    assert [details for *_, details in found.sites] == [{}] * len(found.sites)
    assert [kind for kind, *_ in found.sites if kind == Kind.LAUNCH] == []


@pytest.mark.parametrize("seed", range(12))
def test_random_kernels_do_the_work_that_was_counted_and_move_no_more(seed, monkeypatch) -> None:
    batches = {}
    for backend in ("reference", "native"):
        found = Events()
        with monkeypatch.context() as patch, collect(operators=True) as counts:
            patch.setattr(operation, "LEAST_ELEMENTS", 1)
            patch.setattr(recording, "active", found)
            Program(seed).run(backend, patch)
        batches[backend] = found.of_ops()
        kernels = [c for batch in found.of_ops() for c in batch]
        assert _work(kernels) == _work(counts)
        assert sum(c.loaded for c in kernels) <= sum(c.loaded for c in counts)
        assert sum(c.stored for c in kernels) <= sum(c.stored for c in counts)
    assert batches["native"] == batches["reference"]


def _work(found: list[Counts]) -> Counter[tuple[str, str]]:
    work: Counter[tuple[str, str]] = Counter()
    for counts in found:
        for unit, kinds in counts.work.items():
            work.update({(unit, dtype): n for dtype, n in kinds.items()})
    return work
