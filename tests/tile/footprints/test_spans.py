"""Spans of footprints: the very bytes, by comparison with a list of them."""

from __future__ import annotations

import numpy as np
import pytest

from emu.tile.footprints import spans
from emu.tile.footprints.evaluation import Footprint
from emu.tile.ir import Operation
from emu.tile.ops import Code


def _footprint(rng: np.random.Generator, axes: int, *, is_exact: bool = True) -> Footprint:
    count, size = int(rng.integers(0, 5)), int(rng.choice([1, 2, 4, 8]))
    strides = tuple(size * rng.integers(-6, 7, count) for _ in range(axes))
    counts = tuple(rng.integers(1, 5, count) for _ in range(axes))
    if count and rng.random() < 0.5:  # all alike, as in most kernels
        strides = tuple(np.full(count, s[0]) for s in strides)
        counts = tuple(np.full(count, c[0]) for c in counts)
    starts = size * rng.integers(100, 160, count)
    nothing = tuple(np.zeros(count, np.int64) for _ in range(axes))
    programs = np.arange(count)
    return Footprint(
        Operation(Code.LOAD), 0, size, programs, starts, strides, counts, nothing, is_exact
    )


def _bytes(footprint: Footprint) -> set[int]:
    assert footprint.starts is not None
    found = set()
    for n, start in enumerate(footprint.starts.tolist()):
        at = [start]
        for stride, count in zip(footprint.strides, footprint.counts, strict=True):
            at = [a + i * int(stride[n]) for a in at for i in range(int(count[n]))]
        found |= {a + byte for a in at for byte in range(footprint.size)}
    return found


def test_spans_are_the_bytes_of_the_footprint_in_order_and_apart() -> None:
    rng = np.random.default_rng(3)
    for _ in range(400):
        footprint = _footprint(rng, int(rng.integers(0, 4)))
        rows = spans.spans_of(footprint)
        assert rows is not None
        listed = [byte for low, high in rows.tolist() for byte in range(low, high)]
        assert set(listed) == _bytes(footprint)
        assert np.all(rows[1:, 0] > rows[:-1, 1])


def test_what_is_not_known_exactly_has_none() -> None:
    rng = np.random.default_rng(4)
    assert spans.spans_of(_footprint(rng, 2, is_exact=False)) is None
    assert spans.spans_of(Footprint(Operation(Code.LOAD), None, 4, np.arange(2))) is None


def test_too_many_pieces_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "MOST_RUNS", 5)
    one = np.ones(1, np.int64)
    columns = (4 * one, 8 * one), (one, 6 * one), (0 * one, 0 * one)
    many = Footprint(Operation(Code.LOAD), 0, 4, 0 * one, 0 * one, *columns, True)
    assert spans.spans_of(many) is None
    columns = (4 * one, 8 * one), (2 * one, 6 * one), (0 * one, 0 * one)
    dense = Footprint(Operation(Code.LOAD), 0, 4, 0 * one, 0 * one, *columns, True)
    rows = spans.spans_of(dense)
    assert rows is not None
    assert rows.tolist() == [[0, 48]]
