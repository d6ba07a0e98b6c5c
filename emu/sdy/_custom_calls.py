"""Registration of custom calls under the name that it has in ``emu.sdy``."""

from emu.stablehlo.reference.custom_calls import register_custom_call

__all__ = ["register_custom_call"]
