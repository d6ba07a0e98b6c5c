"""The planners of forms of all families of operations; importing it registers them."""

from emu.stablehlo.compiled import products  # noqa: F401
