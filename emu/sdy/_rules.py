"""Registration of sharding rules under the name that it has in ``emu.sdy``."""

from emu.sdy.rules import register as register_rule

__all__ = ["register_rule"]
