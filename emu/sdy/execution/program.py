"""Partitioned programs as data: what ``partition`` makes, without what makes it, which loads every pass."""

from __future__ import annotations

from dataclasses import dataclass

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import Mesh
from emu.sdy.dialect.functions import function_type
from emu.sdy.execution.errors import ExecutionError
from emu.sdy.execution.pickled import Pickled
from emu.sdy.execution.shards import Placement

DEFAULT_PIPELINE = "emu-partition-pipeline"

PROBE = "emu.probe"
"""Target of the custom calls that look at values."""
NUMBER = "emu.number"
"""Their attribute that holds the number of the probe."""


@dataclass(frozen=True)
class Probe:
    """A place in the partitioned program where a value is looked at.

    Attributes:
        operation: Number of the whole program's operation whose result it is.
        result: Index of that result.
        placement: Where its elements are.
    """

    operation: int
    result: int
    placement: Placement


@dataclass(frozen=True)
class Partitioned:
    """A partitioned program.

    Attributes:
        modules: The module as it was given, and the program of one device.
        inputs: Where each input is.
        results: Where each result is.
        n_devices: Number of devices.
        operations: Operations of ``whole`` by their marks; none without probes.
        made: Texts of what the passes made of them, by the same marks.
        probes: Places where values are looked at, by their numbers; none unless asked for.
    """

    modules: Pickled[tuple[Operation, Operation]]
    inputs: tuple[Placement, ...]
    results: tuple[Placement, ...]
    n_devices: int
    operations: dict[int, Operation]
    made: dict[int, list[str]]
    probes: dict[int, Probe]

    @property
    def whole(self) -> Operation:
        """The module as it was given, with a function per call."""
        return self.modules.value[0]

    @property
    def local(self) -> Operation:
        """The program of one device; no operation of sdy is left in it."""
        return self.modules.value[1]


def main_function(module: Operation) -> Operation:
    """Return the function ``main``, or the only one there is."""
    functions = [op for op in module.body() if op.name == "func.func"]
    mains = [op for op in functions if op.symbol_name == "main"]
    if len(mains) + len(functions) == 1:
        return functions[0]
    if not mains:
        names = ", ".join(f"@{op.symbol_name}" for op in functions) or "none"
        raise ExecutionError(f"module must have a function @main, but has {names}")
    return mains[0]


def has_dynamic_inputs(module: Operation) -> bool:
    """Return whether the main function takes tensors of shapes that are not known."""
    types = function_type(main_function(module)).inputs
    return any(isinstance(each, TensorType) and not each.is_static for each in types)


def n_devices(module: Operation) -> int:
    """Return the number of devices that a module's meshes need; 1 without meshes."""
    count = 1
    for op in module.walk():
        mesh = op.properties.get("mesh") if op.name == "sdy.mesh" else None
        if isinstance(mesh, Mesh):
            count = max(count, mesh.total_size, *(device + 1 for device in mesh.device_ids))
    return count
