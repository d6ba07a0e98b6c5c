"""Custom calls: functions that users registered, and those that JAX's programs need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from emu.kernels.core.messages import shown
from emu.mlir.arguments import ArgumentError, check_flag, check_text
from emu.mlir.attributes import ArrayAttr, Attribute, DictAttr, IntegerAttr, StringAttr
from emu.mlir.ir import Operation
from emu.stablehlo.reference.control import sorted_by
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.random import threefry2x32
from emu.stablehlo.reference.scope import CustomCall, Handler, Scope, handles
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array

_F = TypeVar("_F", bound=CustomCall)

_registered: dict[str, CustomCall] = {}
TARGETS: dict[str, Handler] = {}
"""Built-in handlers by the name of their target."""


def register_custom_call(name: str, *, replace: bool = False) -> Callable[[_F], _F]:
    """Return a decorator that registers a function as what a custom call computes.

    The function is called with the operation and one array per operand, and returns a sequence of
    one array per result, each of the type that the operation says. Operands cannot be written to.
    In a partitioned program it gets shards; ``register_rule("@name")`` says how they may be cut.
    PEs get the function by its import, or by cloudpickle where it has none, like the functions of
    ``emu.launch``. A function that is given as ``custom_calls=`` to ``compile`` or ``run`` takes
    the place of a registered one for that program.

    Args:
        name: The target of the custom call, without "@".
        replace: Replace what is registered or built in under this name, which is an error
            otherwise. Default: no.

    Raises:
        ArgumentError: The name is empty or taken, or the decorated object is not callable.

    Example:
        >>> @emu.sdy.register_custom_call("twice")
        ... def twice(op, x):
        ...     return [x + x]
    """
    check_text("name", name, "the target of a custom call")
    check_flag("replace", replace)
    if not name.strip() or not name.isprintable() or name.startswith("@"):
        raise ArgumentError(
            f'name must be the target of a custom call without "@", but got {shown(name)}'
        )
    if not replace and (name in _registered or name in TARGETS):
        kind = "registered" if name in _registered else "built in"
        raise ArgumentError(
            f"custom call {shown(name)} is {kind} already; replace=True replaces it"
        )

    def add(function: _F) -> _F:
        if not callable(function):
            raise ArgumentError(
                f"custom call {shown(name)} must be a function of an operation and arrays, "
                f"but got {shown(function, with_type=True)}"
            )
        _registered[name] = function
        return function

    return add


def unregister_custom_call(name: str) -> None:
    """Remove a user's function; a built-in one that it replaced is in effect again."""
    if _registered.pop(check_text("name", name, "the target of a custom call"), None) is None:
        raise ArgumentError(f"no custom call is registered as {shown(name)}")


def target_of(op: Operation) -> str:
    """Return the target of a custom call."""
    name = op.properties["call_target_name"]
    return name.value if isinstance(name, StringAttr) else str(name)


def registered_calls(module: Operation) -> dict[str, CustomCall]:
    """Return the registered functions that a module calls, by their targets."""
    calls = (op for op in module.walk() if op.name == "stablehlo.custom_call")
    targets = dict.fromkeys(target_of(op) for op in calls)
    return {name: _registered[name] for name in targets if name in _registered}


@handles("stablehlo.custom_call")
def _custom_call(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    target = target_of(op)
    function = scope.program.custom_calls.get(target, _registered.get(target))
    if function is not None:
        return _called(function, op, args, target)
    handler = TARGETS.get(target)
    if handler is None:
        raise EvaluationError(_unknown(target, scope.program.custom_calls))
    return handler(op, args, scope)


def _called(
    function: CustomCall, op: Operation, args: Sequence[Array], target: str
) -> Sequence[Array]:
    """Call a user's function, with arrays that it cannot write to."""
    views = [np.asarray(each).view() for each in args]
    for view in views:
        # An operand may be a constant's bytes, or a value that others still need.
        view.flags.writeable = False
    found: object = function(op, *views)
    if isinstance(found, np.ndarray) or not isinstance(found, Sequence):
        raise EvaluationError(
            f"custom call @{target} must return a sequence of arrays, but its function returned "
            f"{shown(type(found).__name__)}"
        )
    if len(found) != len(op.results):
        raise EvaluationError(
            f"custom call @{target} must return {len(op.results)} arrays, but its function "
            f"returned {len(found)}"
        )
    return [np.asarray(each) for each in found]


def _unknown(target: str, given: Mapping[str, CustomCall]) -> str:
    # Those of our own are no user's: probes of a program that is checked.
    users = {name for name in (*given, *_registered) if not name.startswith("emu.")}
    known = ", ".join(sorted(users)) or "none"
    hint = ""
    if "callback" in target:
        hint = " (a Python callback of JAX exists only in the process that traced it)"
    return (
        f"nothing computes the custom call @{target}{hint}; register a function with "
        f"@emu.sdy.register_custom_call({target!r}), or pass custom_calls={{{target!r}: "
        f"function(op, *arrays) -> arrays}} (known besides the built-in ones: {known})"
    )


# Options


def options_of(op: Operation) -> Mapping[str, Attribute]:
    """Return the entries of a custom call's configuration, where it is a dictionary."""
    found = op.attributes.get("mhlo.backend_config") or op.properties.get("backend_config")
    return found.as_dict() if isinstance(found, DictAttr) else {}


def number_option(op: Operation, name: str, default: int = 0) -> int:
    """Return a whole number of a custom call's configuration."""
    found = options_of(op).get(name)
    return found.value if isinstance(found, IntegerAttr) else default


def computes(*names: str) -> Callable[[Handler], Handler]:
    """Make a function the handler of built-in targets."""

    def register(handler: Handler) -> Handler:
        TARGETS.update(dict.fromkeys(names, handler))
        return handler

    return register


# Targets that only say something to a compiler


@computes(
    *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"),
    *(
        "LayoutConstraint",
        "Pin",
        "Unpin",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.PropagationBarrier",
    ),
)
def _identity(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    shapes = [result_shape(op, i) for i in range(len(op.results))]
    if [x.shape for x in args] != shapes:
        raise EvaluationError(
            f"custom call @{target_of(op)} changes shapes, which is not evaluated"
        )
    return args


@computes("dce_sink", "xla.sdy.ShardingGroup")
def _nothing(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return ()


@computes("AllocateBuffer", "CreateBuffer")
def _allocated(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    # What the memory holds is not defined; zeros are the same on every machine.
    return [np.zeros(result_shape(op, i), result_dtype(r.type)) for i, r in enumerate(op.results)]


@computes("shape_assertion")
def _shape_assertion(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    if not args[0]:
        message = op.attributes.get("error_message")
        text = message.value if isinstance(message, StringAttr) else "a shape is wrong"
        for index, value in enumerate(args[1:]):
            text = text.replace(f"{{{index}}}", str(value))
        raise EvaluationError(text)
    return ()


@computes("cu_threefry2x32_ffi", "hip_threefry2x32_ffi")
def _threefry(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    keys, counts = args[:2], args[2:]
    found = threefry2x32((keys[0], keys[1]), counts[0], counts[1])
    return [np.asarray(each, np.uint32) for each in found]


@computes("ApproxTopK")
def _approximate_top_k(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    """Sort with the comparator: the exact answer is one that every recall target allows."""
    count = (len(args)) // 2
    dimension, k = number_option(op, "reduction_dim"), number_option(op, "top_k")
    names = op.properties.get("called_computations")
    if not isinstance(names, ArrayAttr) or len(names.elements) != 1:
        raise EvaluationError("needs one called computation that compares")
    comparator = scope.program.function(str(names.elements[0]).lstrip("@").strip('"'))
    found = sorted_by(comparator.regions[0], args[:count], dimension, scope)
    shape = result_shape(op)
    # Without aggregation a device may return more candidates than k.
    size = shape[dimension] if shape else k
    return [np.take(each, range(size), dimension) for each in found]
