"""Custom calls, and the error of what cannot be evaluated: names of ``emu.stablehlo`` that ``emu.sdy`` offers."""

from emu.stablehlo.reference.custom_calls import register_custom_call
from emu.stablehlo.reference.errors import EvaluationError

__all__ = ["EvaluationError", "register_custom_call"]
