"""A few random programs beside Shardy's own passes, as jaxlib has them.

tests/conformance/sdy/fuzz.py does the same for as many programs as asked for.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import fuzz
import pytest

SEEDS = range(24)
SAME_AS = "0.10.2"  # another release has other passes

try:
    INSTALLED = version("jaxlib")
except PackageNotFoundError:
    INSTALLED = "none"
pytestmark = pytest.mark.skipif(
    INSTALLED != SAME_AS, reason=f"compares with jaxlib {SAME_AS}; installed: {INSTALLED}"
)


def test_modules_are_printed_as_shardy_prints_them() -> None:
    with fuzz.Oracle() as oracle:
        for seed in SEEDS:
            text = fuzz.program(seed)
            assert fuzz.ours(text, "").text == oracle.ask(text).text


@pytest.mark.parametrize("pipeline", fuzz.PIPELINES)
def test_passes_give_what_shardys_give(pipeline: str) -> None:
    with fuzz.Oracle() as oracle:
        for seed in SEEDS:
            difference = fuzz.compare(seed, fuzz.program(seed), pipeline, oracle)
            assert not isinstance(difference, fuzz.Difference), str(difference)
