"""Which operation has which sharding rule, and how users add their own.

Rules are functions from an operation to an `OpShardingRule`, by the name of
the operation, or for custom calls by the target with a leading "@". Users'
functions come before the built-in ones.

Models repeat their layers, so most rules are asked for many times. A built-in
rule that follows from types and properties alone is made once and shared:
looking it up is cheaper than making it, and propagation, which looks up steps
by their rule, recognises an object that it has met before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar
from weakref import WeakKeyDictionary

from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check_flag, check_text
from emu.mlir.diagnostics import Diagnostic, Diagnostics, MlirError, PassFailed, Severity
from emu.mlir.ir import Operation
from emu.mlir.registry import definition, load_dialects
from emu.sdy.dialect.attributes import OpShardingRule
from emu.sdy.rules import (
    collectives,
    contraction,
    custom_calls,
    elementwise,
    gather_scatter,
    linear_algebra,
    reduction,
    slicing,
)
from emu.sdy.rules.builder import RuleFunction, pointwise_rule
from emu.sdy.rules.reading import string

__all__ = [
    "get_or_create",
    "names",
    "register",
    "registered",
    "sharding_rule",
    "unregister",
]

_F = TypeVar("_F", bound=RuleFunction)

_CUSTOM_CALL = "stablehlo.custom_call"

# Propagation handles them otherwise (data flow, functions, barriers), or there
# is nothing to propagate (constants, tokens).
_SILENT = frozenset(
    {
        "builtin.module",
        "func.call",
        "func.func",
        "sdy.constant",
        "sdy.data_flow_edge",
        "sdy.func_data_flow_edge",
        "sdy.manual_computation",
        "sdy.mesh",
        "sdy.named_computation",
        "sdy.propagation_barrier",
        "sdy.reshard",
        "sdy.sharding_group",
        "stablehlo.after_all",
        "stablehlo.case",
        "stablehlo.constant",
        "stablehlo.create_token",
        "stablehlo.get_tuple_element",
        "stablehlo.infeed",
        "stablehlo.iota",
        "stablehlo.optimization_barrier",
        "stablehlo.outfeed",
        "stablehlo.partition_id",
        "stablehlo.recv",
        "stablehlo.send",
        "stablehlo.while",
        *(f"@{target}" for target in custom_calls.SILENT),
    }
)


# Rules that look at other operations: those that define operands or use results,
# or those inside.
_LOOKING_AROUND = frozenset(
    {
        "stablehlo.concatenate",
        "stablehlo.dynamic_update_slice",
        "stablehlo.scatter",
        "@X64Combine",
    }
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule function.

    Attributes:
        function: The function.
        takes_conservative: Whether it has the keyword.
        by_user: Whether it is a user's; what it gives is verified.
        shared: Whether equal operations have one rule.
    """

    function: RuleFunction
    takes_conservative: bool
    by_user: bool
    shared: bool

    @staticmethod
    def of(function: RuleFunction, *, by_user: bool = False, shared: bool = False) -> _Entry:
        try:
            takes = "conservative" in inspect.signature(function).parameters
        except ValueError:  # written in C: it does not say
            takes = False
        return _Entry(function, takes, by_user, shared)


def _builtin_entries() -> dict[str, _Entry]:
    families: list[Mapping[str, RuleFunction]] = [
        collectives.RULES,
        contraction.RULES,
        elementwise.RULES,
        gather_scatter.RULES,
        linear_algebra.RULES,
        reduction.RULES,
        slicing.RULES,
        {f"@{target}": function for target, function in custom_calls.RULES.items()},
    ]
    pointwise = _Entry.of(pointwise_rule)  # shares by itself, on less than types
    return {
        name: pointwise
        if function is pointwise_rule
        else _Entry.of(function, shared=name not in _LOOKING_AROUND)
        for family in families
        for name, function in family.items()
    }


_builtin = _builtin_entries()
_users: dict[str, _Entry] = {}

# Rules by name, whether conservative, types of operands and results, properties.
_shared: dict[tuple[object, ...], OpShardingRule | None] = {}
_MOST_SHARED = 1 << 14

_warned: WeakKeyDictionary[Diagnostics, set[str]] = WeakKeyDictionary()


def register(name: str, *, replace: bool = False) -> Callable[[_F], _F]:
    """Give an operation or a custom call a rule; a decorator.

    The function takes the operation and gives its rule (see `RuleBuilder`), or
    None if nothing shall propagate through it. If it has a parameter
    ``conservative``, it is told whether dimensions may only be sharded along
    factors that divide them. What it gives is verified each time.

    Args:
        name: An operation's name (``"stablehlo.add"``, ``"my.op"``), or "@" and
            the target of a custom call (``"@my_kernel"``).
        replace: Take the place of the rule that it has already; without it, that
            is an error.

    Raises:
        ArgumentError: The name is none, or has a rule; what is decorated
            cannot be called.
    """
    _check_name(name)
    check_flag("replace", replace)
    if not replace and registered(name) is not None:
        raise ArgumentError(f"{name!r} has a sharding rule already; replace=True replaces it")

    def add(function: _F) -> _F:
        if not callable(function):
            raise ArgumentError(
                f"the sharding rule of {name!r} must be a function of an operation, "
                f"but got {shown(function, with_type=True)}"
            )
        _users[name] = _Entry.of(function, by_user=True)
        return function

    return add


def unregister(name: str) -> None:
    """Take a user's rule away; a built-in one that it replaced counts again."""
    check_text("name", name, "the name of an operation")
    if _users.pop(name, None) is None:
        raise ArgumentError(f"no sharding rule was registered for {name!r}")


def registered(name: str) -> RuleFunction | None:
    """The function that makes rules for a name, a user's or a built-in one."""
    entry = _entry(name)
    return None if entry is None else entry.function


def names() -> list[str]:
    """All names that have a rule, sorted."""
    return sorted({*_builtin, *_users})


def sharding_rule(
    op: Operation, *, conservative: bool = False, diagnostics: Diagnostics | None = None
) -> OpShardingRule | None:
    """A new rule for an operation, whatever its ``sdy.sharding_rule`` says.

    Args:
        op: The operation.
        conservative: Dimensions may only be sharded along factors that divide
            them: no factors through slicing, padding, windows.
        diagnostics: Is warned, once each, of an operation and of a custom call
            of which nothing is known.

    Returns:
        The rule; None for operations without.

    Raises:
        PassFailed: A rule function failed or gave a rule that does not fit, and
            ``diagnostics`` has the error.
        MlirError: The same, without ``diagnostics``.
    """
    name = f"@{string(op, 'call_target_name')}" if op.name == _CUSTOM_CALL else op.name
    entry = _entry(name)
    if entry is None:
        if diagnostics is not None:
            _warn(op, name, diagnostics)
        return None
    try:
        if entry.shared:
            return _look_up(entry, op, name, conservative)
        rule = _call(entry, op, conservative)
    except ValueError as error:
        _fail(op, name, f"gets no sharding rule: {error}", diagnostics)
    except (IndexError, StopIteration):
        if entry.by_user:
            raise
        # Nobody has verified the operation, or nobody could.
        message = "gets no sharding rule: its attributes do not fit its types"
        _fail(op, name, message, diagnostics)
    if entry.by_user and rule is not None:
        problem = _problem_of(rule, op)
        if problem is not None:
            _fail(op, name, problem, diagnostics)
    return rule


def get_or_create(
    op: Operation,
    *,
    conservative: bool = False,
    set_on_op: bool = True,
    diagnostics: Diagnostics | None = None,
) -> OpShardingRule | None:
    """The rule that an operation has as ``sdy.sharding_rule``, else a new one.

    Args:
        op: The operation.
        conservative: See `sharding_rule`.
        set_on_op: Set a new rule as the operation's attribute.
        diagnostics: See `sharding_rule`.
    """
    found = op.attributes.get("sdy.sharding_rule")
    if isinstance(found, OpShardingRule):
        return found
    rule = sharding_rule(op, conservative=conservative, diagnostics=diagnostics)
    if set_on_op and rule is not None:
        op.attributes["sdy.sharding_rule"] = rule
    return rule


def _entry(name: str) -> _Entry | None:
    return _users.get(name) or _builtin.get(name)


def _call(entry: _Entry, op: Operation, conservative: bool) -> OpShardingRule | None:
    if entry.takes_conservative:
        return entry.function(op, conservative=conservative)
    return entry.function(op)


def _look_up(entry: _Entry, op: Operation, name: str, conservative: bool) -> OpShardingRule | None:
    """The rule that all equal operations have."""
    key = (
        name,
        conservative,
        tuple([value.type for value in op.operands]),
        tuple([value.type for value in op.results]),
        tuple(op.properties.items()),
    )
    try:
        return _shared[key]
    except KeyError:
        if len(_shared) >= _MOST_SHARED:
            _shared.clear()
        rule = _shared[key] = _call(entry, op, conservative)
        return rule


def _check_name(name: str) -> None:
    check_text("name", name, "the name of an operation")
    dialect, dot, rest = name.partition(".")
    if name == _CUSTOM_CALL:
        raise ArgumentError(f"name must be a custom call's target ('@my_kernel'), but is {name!r}")
    if not (name[1:] if name.startswith("@") else dialect and dot and rest):
        raise ArgumentError(
            "name must be an operation's, with its dialect ('my.op'), or a custom call's "
            f"target ('@my_kernel'), but is {name!r}"
        )


def _problem_of(rule: object, op: Operation) -> str | None:
    """What is wrong with what a user's function gave."""
    # Verifiers import all definitions of operations; rules do without them.
    from emu.sdy.dialect.verify.rules import sharding_rule_problem

    if not isinstance(rule, OpShardingRule):
        return f"requires an OpShardingRule or None, but got {type(rule).__name__}"
    problem = sharding_rule_problem(rule, op)
    return None if problem is None else problem.message


def _fail(op: Operation, name: str, problem: str, diagnostics: Diagnostics | None) -> NoReturn:
    """Report that a rule function failed."""
    message = f"'{op.name}' op {problem}"
    error = Diagnostic(Severity.ERROR, op.location, message)
    error.note(f"in the sharding rule that is registered for {name!r}")
    if diagnostics is None:
        raise MlirError(f"{op.location}: error: {message} ({error.notes[0].message})", [error])
    diagnostics.emit(error)
    raise PassFailed(message)


def _warn(op: Operation, name: str, diagnostics: Diagnostics) -> None:
    """Warn of an unknown operation: of one, and of one custom call, as Shardy does."""
    if name in _SILENT:
        return
    load_dialects()  # an operation that was made in Python brings no definition
    if definition(op.name).terminator:
        return
    what = f"custom call {name}" if op.name == _CUSTOM_CALL else f"op '{name}'"
    kinds = _warned.setdefault(diagnostics, set())
    if what.split()[0] not in kinds:
        kinds.add(what.split()[0])
        message = f"{what} is unknown to SDY sharding rule registry"
        diagnostics.warning(op.location, message)
