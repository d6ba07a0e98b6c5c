"""Random StableHLO + sdy modules that Shardy's verifier accepts.

``program(seed)`` gives the same text for the same seed, always. A program is
grown operation by operation: a scope holds the values that may be used, an
operation takes some of them (or asks for a new one of a wanted type: a
function argument or a constant) and adds its results. Dimensions come from a
small pool, so that values of one type meet often.
"""

from __future__ import annotations

from program_operations import OPERATIONS
from program_scopes import Program


def program(seed: int) -> str:
    """The module of a seed, as MLIR text.

    Args:
        seed: Any integer; one seed always gives one text.
    """
    return Program(seed, OPERATIONS).module()
