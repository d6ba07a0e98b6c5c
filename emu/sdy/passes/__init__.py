"""Passes as objects: those that propagate, and the pipelines.

Each is a frozen dataclass whose fields are its options; ``emu.sdy.run_passes`` takes them beside names. The
other passes are known by name only.
"""

from emu.sdy.passes.export.pipeline import ExportPipeline
from emu.sdy.passes.import_.pipeline import ImportPipeline
from emu.sdy.passes.partition import PartitionPipeline
from emu.sdy.passes.pipelines import PropagationPipeline
from emu.sdy.passes.propagate import (
    AggressivePropagate,
    BasicPropagate,
    OpPriorityPropagate,
    PropagationStrategy,
    UserPriorityPropagate,
)

__all__ = [
    "AggressivePropagate",
    "BasicPropagate",
    "ExportPipeline",
    "ImportPipeline",
    "OpPriorityPropagate",
    "PartitionPipeline",
    "PropagationPipeline",
    "PropagationStrategy",
    "UserPriorityPropagate",
]
