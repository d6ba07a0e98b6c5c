"""Attributes that record the edges of propagation: which axis went where in which step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from emu.sdy.dialect.attributes import AxisRef, SdyAttribute
from emu.sdy.dialect.text import stripped_list


class EdgeNodeType(Enum):
    """Kinds of values that an ``EdgeValueRef`` numbers."""

    OPERAND = "operand"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class EdgeValueRef(SdyAttribute):
    """``operand-0`` or ``result-1``: an end of an edge of propagation."""

    mnemonic: ClassVar[str] = "edge_value_ref"

    type: EdgeNodeType
    index: int

    def _body(self) -> str:
        return f"{self.type.value}-{self.index}"


@dataclass(frozen=True, slots=True)
class AxisToPropagationDetails(SdyAttribute):
    """Source and targets of an axis in a step."""

    mnemonic: ClassVar[str] = "axis_to_propagation_details"

    axis: AxisRef
    source: EdgeValueRef
    targets: tuple[EdgeValueRef, ...]

    def _body(self) -> str:
        ends = f"{self.source.stripped_text()} -> [{stripped_list(self.targets)}]"
        return f"{{{self.axis.stripped_text()} = {ends}}}"


@dataclass(frozen=True, slots=True)
class PropagationOneStep(SdyAttribute):
    """Axes that a step moved."""

    mnemonic: ClassVar[str] = "propagation_one_step"

    step_index: int
    axis_entries: tuple[AxisToPropagationDetails, ...]

    def _body(self) -> str:
        return f"{{step-{self.step_index} = [{stripped_list(self.axis_entries)}]}}"


@dataclass(frozen=True, slots=True)
class PropagationEdges(SdyAttribute):
    """All steps at an operation."""

    mnemonic: ClassVar[str] = "propagation_edges"

    steps: tuple[PropagationOneStep, ...] = ()

    def _body(self) -> str:
        return f"<[{stripped_list(self.steps)}]>"
