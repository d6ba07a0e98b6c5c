"""The planners of forms of all families of operations; importing it registers them."""

from emu.stablehlo.compiled import (  # noqa: F401
    complex_numbers,
    convolution,
    indexing,
    movement,
    products,
    random_bits,
    reductions,
    sorting,
    windows,
)
