"""Small integer functions for grids and block sizes."""

import pytest

from emu import triton


@pytest.mark.parametrize(
    ("n", "power"), [(0, 0), (1, 1), (2, 2), (3, 4), (1000, 1024), (2**40, 2**40)]
)
def test_the_next_power_of_2(n, power):
    assert triton.next_power_of_2(n) == power
