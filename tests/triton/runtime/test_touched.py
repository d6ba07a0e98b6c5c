"""Launches that tell the check of streams which bytes they have read and written."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.triton.language as tl
from emu import triton

torch = pytest.importorskip("torch")

BACKENDS = ("cpu", "reference")
Span = tuple[int, int]
"""Bytes from the beginning of a tensor; (0, 0) of none."""


@triton.jit
def scale(x_ptr, y_ptr, first, n, step, BLOCK: tl.constexpr):
    i = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * step, mask=i < n)
    tl.store(y_ptr + i, x * 2, mask=i < n)


@triton.jit
def loops(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for k in range(1, n):
        total += tl.sum(tl.load(x_ptr + k * BLOCK + tl.arange(0, BLOCK)))
        if total > 1e9:
            tl.store(y_ptr + 1, total)
    tl.store(y_ptr, total)


@triton.jit
def adds(x_ptr, count_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(x_ptr + tl.arange(0, BLOCK), 1.0)
    tl.atomic_cas(count_ptr, 0, 1)


@triton.jit
def through(table, out):
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(p))


@triton.jit
def of_a_tuple(both, n: tl.constexpr):
    tl.store(both[1] + 2, tl.load(both[0] + n))


@triton.jit
def of_a_descriptor(d):
    d.store([0, 4], d.load([0, 0]))


class Told:
    """What the check of streams was told."""

    def __init__(self) -> None:
        self.name = ""
        self.touched: list[tuple[Any, ...]] = []

    def note_kernel(self, name: str, touched: list[tuple[Any, ...]]) -> None:
        self.name, self.touched = name, touched

    def spans(self) -> list[tuple[Span, ...]]:
        """Return what was read and written of each tensor, and, where anything was, what atomic operations have changed."""
        found = []
        for tensor, *spans in self.touched:
            at = tensor.data_ptr()
            all_three = tuple((a - at, b - at) if a < b else (0, 0) for a, b in spans)
            found.append(all_three if any(all_three[2]) else all_three[:2])
        return found


def _tell(patch: pytest.MonkeyPatch) -> Told:
    told = Told()
    fake = SimpleNamespace(is_on=lambda: True, note_kernel=told.note_kernel)
    patch.setitem(sys.modules, "emu.accelerator.stream_check", fake)
    return told


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return _tell(monkeypatch)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("check", ["streams", "bounds,uninit,streams"])
def test_spans_are_those_of_the_lanes_that_masks_let_through(backend, check, told) -> None:
    x, y = torch.ones(64), torch.zeros(64)
    scale[(2,)](x, y, 3, 21, 2, BLOCK=16, check=check, backend=backend)
    assert told.name == "scale"
    assert told.spans() == [((24, 164), (0, 0)), ((0, 0), (12, 84))]
    assert y.tolist() == [0.0] * 3 + [2.0] * 18 + [0.0] * 43


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_launch_that_touches_nothing_has_no_spans(backend, told) -> None:
    x, y = torch.ones(64), torch.zeros(64)
    scale[(2,)](x, y, 3, 3, 1, BLOCK=16, check="streams", backend=backend)
    assert told.spans() == [((0, 0), (0, 0))] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_done_in_loops_and_branches_counts_if_it_is_done(backend, told) -> None:
    x, y = torch.ones(64), torch.zeros(2)
    loops[(1,)](x, y, 3, BLOCK=16, check="streams", backend=backend)
    assert told.spans() == [((64, 192), (0, 0)), ((0, 0), (0, 4))]
    x.fill_(1e9)
    loops[(1,)](x, y, 3, BLOCK=16, check="streams", backend=backend)
    assert told.spans()[1] == ((0, 0), (0, 8))


def test_atomic_operations_are_told_by_themselves(told) -> None:
    x, count = torch.ones(64), torch.zeros(2, dtype=torch.int32)
    adds[(1,)](x, count, BLOCK=16, check="streams")
    assert told.spans() == [((0, 0), (0, 0), (0, 64)), ((0, 0), (0, 0), (0, 4))]


def test_pointers_from_memory_tell_nothing(told) -> None:
    x, out = torch.ones(4), torch.zeros(4)
    table = torch.tensor([x.data_ptr()])
    through[(1,)](table, out, check="streams")
    assert told.spans() == [((0, 8), (0, 0)), ((0, 0), (0, 4))]
    assert out[0] == 1


def test_tensors_in_tuples_and_descriptors_are_found(told) -> None:
    x, y = torch.ones(8), torch.zeros(8)
    of_a_tuple[(1,)]((x, y), 3, check="streams")
    assert told.spans() == [((12, 16), (0, 0)), ((0, 0), (8, 12))]
    tile = torch.ones(4, 8)
    of_a_descriptor[(1,)](
        triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(tile, [2, 4]), check="streams"
    )
    assert told.spans()[0] == ((0, 48), (16, 64))


def test_without_the_check_of_streams_a_kernel_runs_as_ever(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "emu.accelerator.stream_check", raising=False)
    x, y = torch.ones(64), torch.zeros(64)
    scale[(2,)](x, y, 0, 64, 1, BLOCK=32, check="streams")
    assert y.tolist() == [2.0] * 64


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(0, 70), st.integers(0, 3), st.integers(1, 3))
def test_spans_are_those_of_a_loop_over_elements(first, n, step, programs) -> None:
    with pytest.MonkeyPatch.context() as patch:
        told = _tell(patch)
        x, y = torch.ones(256), torch.zeros(256)
        scale[(programs,)](x, y, first, n, step, BLOCK=16, check="streams")
    lanes = [i for i in range(first, first + 16 * programs) if i < n]
    read = (4 * step * min(lanes), 4 * step * max(lanes) + 4) if lanes else (0, 0)
    written = (4 * min(lanes), 4 * max(lanes) + 4) if lanes else (0, 0)
    assert told.spans() == [(read, (0, 0)), ((0, 0), written)]
