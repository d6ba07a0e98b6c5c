"""Base classes of passes: frozen dataclasses whose fields are their options."""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, ClassVar, dataclass_transform

from emu.mlir.arguments import ArgumentError, check
from emu.mlir.diagnostics import Diagnostics, MlirError, PassFailed
from emu.mlir.gc_pause import paused_collection
from emu.mlir.symbols import indexed

if TYPE_CHECKING:
    from emu.mlir.ir import Operation
    from emu.sdy.propagation.events import Listener


@dataclass(slots=True)
class Session:
    """State shared by the passes of one run.

    Attributes:
        diagnostics: Receives the diagnostics of the passes.
        listener: Receives each step of propagation (see ``emu.sdy.provenance``).
        verify_each: Whether to verify the module after each pass.
        verified: What operations anywhere in the module may refer to, as it was when the module was
            last found valid; None before that.
    """

    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    listener: Listener | None = None
    verify_each: bool = True
    verified: list[object] | None = None


_registered: dict[str, type[Pass]] = {}


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Pass(ABC):
    """Base class of all passes.

    A subclass is a frozen dataclass whose fields are the pass's options: a field
    ``keep_sharding_rules`` is the option ``keep-sharding-rules``. With ``name``, it is registered
    under that name::

        class Cse(ModulePass, name="cse"): ...

    Attributes:
        name: Shardy's name, ``"sdy-basic-propagate"``.
        marks_changes: Whether ``Operation.changed`` tells all that it changes. Default: False; after
            such a pass, the whole module is verified.
        anchor: Name of the operation that it runs on.
    """

    name: ClassVar[str]
    anchor: ClassVar[str]
    marks_changes: ClassVar[bool] = False

    def __init_subclass__(cls, *, name: str = "") -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)
        # Of our own passes a test shows it; others may set a type or a list without a mark.
        cls.marks_changes = cls.__module__.startswith("emu.sdy.passes.")
        if not name:
            return
        if name in _registered:
            raise ValueError(f"pass {name!r} is registered already")
        cls.name = name
        _registered[name] = cls

    def __post_init__(self) -> None:
        """Raise ArgumentError for options of the wrong type."""
        for option, kind in _option_types(type(self)).items():
            value = getattr(self, option)
            if kind is bool or not isinstance(value, kind) or isinstance(value, bool):
                check(f"{self.name}: {option}", value, kind, f"of type {kind.__name__}")

    @abstractmethod
    def run(self, op: Operation, session: Session) -> None:
        """Transform ``op`` in place; raise ``PassFailed`` after emitting errors."""


class ModulePass(Pass):
    """A pass over a module."""

    anchor: ClassVar[str] = "builtin.module"


class FunctionPass(Pass):
    """A pass over each function separately."""

    anchor: ClassVar[str] = "func.func"


class Pipeline(ModulePass):
    """A sequence of passes that depends on its options."""

    @abstractmethod
    def passes(self) -> Sequence[Pass]:
        """Return the passes, in order."""

    def run(self, op: Operation, session: Session) -> None:
        """Run each pass on the module, or on each of its functions."""
        for each in self.passes():
            run_pass(each, op, session)


@cache
def _option_types(kind: type[Pass]) -> Mapping[str, type]:
    """Return the options that have a class as type, with that class."""
    hints = typing.get_type_hints(kind)
    found: dict[str, type] = {}
    for each in fields(kind):
        declared = hints[each.name]
        if typing.get_origin(declared) is tuple:
            declared = tuple
        if isinstance(declared, type):
            found[each.name] = declared
    return found


_INTERNAL = "internal error:"


def registered() -> Mapping[str, type[Pass]]:
    """Return the passes of the modules imported so far, by name."""
    return _registered


def _run(each: Pass, module: Operation, session: Session) -> None:
    if each.anchor == "builtin.module":
        each.run(module, session)
        return
    with indexed(module):
        # One function's failure does not keep the errors of the others from being reported.
        failed: PassFailed | None = None
        for op in [op for op in module.body() if op.name == each.anchor]:
            try:
                each.run(op, session)
            except PassFailed as failure:
                failed = failed or failure
        if failed is not None:
            raise failed


def run_pass(each: Pass, module: Operation, session: Session) -> None:
    """Run a pass on the module, or on each of its functions.

    With ``session.verify_each``, the module is verified afterwards (for pipelines,
    after each of their passes instead), as far as it has changed since it was last found
    valid.
    """
    with paused_collection():
        try:
            _run(each, module, session)
        except (MlirError, PassFailed, ArgumentError, OSError):
            raise
        except RecursionError:
            message = f"{each.name}: regions, calls or types are nested too deeply"
            session.diagnostics.error(module.location, message)
            raise PassFailed(message) from None
        except Exception as error:
            # The module is valid, but the pass did not expect it.
            message = f"{each.name} cannot take this module: {_INTERNAL} {type(error).__name__}"
            message += f": {error}" if str(error) else ""
            session.diagnostics.error(module.location, message)
            raise PassFailed(message) from error
        if session.verify_each and not isinstance(each, Pipeline):
            _verify_changes(each, module, session)


def _verify_changes(each: Pass, module: Operation, session: Session) -> None:
    from emu.mlir.verify import (
        changed_operations,
        concerned_by,
        operations_inside,
        reordered_operations,
        symbols_beside_functions,
        verify,
    )

    # Most passes of a pipeline change few operations or none, and a verification costs more than
    # most passes do.
    inside = operations_inside(module)  # once: a walk misses the processor's caches at each step
    changed = changed_operations(module, inside)
    around = symbols_beside_functions(module)
    known = session.verified is not None and each.marks_changes
    if known and not changed and around == session.verified:
        return
    only = reordered = None
    if known and around == session.verified:
        only, reordered = concerned_by(module, changed, inside), reordered_operations(changed)
    if not verify(module, session.diagnostics, only, reordered=reordered, inside=inside):
        session.verified = None
        raise PassFailed(f"the module failed to verify after {each.name}")
    for op in changed:
        op.changed = False
    session.verified = around
