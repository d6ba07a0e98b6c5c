"""The planners of forms of all families of operations; importing it registers them."""

from emu.stablehlo.compiled import indexing, movement, products  # noqa: F401
