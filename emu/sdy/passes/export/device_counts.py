"""Options that say whether the devices of a mesh are replicas or partitions."""

from __future__ import annotations

from emu.mlir.diagnostics import PassFailed
from emu.mlir.ir import Operation
from emu.sdy.passes.base import Session


def check_device_counts(
    name: str, replica_count: int, partition_count: int, module: Operation, session: Session
) -> None:
    """Check the options ``replica-count`` and ``partition-count`` of a pass.

    Args:
        name: Name of the pass.
        replica_count: Number of replicas.
        partition_count: Number of partitions.
        module: The module that the pass runs on.
        session: Receives the errors.

    Raises:
        PassFailed: One of them is less than 1, or both are greater.
    """
    counts = f"replica-count={replica_count} and partition-count={partition_count}"
    if min(replica_count, partition_count) < 1:
        message = f"{name}: numbers of devices must be at least 1, but got {counts}"
    elif min(replica_count, partition_count) > 1:
        message = f"{name}: devices are replicas or partitions, but got {counts}"
    else:
        return
    session.diagnostics.error(module.location, message)
    raise PassFailed(message)
