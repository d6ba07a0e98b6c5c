"""The planners of forms of all families of operations; importing it registers them."""

from emu.stablehlo.compiled import convolution, indexing, movement, products, sorting  # noqa: F401
