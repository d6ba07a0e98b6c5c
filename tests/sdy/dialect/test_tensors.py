"""Manual axes in front of free ones, and where they are not."""

from __future__ import annotations

import pytest

from emu.sdy.dialect.attributes import AxisRef
from emu.sdy.dialect.tensors import first_free_axis


@pytest.mark.parametrize(
    ("axes", "first"),
    [("", 0), ("m", 1), ("f", 0), ("mf", 1), ("mmf", 2), ("fm", 2), ("ffm", 0)],
)
def test_the_first_free_axis(axes: str, first: int) -> None:
    # The last two are in the wrong order: the answers are those of Shardy's binary search.
    assert first_free_axis([AxisRef(name) for name in axes], ["m"]) == first
