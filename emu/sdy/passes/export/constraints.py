"""Conversion of sharding constraints to reshards."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.export.conversion import Conversion


class ShardingConstraintToReshard(FunctionPass, name="sdy-sharding-constraint-to-reshard"):
    """Replace each ``sdy.sharding_constraint`` by an ``sdy.reshard``."""

    def run(self, op: Operation, session: Session) -> None:
        """Replace the constraints of a function."""
        conversion = Conversion()
        for each in op.walk():
            if each.name == "sdy.sharding_constraint":
                value = conversion.current(each.operands[0])
                sharding = each.properties["sharding"]
                assert isinstance(sharding, TensorSharding)
                reshard = make_reshard(value, sharding, each.location)
                reshard.attributes.update(each.attributes)
                conversion.insert(each, reshard)
                conversion.replace(each, reshard.result)
        conversion.finish()
