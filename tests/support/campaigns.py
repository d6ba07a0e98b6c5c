"""How many examples the campaigns of random programs have.

The numbers in the tests are those that fit into CI. ``EMU_CAMPAIGN=10 make test MARK=slow`` has ten times as many.
"""

import os

import pytest

TIMES = int(os.environ.get("EMU_CAMPAIGN", "1"))


def shares(count: int) -> range:
    """Return the numbers of a campaign's shares, of which there are ``count`` in CI."""
    return range(count * TIMES)


def one_in(count: int) -> int:
    """Return the distance of the examples that are looked at, which in CI are one in ``count``."""
    return max(1, count // TIMES)


def keep_one_in(count: int, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all collected tests but one in ``count``."""
    left_out = [item for number, item in enumerate(items) if number % count]
    items[:] = items[::count]
    config.hook.pytest_deselected(items=left_out)
