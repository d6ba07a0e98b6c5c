"""Scans in the reference."""

from __future__ import annotations

import numpy as np
from tile_harness import Kernel


def test_scans_combine_what_was_before_with_what_comes() -> None:
    k = Kernel()
    b = k.builder
    x = k.load(np.array([1, 2, 3, 4], np.int32))
    for reverse in (False, True):
        second = b.scan([x], 0, lambda a, c: [c], reverse)
        first = b.scan([x], 0, lambda a, c: [a], reverse)
        k.result(second[0])
        k.result(first[0])
    got = [r.tolist() for r in k.program("p").run_reference()[1:]]
    assert got == [[1, 2, 3, 4], [1, 1, 1, 1], [1, 2, 3, 4], [4, 4, 4, 4]]
