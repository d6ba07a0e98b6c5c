"""Passes that remove operations and attributes that only propagation needs."""

from __future__ import annotations

from emu.mlir.attributes import Attribute
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import TensorSharding
from emu.sdy.dialect.functions import modify_arg_attributes, modify_result_attributes
from emu.sdy.dialect.names import (
    BLOCK_ARG_PROPAGATION_EDGES,
    BLOCK_ARG_SHARDING_ORIGINS,
    PROPAGATION_EDGES,
    RESULT_PROPAGATION_EDGES,
    RESULT_SHARDING_ORIGINS,
    SHARDING,
    SHARDING_ORIGINS,
)
from emu.sdy.dialect.shardings import remove_sharding_rules
from emu.sdy.dialect.walker import Place, transform_shardings
from emu.sdy.passes.base import FunctionPass, ModulePass, Session

_DEBUG_ATTRIBUTES = (
    PROPAGATION_EDGES,
    BLOCK_ARG_PROPAGATION_EDGES,
    RESULT_PROPAGATION_EDGES,
    SHARDING_ORIGINS,
    BLOCK_ARG_SHARDING_ORIGINS,
    RESULT_SHARDING_ORIGINS,
)


def _remove_from_function(func: Operation, names: tuple[str, ...]) -> None:
    def remove(entries: dict[str, Attribute], _index: int) -> None:
        for name in names:
            entries.pop(name, None)

    modify_arg_attributes(func, remove)
    modify_result_attributes(func, remove)


class CloseShardings(ModulePass, name="sdy-close-shardings"):
    """Close all dimensions and drop replicated axes after propagation."""

    def run(self, op: Operation, session: Session) -> None:
        """Close every sharding of the module."""
        # A module has few different shardings, each many times.
        closed: dict[TensorSharding, TensorSharding] = {}

        def close(sharding: TensorSharding, _place: Place) -> TensorSharding:
            if sharding not in closed:
                closed[sharding] = sharding.closed()
            return closed[sharding]

        transform_shardings(op, close)


class RemoveShardingGroups(ModulePass, name="sdy-remove-sharding-groups"):
    """Remove ``sdy.sharding_group`` operations."""

    def run(self, op: Operation, session: Session) -> None:
        """Erase the operations."""
        for each in op.walk():
            if each.name == "sdy.sharding_group":
                each.erase()


class DropShardingRules(FunctionPass, name="sdy-drop-sharding-rules"):
    """Remove sharding rules, except those given by the user."""

    def run(self, op: Operation, session: Session) -> None:
        """Remove the attributes."""
        remove_sharding_rules(op)


class RemovePropagationDebugInfo(ModulePass, name="sdy-remove-propagation-debug-info"):
    """Remove origins of shardings and edges of propagation."""

    def run(self, op: Operation, session: Session) -> None:
        """Remove the attributes, for functions from their arguments and results."""
        for each in op.walk():
            if each.name == "func.func":
                _remove_from_function(each, _DEBUG_ATTRIBUTES)
            elif each.attributes:
                for name in _DEBUG_ATTRIBUTES:
                    each.attributes.pop(name, None)


class DropShardingAndMesh(ModulePass, name="sdy-drop-sharding-and-mesh"):
    """Remove meshes and all ``sdy.sharding`` attributes."""

    def run(self, op: Operation, session: Session) -> None:
        """Remove the meshes and attributes."""
        for each in op.walk():
            each.attributes.pop(SHARDING, None)
            if each.name == "func.func":
                _remove_from_function(each, (SHARDING,))
            elif each.name == "sdy.mesh":
                each.erase()
