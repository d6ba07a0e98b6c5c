"""The four passes that propagate shardings, each built on the one before.

======================== ===================================================
``sdy-basic-propagate``  axes on which all tensors of a factor agree
``sdy-aggressive-…``     resolves conflicts between tensors or factors
``sdy-op-priority-…``    five rounds, by kind of operation
``sdy-user-priority-…``  all of that for each user priority
======================== ===================================================
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum

from emu.mlir.diagnostics import Diagnostics, PassFailed
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType, TupleType, UnrankedTensorType
from emu.sdy.dialect.shardings import remove_sharding_rules
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.save_module import SaveModule
from emu.sdy.propagation.driver import Driver
from emu.sdy.propagation.event_emitter import EventEmitter
from emu.sdy.propagation.groups import ShardingGroups
from emu.sdy.propagation.origins import SourceTracker
from emu.sdy.propagation.priorities import ROUNDS, UserPriorities, everywhere
from emu.sdy.propagation.steps import StrategyName


class PropagationStrategy(Enum):
    """Values of the option ``propagation-strategy``."""

    BASIC = "basic"
    AGGRESSIVE = "aggressive"
    BASIC_THEN_AGGRESSIVE = "basic-then-aggressive"

    @property
    def parts(self) -> tuple[StrategyName, ...]:
        """Strategies to run to a fixpoint, one after the other."""
        match self:
            case PropagationStrategy.BASIC:
                return (StrategyName.BASIC,)
            case PropagationStrategy.AGGRESSIVE:
                return (StrategyName.AGGRESSIVE,)
            case PropagationStrategy.BASIC_THEN_AGGRESSIVE:
                return (StrategyName.BASIC, StrategyName.AGGRESSIVE)


class _Propagate(ModulePass):
    """Base class of the four passes.

    Attributes:
        keep_sharding_rules: Whether to leave the sharding rules on the operations.
        module_dump_directory: Directory for modules saved between user priorities;
            none if empty.
        conservative_propagation: Whether to avoid sub-axes and uneven shards.
        debug_sharding_origins: Whether to record for each axis the input,
            constraint or output that it comes from.
        debug_propagation_edge_sharding: Whether to record for each operation the
            operands and results between which axes went, and the step.
    """

    keep_sharding_rules: bool = False
    module_dump_directory: str = ""
    conservative_propagation: bool = False
    debug_sharding_origins: bool = False
    debug_propagation_edge_sharding: bool = False

    def run(self, op: Operation, session: Session) -> None:
        """Propagate through a module."""
        tracker = SourceTracker(
            op, origins=self.debug_sharding_origins, edges=self.debug_propagation_edge_sharding
        )
        _check_shapes(op, session.diagnostics)
        # Groups agree before the first visit, so that every visit sees final members.
        groups = ShardingGroups(op, session.diagnostics)
        grouped = groups.synchronise()
        driver = Driver(op, groups, session.diagnostics, conservative=self.conservative_propagation)
        if tracker.is_enabled:
            driver.observers.append(tracker.record_visit)
        emitter = None
        if session.listener is not None:
            emitter = EventEmitter(op, groups, session.listener)
            emitter.emit_initial(grouped)
            driver.observers.append(emitter.emit_visit)
        self.propagate(driver, emitter)
        if not self.keep_sharding_rules:
            remove_sharding_rules(op)
        tracker.save()

    @abstractmethod
    def propagate(self, driver: Driver, emitter: EventEmitter | None) -> None:
        """Run the driver to its fixpoints."""


class BasicPropagate(_Propagate, name="sdy-basic-propagate"):
    """Propagate axes on which all operands and results agree."""

    def propagate(self, driver: Driver, emitter: EventEmitter | None) -> None:
        """Run one fixpoint."""
        driver.run(StrategyName.BASIC, everywhere)


class AggressivePropagate(_Propagate, name="sdy-aggressive-propagate"):
    """Propagate axes, resolving conflicts between tensors or factors.

    Attributes:
        propagation_strategy: The strategy along factors.
    """

    propagation_strategy: PropagationStrategy = PropagationStrategy.AGGRESSIVE

    def propagate(self, driver: Driver, emitter: EventEmitter | None) -> None:
        """Run a fixpoint for each strategy."""
        for strategy in self.propagation_strategy.parts:
            driver.run(strategy, everywhere)


class OpPriorityPropagate(AggressivePropagate, name="sdy-op-priority-propagate"):
    """Propagate in rounds by kind of operation.

    Attributes:
        run_op_priority_propagation: Whether to run rounds; otherwise the pass is
            ``sdy-aggressive-propagate``.
    """

    run_op_priority_propagation: bool = True

    def propagate(self, driver: Driver, emitter: EventEmitter | None) -> None:
        """Run the fixpoints of each round."""
        self._run_rounds(driver, 0)

    def _run_rounds(self, driver: Driver, user_priority: int) -> None:
        rounds = ROUNDS if self.run_op_priority_propagation else (everywhere,)
        for index, direction_of in enumerate(rounds):
            driver.round = (user_priority, index)
            for strategy in self.propagation_strategy.parts:
                driver.run(strategy, direction_of)


class UserPriorityPropagate(OpPriorityPropagate, name="sdy-user-priority-propagate"):
    """Propagate in rounds by user priority, each with rounds by kind of operation.

    Attributes:
        dump_index: Number that the names of saved modules begin with.
    """

    dump_index: int = 0

    def propagate(self, driver: Driver, emitter: EventEmitter | None) -> None:
        """Run the rounds for each priority."""
        priorities = UserPriorities(driver.module, driver.table)
        if emitter is not None:
            emitter.emit_restored(0, priorities.changed)
        # Creating ``priorities`` has hidden all dimensions with a priority above 0.
        self._run_rounds(driver, 0)
        previous = 0
        for priority in priorities:
            self._save_module(driver, previous)
            restored = priorities.restore(priority)
            if emitter is not None:
                emitter.emit_restored(priority, restored)
            self._run_rounds(driver, priority)
            previous = priority

    def _save_module(self, driver: Driver, priority: int) -> None:
        title = f"propagation_after_user_priority_{priority}"
        saving = SaveModule(self.module_dump_directory, title, self.dump_index)
        saving.run(driver.module, Session(driver.diagnostics))


def _check_shapes(module: Operation, diagnostics: Diagnostics) -> None:
    """Raise PassFailed unless all sharded values are ranked tensors of static shape."""
    for op in module.walk(post_order=True):
        for result in op.results:
            type_ = result.type
            if isinstance(type_, UnrankedTensorType) or (
                isinstance(type_, TensorType) and None in type_.shape
            ):
                message = (
                    "Shardy propagation only supports ranked tensors with a static shape. type: "
                )
            elif isinstance(type_, TupleType):
                message = "Shardy propagation doesn't support tuples: "
            else:
                continue
            diagnostics.error(op.location, f"{message}'{type_}'")
            raise PassFailed("a type cannot be sharded")
