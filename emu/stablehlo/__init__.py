"""The StableHLO dialect, and what comes with it of CHLO and MHLO.

Importing the package makes the operations and attributes known to the parser
and the printer.
"""

from emu.stablehlo import (
    attribute_text,
    chlo,
    communication,
    contraction,
    control,
    elementwise,
    movement,
    verification,
)

__all__ = [
    "attribute_text",
    "chlo",
    "communication",
    "contraction",
    "control",
    "elementwise",
    "movement",
    "verification",
]
