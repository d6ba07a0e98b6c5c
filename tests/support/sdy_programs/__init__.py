"""Random StableHLO + sdy modules that Shardy's verifier accepts.

``program(seed)`` gives the same text for the same seed, always. A program is
grown operation by operation: a scope holds the values that may be used, an
operation takes some of them (or asks for a new one of a wanted type: a
function argument or a constant) and adds its results. Dimensions come from a
small pool, so that values of one type meet often.
"""

from __future__ import annotations

from sdy_programs import operations as ops
from sdy_programs import regions
from sdy_programs.scopes import Operations, Program
from sdy_programs.wild import WILD, WildProgram

OPERATIONS: Operations = (
    # what, weight, whether it has regions
    (ops.unary, 8, False),
    (ops.binary, 14, False),
    (ops.compare_and_select, 2, False),
    (ops.convert, 2, False),
    (ops.clamp, 1, False),
    (ops.dot_general, 10, False),
    (ops.dot, 3, False),
    (ops.reduce, 6, False),
    (ops.transpose, 5, False),
    (ops.reshape, 7, False),
    (ops.broadcast, 6, False),
    (ops.slice_, 4, False),
    (ops.concatenate, 4, False),
    (ops.pad, 3, False),
    (ops.reverse, 1, False),
    (ops.dynamic_slice, 3, False),
    (ops.gather, 3, False),
    (regions.sort, 2, False),
    (regions.scatter, 2, False),
    (regions.reduce_window, 1, False),
    (regions.arg_max, 2, False),
    (regions.convolution, 2, False),
    (regions.cholesky, 1, False),
    (ops.iota, 2, False),
    (ops.constant, 4, False),
    (ops.custom_call, 1, False),
    (ops.constraint, 8, False),
    (ops.reshard, 1, False),
    (ops.group, 4, False),
    (ops.barrier, 2, False),
    (ops.optimization_barrier, 2, False),
    (regions.while_, 3, True),
    (regions.case, 2, True),
    (regions.call, 4, False),
    (regions.named_computation, 4, True),
    (regions.manual_computation, 3, True),
)


def program(seed: int, *, wild: bool = False) -> str:
    """The module of a seed, as MLIR text.

    Args:
        seed: Any integer; one seed always gives one text.
        wild: With what hardly any program holds, too.
    """
    if wild:
        return WildProgram(seed, (*OPERATIONS, *WILD)).module()
    return Program(seed, OPERATIONS).module()
