"""The planners of forms of all families of operations; importing it registers them."""

from emu.stablehlo.compiled import (  # noqa: F401
    convolution,
    indexing,
    movement,
    products,
    reductions,
    sorting,
    windows,
)
