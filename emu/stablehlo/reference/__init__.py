"""The meaning of StableHLO operations, in NumPy: slow, and the same on every machine.

One module per family of operations has a handler for each. ``evaluate`` runs a program on one
device, ``evaluate_devices`` a partitioned one on as many threads as it has devices.

Internal: names may change in any release.
"""

from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.evaluate import evaluate, evaluate_devices

__all__ = ["EvaluationError", "evaluate", "evaluate_devices"]
