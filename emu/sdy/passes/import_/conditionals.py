"""``emu-convert-if-to-case``: Shardy knows no ``stablehlo.if``."""

from __future__ import annotations

from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.builder import Builder

_I32 = IntegerType(32)


class ConvertIfToCase(ModulePass, name="emu-convert-if-to-case"):
    """Make each ``stablehlo.if`` a ``stablehlo.case``, through which shardings propagate."""

    def run(self, op: Operation, session: Session) -> None:
        """Convert the operations of a module."""
        for each in [each for each in op.walk(post_order=True) if each.name == "stablehlo.if"]:
            build = Builder.before(each)
            (predicate,) = each.operands
            # The first branch is taken where the predicate holds.
            index = build.convert(build.op("not", [predicate], [predicate.type]).result, _I32)
            case = Operation(
                "stablehlo.case",
                [index],
                [result.type for result in each.results],
                properties=each.properties,
                attributes=each.attributes,
                location=each.location,
            )
            for region in each.regions:
                case.add_region().take_body(region)
            assert each.parent is not None  # found inside the module
            each.parent.insert_before(each, case)
            each.replace_with(case.results)
