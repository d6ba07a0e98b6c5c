"""A few random programs beside Shardy's own passes, as jaxlib has them.

tests/conformance/sdy/fuzz.py does the same for as many programs as asked for.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from sdy_comparison import PIPELINES, Difference, compare, ours
from sdy_oracle import Oracle
from sdy_programs import program

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
    with Oracle() as oracle:
        for seed in SEEDS:
            text = program(seed)
            assert ours(text, "").text == oracle.ask(text).text


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_passes_give_what_shardys_give(pipeline: str) -> None:
    with Oracle() as oracle:
        for seed in SEEDS:
            difference = compare(seed, program(seed), pipeline, oracle)
            assert not isinstance(difference, Difference), str(difference)
