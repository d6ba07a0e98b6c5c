"""``sdy-resolve-single-device-sharding``: lets one device run what only it shall run."""

from __future__ import annotations

from emu.mlir.diagnostics import Location, PassFailed
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, AxisRefList, TensorSharding
from emu.sdy.dialect.builders import make_collective
from emu.sdy.dialect.meshes import get_mesh, global_mesh_name, single_device_mesh
from emu.sdy.dialect.names import SHARDING
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.builder import Builder
from emu.sdy.passes.export.device_counts import check_device_counts
from emu.sdy.passes.insertion_point import Place


class ResolveSingleDeviceSharding(FunctionPass, name="sdy-resolve-single-device-sharding"):
    """Guard operations on one device by a comparison of the device's index.

    The other devices give zeros, and all of them add up what they have, so that the
    result is whole on each device. Operations of ``sdy`` are left.

    Attributes:
        replica_count: Number of replicas; if greater than 1, devices are replicas.
        partition_count: Number of partitions; if greater than 1, devices are partitions.
    """

    replica_count: int = 1
    partition_count: int = 1

    def run(self, op: Operation, session: Session) -> None:
        """Resolve the operations of a function."""
        module = op.parent_op
        if module is None:
            raise ValueError(f"{op.name} is in no module")
        counts = (self.replica_count, self.partition_count)
        check_device_counts(self.name, *counts, module, session)
        global_mesh = global_mesh_name(module)
        if global_mesh is None:
            return
        resolver = _Resolver(SymbolTable(module), session, global_mesh, self.replica_count > 1)
        for each in list(op.walk(post_order=True)):
            if each.dialect != "sdy":
                device = resolver.device(each)
                if device is not None:
                    resolver.resolve(each, device)


class _Resolver:
    def __init__(
        self, table: SymbolTable, session: Session, global_mesh: str, is_replica: bool
    ) -> None:
        self._table = table
        self._session = session
        self._global_mesh = global_mesh
        self._is_replica = is_replica

    def device(self, op: Operation) -> int | None:
        """Return the device that an operation runs on, or None if it is not a single one."""
        devices: set[int] = set()
        sharded = False
        for result in op.results:
            sharding = get_sharding(result) if isinstance(result.type, TensorType) else None
            mesh = single_device_mesh(sharding, self._table)
            if mesh is not None:
                devices.add(mesh.device_ids[0])
            elif sharding is not None and not sharding.is_fully_replicated:
                sharded = True
        if not devices:
            return None
        if len(devices) > 1 or sharded:
            message = (
                "has results on several devices: reshards must be inserted first, by "
                "sdy-insert-explicit-reshards"
            )
            self._session.diagnostics.error(op.location, f"'{op.name}' op {message}")
            raise PassFailed(message)
        return devices.pop()

    def resolve(self, op: Operation, device: int) -> None:
        """Replace an operation by a conditional one and all-reduces of its results."""
        build = Builder.before(op)
        number = build.device_id(is_replica=self._is_replica)
        is_here = build.compare(number, build.scalar(device), "EQ")
        conditional = build.op("if", [is_here], [result.type for result in op.results])
        reshards = self._run_in(conditional.add_region(Region()), op)
        self._zeros_in(conditional.add_region(Region()), op)
        place = Place.after(conditional)
        for result, partial in zip(op.results, conditional.results, strict=True):
            self._combine(result, partial, place, op.location)
        op.erase()
        for reshard in reshards:
            if not reshard.result.has_uses:
                reshard.erase()

    def _run_in(self, region: Region, op: Operation) -> list[Operation]:
        """Run a copy of an operation, and return the reshards that it no longer needs."""
        block = region.add_block()
        copy = op.clone({})
        copy.attributes.pop(SHARDING, None)
        reshards: dict[Operation, None] = {}
        for index, operand in enumerate(copy.operands):
            definer = operand.defining_op
            if definer is None or definer.name != "sdy.reshard":
                continue
            if single_device_mesh(get_sharding(operand), self._table) is not None:
                copy.set_operand(index, definer.operands[0])
                reshards[definer] = None
        block.append(copy)
        block.append(Operation("stablehlo.return", copy.results, location=op.location))
        return list(reshards)

    @staticmethod
    def _zeros_in(region: Region, op: Operation) -> None:
        """Give zeros, and new tokens, in place of the results."""
        block = region.add_block()
        build = Builder(block.append, op.location)
        zeros: list[Value] = [
            build.zeros(result.type)
            if isinstance(result.type, TensorType)
            else build.op("create_token", (), [result.type]).result
            for result in op.results
        ]
        block.append(Operation("stablehlo.return", zeros, location=op.location))

    def _combine(self, result: Value, partial: Value, place: Place, location: Location) -> None:
        """Replace a result by the sum of what the devices have."""
        if not isinstance(partial.type, TensorType):
            result.replace_all_uses_with(partial)
            return
        mesh = get_mesh(self._table, self._global_mesh)
        axes = AxisRefList(tuple(AxisRef(axis.name) for axis in mesh.axes))
        whole = TensorSharding.fully_closed(partial.type.rank, self._global_mesh)
        added = make_collective("sdy.all_reduce", partial, axes, whole, location)
        total = place.insert(added).result
        result.replace_all_uses_with(total)
        for user in total.users:
            if user.name == "sdy.reshard" and get_sharding(user.result) == whole:
                user.replace_with([total])
