"""``chlo-legalize-to-stablehlo``: lowers operations of CHLO to StableHLO.

Shardy has no rules for CHLO: shardings stop at it. So a compiler lowers it to
StableHLO before propagation. This pass does so for operations with an exact
formula; special functions (``erf``, ``lgamma``, …) need approximations, which
jaxlib has.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.ir import Operation, Value
from emu.mlir.types import ComplexType, FloatType, TensorType, is_static_tensor
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.chlo.expressions import Formulas
from emu.sdy.passes.chlo.functions import FUNCTIONS
from emu.sdy.passes.chlo.structure import legalized_structure


class ChloLegalizeToStablehlo(FunctionPass, name="chlo-legalize-to-stablehlo"):
    """Lower CHLO to StableHLO where there is an exact formula; warn of the rest."""

    def run(self, op: Operation, session: Session) -> None:
        """Replace each operation of CHLO that has a formula."""
        for each in list(op.walk(post_order=True)):
            if each.dialect != "chlo":
                continue
            values = _legalized(each)
            if values is None:
                session.diagnostics.warning_once(
                    each.name,
                    each.location,
                    f"{each.name} has no exact formula in StableHLO for its type and stays: "
                    "shardings do not pass through it (emu.sdy.from_jax has jaxlib "
                    "approximate it)",
                )
            else:
                _keep_attributes(each, values)
                each.replace_with(values)


def _legalized(op: Operation) -> Sequence[Value] | None:
    function = FUNCTIONS.get(op.name.removeprefix("chlo."))
    if function is None:
        return legalized_structure(op)
    if not _is_elementwise(op):
        return None
    found = function(*map(Formulas(op).of, op.operands))
    return None if found is None else [found.value]


def _is_elementwise(op: Operation) -> bool:
    """Return whether all operands and results are float tensors of one static shape."""
    if len(op.results) != 1 or len(op.operands) != (2 if op.name == "chlo.next_after" else 1):
        return False
    first, result = op.operands[0].type, op.result.type
    return (
        is_static_tensor(first)
        and isinstance(first, TensorType)
        and isinstance(first.element, FloatType | ComplexType)
        and all(value.type == first for value in op.operands)
        and isinstance(result, TensorType)
        and result.shape == first.shape
    )


def _keep_attributes(op: Operation, values: Sequence[Value]) -> None:
    """Copy the operation's discardable attributes to the operations that replace it."""
    definer = values[0].defining_op
    made = definer is not None and definer not in {v.defining_op for v in op.operands}
    if len(values) == 1 and made and definer is not None:
        definer.attributes.update(op.attributes)
