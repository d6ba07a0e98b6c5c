"""Passes as text."""

from emu.sdy.passes.propagate import (
    OpPriorityPropagate,
    PropagationStrategy,
)
from emu.sdy.passes.text import parse_pipeline


def test_options_as_text():
    (made,) = parse_pipeline(
        "sdy-op-priority-propagate{propagation-strategy=basic-then-aggressive "
        "run-op-priority-propagation=false conservative-propagation=true}"
    )
    assert made == OpPriorityPropagate(
        conservative_propagation=True,
        propagation_strategy=PropagationStrategy.BASIC_THEN_AGGRESSIVE,
        run_op_priority_propagation=False,
    )
