"""The registry of sharding rules, to which users can add their own.

Rule functions map an operation to its ``OpShardingRule``. They are found by the
name of the operation, or for custom calls by the target with a leading "@".
Users' functions take precedence over the built-in ones.

Models repeat their layers, so most rules are needed many times. A built-in rule
that follows from types and properties alone is built once and shared: looking it
up is cheaper than building it, and propagation, which looks up steps by their
rule, recognises an object that it has seen before.
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
from emu.stablehlo.dialect import SPECS

_F = TypeVar("_F", bound=RuleFunction)

_CUSTOM_CALL = "stablehlo.custom_call"

# Propagation handles these in other ways (data flow, functions, barriers), or they
# have nothing to propagate (constants, tokens).
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
        *(name for name, spec in SPECS.items() if spec.needs_no_rule),
        *(f"@{target}" for target in custom_calls.SILENT),
    }
)


# Rules that depend on other operations: those that define operands, use results,
# or are inside.
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
        takes_conservative: Whether it has the keyword ``conservative``.
        by_user: Whether a user registered it; its rules are verified.
        shared: Whether equal operations share one rule.
    """

    function: RuleFunction
    takes_conservative: bool
    by_user: bool
    shared: bool

    @staticmethod
    def of(function: RuleFunction, *, by_user: bool = False, shared: bool = False) -> _Entry:
        try:
            takes = "conservative" in inspect.signature(function).parameters
        except ValueError:  # a function written in C may have no signature
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
    """Return a decorator that registers a function as the rule of an operation or custom call.

    The function takes the operation and returns its rule (see ``RuleBuilder``), or
    None if nothing is to propagate through it. If it has a parameter
    ``conservative``, it gets whether dimensions may only be sharded along factors
    that divide them. The rules that it returns are verified each time.

    Args:
        name: An operation's name (``"stablehlo.add"``, ``"my.op"``), or "@" and
            the target of a custom call (``"@my_kernel"``).
        replace: Replace an existing rule, which is an error otherwise.
            Default: no.

    Raises:
        ArgumentError: The name is invalid or has a rule already, or the decorated
            object is not callable.
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
    """Remove a user's rule; a built-in one that it replaced is in effect again."""
    check_text("name", name, "the name of an operation")
    if _users.pop(name, None) is None:
        raise ArgumentError(f"no sharding rule was registered for {name!r}")


def has_user_rules() -> bool:
    """Return whether there are rules of users."""
    return bool(_users)


def registered(name: str) -> RuleFunction | None:
    """Return the rule function of a name, a user's or a built-in one, or None."""
    entry = _entry(name)
    return None if entry is None else entry.function


def names() -> list[str]:
    """Return all names that have a rule, sorted."""
    return sorted({*_builtin, *_users})


def sharding_rule(
    op: Operation, *, conservative: bool = False, diagnostics: Diagnostics | None = None
) -> OpShardingRule | None:
    """Return a new rule for an operation, independent of its ``sdy.sharding_rule``.

    Args:
        op: The operation.
        conservative: Whether dimensions may only be sharded along factors that
            divide them: no factors through slicing, padding, windows. Default: no.
        diagnostics: Receives a warning for the first unknown operation, and one for
            the first unknown custom call.

    Returns:
        The rule; None for an operation without a rule.

    Raises:
        PassFailed: A rule function failed or returned a rule that does not fit, and
            ``diagnostics`` has the error.
        MlirError: The same, if ``diagnostics`` is None.
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
        # The operation was not, or could not be, verified before.
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
    """Return the rule in an operation's ``sdy.sharding_rule``, or else a new one.

    Args:
        op: The operation.
        conservative: See ``sharding_rule``.
        set_on_op: Whether to set a new rule as the operation's attribute.
            Default: yes.
        diagnostics: See ``sharding_rule``.
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
    """Return the rule that all equal operations share."""
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
    """Return the problem with the result of a user's function, or None."""
    # The verifier imports all definitions of operations, which rules do not need.
    from emu.sdy.dialect.verify.rules import sharding_rule_problem

    if not isinstance(rule, OpShardingRule):
        return f"requires an OpShardingRule or None, but got {type(rule).__name__}"
    problem = sharding_rule_problem(rule, op)
    return None if problem is None else problem.message


def _fail(op: Operation, name: str, problem: str, diagnostics: Diagnostics | None) -> NoReturn:
    """Report that a rule function failed, and raise."""
    message = f"'{op.name}' op {problem}"
    error = Diagnostic(Severity.ERROR, op.location, message)
    error.note(f"in the sharding rule that is registered for {name!r}")
    if diagnostics is None:
        raise MlirError(f"{op.location}: error: {message} ({error.notes[0].message})", [error])
    diagnostics.emit(error)
    raise PassFailed(message)


def _warn(op: Operation, name: str, diagnostics: Diagnostics) -> None:
    """Warn of an unknown operation, but only of the first one per kind, as Shardy does."""
    if name in _SILENT:
        return
    load_dialects()  # an operation built in Python does not load its definition
    if definition(op.name).terminator:
        return
    what = f"custom call {name}" if op.name == _CUSTOM_CALL else f"op '{name}'"
    kinds = _warned.setdefault(diagnostics, set())
    if what.split()[0] not in kinds:
        kinds.add(what.split()[0])
        message = f"{what} is unknown to SDY sharding rule registry"
        diagnostics.warning(op.location, message)
