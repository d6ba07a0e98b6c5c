"""``sdy-reshard-to-collectives``: replaces reshards by collectives of ``sdy``."""

from __future__ import annotations

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.text.printer import to_text
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.builders import (
    make_collective,
)
from emu.sdy.dialect.meshes import get_mesh, is_on_single_device
from emu.sdy.dialect.shardings import get_or_create_sharding, sharding_bypassing_barriers
from emu.sdy.dialect.tensors import is_equivalent
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.export.collective_plan import plan
from emu.sdy.passes.export.conversion import Conversion


class ReshardToCollectives(FunctionPass, name="sdy-reshard-to-collectives"):
    """Replace reshards by collectives.

    A reshard from one mesh to another stays, unless the two differ only in the order
    of devices; and so does one from or to a single device.

    Attributes:
        keep_redundant_reshards: Whether to keep reshards that change nothing.
    """

    keep_redundant_reshards: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Replace each reshard."""
        module = op.parent_op
        if module is None:
            raise ValueError(f"{op.name} is in no module")
        table = SymbolTable(module)
        conversion = Conversion()
        for each in op.walk():
            if each.name == "sdy.reshard" and not self._is_kept(each, table):
                reached = _convert(each, conversion, table)
                if reached is None:
                    session.diagnostics.error(
                        each.location,
                        "failed to legalize operation 'sdy.reshard' that was explicitly marked "
                        f"illegal: {to_text(each, generic=True, local=True)}",
                    )
                    raise PassFailed("a reshard has no collectives")
                if not is_equivalent(reached, _target(each), ignore_unreduced_axes=True):
                    # Shardy continues silently here.
                    session.diagnostics.warning(
                        each.location,
                        f"the collectives for this reshard end at {reached}: they reorder axes "
                        "in the wrong way where of two axis sizes neither divides the other",
                    )
        conversion.finish()

    def _is_kept(self, op: Operation, table: SymbolTable) -> bool:
        source = sharding_bypassing_barriers(op.operands[0])
        target = _target(op)
        if self.keep_redundant_reshards and _equivalent(source, target):
            return True
        if any(is_on_single_device(sharding, table) for sharding in (source, target)):
            return True
        if target.is_fully_replicated or source is None:
            return False
        return not _on_one_mesh(source, target, table)


def _target(op: Operation) -> TensorSharding:
    sharding = op.properties.get("sharding")
    assert isinstance(sharding, TensorSharding)
    return sharding


def _equivalent(source: TensorSharding | None, target: TensorSharding) -> bool:
    return target.is_fully_replicated if source is None else is_equivalent(source, target)


def _on_one_mesh(source: TensorSharding, target: TensorSharding, table: SymbolTable) -> bool:
    if source.mesh == target.mesh:
        return True
    mesh = get_mesh(table, source.mesh)
    return mesh.equals(get_mesh(table, target.mesh), ignore_device_ids=True)


def _convert(op: Operation, conversion: Conversion, table: SymbolTable) -> TensorSharding | None:
    """Replace a reshard, and return the sharding of its replacement.

    None if collectives cannot do it: between one device and a mesh, or between meshes
    with different axes.
    """
    given = conversion.current(op.operands[0])
    value = _before_barriers(given)
    target = _target(op)
    source = get_or_create_sharding(value, target.mesh)
    if source.rank != target.rank:
        return None
    if target.is_fully_replicated:
        if source.is_fully_replicated:
            conversion.replace(op, given)
            return source
        # Gathering needs no mesh but that of the operand.
        target = TensorSharding.fully_closed(source.rank, source.mesh)
    if not _on_one_mesh(source, target, table):
        return None
    type_ = op.result.type
    shape = type_.shape if isinstance(type_, TensorType) else ()
    reached = source
    for step in plan(source, target, get_mesh(table, source.mesh), shape):
        reached = step.sharding
        made = make_collective(step.op, value, step.axes, step.sharding, op.location)
        conversion.insert(op, made)
        value = made.result
    conversion.replace(op, value)
    return reached


def _before_barriers(value: Value) -> Value:
    op = value.defining_op
    while op is not None and op.name == "sdy.propagation_barrier":
        value = op.operands[0]
        op = value.defining_op
    return value
