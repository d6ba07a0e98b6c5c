"""Reshards around operations that run on one device.

The result of such an operation is sharded on a *maximal* mesh, which consists of one
device. Its operands are made whole on the module's global mesh and then put on that
device; its results go back the same way.
"""

from __future__ import annotations

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import Mesh, TensorSharding
from emu.sdy.dialect.builders import make_reshard
from emu.sdy.dialect.functions import func_arg_sharding, func_result_sharding, function_type
from emu.sdy.dialect.meshes import (
    global_mesh_name,
    is_on_single_device,
)
from emu.sdy.dialect.shardings import get_sharding, set_sharding, sharding_bypassing_barriers
from emu.sdy.dialect.tensors import is_equivalent
from emu.sdy.passes.base import Session
from emu.sdy.passes.insertion_point import Place, location_of, replace_other_uses

_TOKEN = "!stablehlo.token"


class SingleDevices:
    """An inserter of reshards around operations on one device.

    Args:
        module: The module.
        table: Its symbols.
        session: Receives the errors.
    """

    def __init__(self, module: Operation, table: SymbolTable, session: Session) -> None:
        self._table = table
        self._session = session
        self._module = module
        # By name, of those that were asked for: all of the module would be as many as its functions,
        # for each function.
        self._single: dict[str, Mesh | None] = {}

    def check_function(self, func: Operation) -> None:
        """Raise PassFailed if an argument or a result of a function is on one device."""
        type_ = function_type(func)
        shardings = [
            *(("argument", i, func_arg_sharding(func, i)) for i in range(len(type_.inputs))),
            *(("result", i, func_result_sharding(func, i)) for i in range(len(type_.results))),
        ]
        for kind, index, sharding in shardings:
            if is_on_single_device(sharding, self._table):
                raise self._fail(
                    func,
                    f"function {kind} {index} cannot have a single-device (maximal) sharding "
                    "attribute",
                )

    def visit(self, op: Operation) -> bool:
        """Insert the reshards if a result of an operation is on one device.

        Returns:
            Whether one is.
        """
        mesh = self._mesh(op)
        if mesh is None:
            return False
        global_mesh = global_mesh_name(self._module)
        if global_mesh is not None and not self._is_inserted(op, global_mesh):
            self._move_operands(op, TensorSharding.fully_closed(0, mesh), global_mesh)
            self._move_results(op, TensorSharding.fully_closed(0, mesh), global_mesh)
        return True

    def _fail(self, op: Operation, message: str) -> PassFailed:
        self._session.diagnostics.error(op.location, f"'{op.name}' op {message}")
        return PassFailed(message)

    def _mesh(self, op: Operation) -> str | None:
        """Return the mesh of the one device of an operation's results; None without one."""
        found: str | None = None
        device: tuple[int, ...] = ()
        for result in op.results:
            sharding = sharding_bypassing_barriers(result)
            if sharding is None:
                continue
            if isinstance(sharding.mesh, Mesh):
                if not sharding.mesh.is_maximal:
                    continue
                raise self._fail(
                    op, "has a sharding with its mesh inlined: run sdy-lift-inlined-meshes first"
                )
            mesh = self._single_mesh(sharding.mesh)
            if mesh is None:
                continue
            if found is not None and mesh.device_ids != device:
                raise self._fail(op, "has conflicting single-device result shardings")
            found, device = sharding.mesh, mesh.device_ids
        return found

    def _single_mesh(self, name: str) -> Mesh | None:
        """Return the mesh of that name if it is one of one device."""
        if name not in self._single:
            op = self._table.lookup(name)
            mesh = None if op is None else op.properties.get("mesh")
            found = mesh if isinstance(mesh, Mesh) and mesh.is_maximal else None
            self._single[name] = found
        return self._single[name]

    def _is_inserted(self, op: Operation, global_mesh: str) -> bool:
        """Return whether it is a reshard as ``_move_operands`` inserts it.

        It puts a whole operand on the device of its users; so a second run of the pass
        leaves it.
        """
        if op.name != "sdy.reshard" or not op.result.has_uses:
            return False
        source, own = get_sharding(op.operands[0]), get_sharding(op.result)
        whole = source is None or (source.mesh == global_mesh and source.is_fully_replicated)
        return whole and all(
            user.name != "sdy.reshard" and own in map(get_sharding, user.results)
            for user in op.result.users
        )

    def _move_operands(self, op: Operation, target: TensorSharding, global_mesh: str) -> None:
        place = Place.before(op)
        for index, value in enumerate(op.operands):
            if not isinstance(value.type, TensorType):
                continue
            whole = TensorSharding.fully_closed(value.type.rank, global_mesh)
            source = get_sharding(value) or whole
            if source.mesh == target.mesh and is_equivalent(source, target):
                continue
            new, location = value, location_of(value)
            if source.mesh != global_mesh or not source.is_fully_replicated:
                new = place.insert(make_reshard(new, whole, location)).result
            op.set_operand(index, place.insert(make_reshard(new, target, location)).result)

    def _move_results(self, op: Operation, source: TensorSharding, global_mesh: str) -> None:
        place = Place.after(op)
        wanted = [sharding_bypassing_barriers(result) for result in op.results]
        for result, target in zip(op.results, wanted, strict=True):
            if str(result.type) == _TOKEN:
                set_sharding(result, TensorSharding.fully_closed(0, global_mesh))
            if not isinstance(result.type, TensorType):
                continue
            whole = TensorSharding.fully_closed(result.type.rank, global_mesh)
            new = self._append(place, op, result, whole)
            single = target is None or is_on_single_device(target, self._table)
            if target is not None and not single and target != whole:
                self._append(place, op, new, target)
        for result in op.results:
            if isinstance(result.type, TensorType):
                set_sharding(result, source)

    @staticmethod
    def _append(place: Place, op: Operation, value: Value, sharding: TensorSharding) -> Value:
        added = place.insert(make_reshard(value, sharding, op.location))
        replace_other_uses(value, added.result)
        return added.result
