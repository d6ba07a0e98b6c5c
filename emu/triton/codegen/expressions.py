"""Visits of expressions: operators, comparisons, subscripts, attributes, literals."""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from emu.tile.ir import Region, Value
from emu.tile.ops import Code
from emu.triton.codegen import hints
from emu.triton.codegen.assignment import assign
from emu.triton.codegen.state import State
from emu.triton.codegen.values import (
    Mismatch,
    common_type,
    composite,
    constexpr,
    describe,
    fit,
    flatten,
    is_tensor,
    normalize,
    tensor,
    truth,
    tuple,
    type_of,
    unwrap,
)
from emu.triton.language import overflow
from emu.triton.language.arithmetic import where
from emu.triton.language.threads import is_own, settled
from emu.triton.language.values import unflatten
from emu.triton.source import BoundMethod, JITCallable

Function = Callable[..., Any]

_OPERATORS: dict[type[ast.AST], Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}

_UNARY: dict[type[ast.AST], Function] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}

_CONVERSIONS: dict[int, Function] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}

CONDITIONS = (bool, int, type(None))
"""Types of known values that may decide an ``if``; no subclasses."""


def visit_constant(state: State, node: ast.Constant) -> constexpr:
    """Return a literal as a value known at compile time."""
    return constexpr(node.value)


def visit_name(state: State, node: ast.Name) -> object:
    """Return the value of a name."""
    return state.lookup(node.id)


def visit_tuple(state: State, node: ast.Tuple) -> tuple:
    """Return a tuple of the items."""
    return tuple(list(_items(state, node.elts)))


def visit_list(state: State, node: ast.List) -> tuple:
    """Return a list, which is a tuple to kernels."""
    return tuple(list(_items(state, node.elts)))


def _items(state: State, nodes: list[ast.expr]) -> Iterator[object]:
    for node in nodes:
        if isinstance(node, ast.Starred):
            yield from unpacked(state, node.value)
        else:
            yield normalize(state.visit(node))


def unpacked(state: State, node: ast.expr) -> list[object]:
    """Return the items of a starred value.

    Raises:
        TypeError: The value is not a tuple.
    """
    value = normalize(unwrap(state.visit(node)))
    if not isinstance(value, tuple):
        raise TypeError(f"only a tuple can be unpacked, but got {describe(value)}")
    return list(value.values)


def arguments_of(state: State, nodes: Sequence[ast.expr]) -> list[object]:
    """Return the values of a call's positional arguments, with starred ones unpacked."""
    arguments: list[object] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            arguments += unpacked(state, node.value)
        else:
            arguments.append(state.visit(node))
    return arguments


def visit_slice(state: State, node: ast.Slice) -> slice:
    """Return a slice of plain values."""
    parts = (node.lower, node.upper, node.step)
    return slice(*[None if part is None else unwrap(state.visit(part)) for part in parts])


def visit_subscript(state: State, node: ast.Subscript) -> object:
    """Return an item, or a tensor with other axes."""
    value = state.visit(node.value)
    index = state.visit(node.slice)
    if isinstance(value, tensor):
        try:
            return normalize(value[index])
        except TypeError as error:
            raise hints.subscript(ast.unparse(node.value), value, error) from None
    if isinstance(value, tuple):
        return _item(node, value, index)
    if isinstance(value, composite):
        return method_result(state, node, value, "__getitem__", index)
    return _item(node, unwrap(value), unwrap(index))


def _item(node: ast.Subscript, value: Any, index: object) -> object:
    try:
        return normalize(value[index])
    except IndexError as error:
        raise hints.item(ast.unparse(node.value), value, unwrap(index), error) from None


def visit_attribute(state: State, node: ast.Attribute) -> object:
    """Return an attribute; of a constexpr, that of its value."""
    value = state.visit(node.value)
    if isinstance(value, constexpr) and node.attr not in ("value", "type"):
        value = value.value
    try:
        found = member_of(value, node.attr)
    except AttributeError as error:
        raise _unknown(node, value, error) from None
    return found if callable(found) else normalize(found)


def _unknown(node: ast.Attribute, value: object, error: AttributeError) -> AttributeError:
    """Return the error for an attribute that a value does not have, with the nearest that it has."""
    owner = ast.unparse(node.value)
    near = hints.attribute(owner, value, node.attr)
    if isinstance(value, ModuleType):
        return AttributeError(f"{owner} ({value.__name__}) has no {node.attr!r}{near}")
    if isinstance(value, tensor):
        return AttributeError(f"{owner}, a tensor {value}, has no attribute {node.attr!r}{near}")
    return AttributeError(f"{error}{near}")


def member_of(value: object, name: str) -> object:
    """Return an attribute of a value; jit functions of a composite's class are bound to it."""
    if isinstance(value, composite):
        held = inspect.getattr_static(type(value), name, None)
        if isinstance(held, JITCallable):
            return BoundMethod(held, value)
    return getattr(value, name)


def method_result(
    state: State, node: ast.AST, value: composite, name: str, *arguments: object
) -> object:
    """Return what a special method of a composite gives.

    Raises:
        TypeError: Its class has no such method.
    """
    if inspect.getattr_static(type(value), name, None) is None:
        raise TypeError(f"{type(value).__name__} has no {name}")
    return state.call(node, member_of(value, name), list(arguments), {})


def visit_joinedstr(state: State, node: ast.JoinedStr) -> constexpr:
    """Return the text of an f-string."""
    return constexpr("".join(_text(state, part) for part in node.values))


def _text(state: State, node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    value = state.visit(node.value)
    if flatten(value):
        raise state.unsupported(
            node.value,
            "Cannot evaluate f-string containing non-constexpr conversion values, found "
            f'conversion of type {describe(value)}; tl.device_print("prefix: ", x) prints values of '
            "the running program",
        )
    value = unwrap(value)
    convert = _CONVERSIONS.get(node.conversion)
    converted = value if convert is None else convert(value)
    spec = "" if node.format_spec is None else state.visit(node.format_spec).value
    return format(converted, spec)


def visit_namedexpr(state: State, node: ast.NamedExpr) -> object:
    """Assign the value of ``name := value``, and return it."""
    assign(state, node.target, state.visit(node.value))
    return state.lookup(node.target.id)


def visit_listcomp(state: State, node: ast.ListComp) -> tuple:
    """Return a tuple; the comprehension is unrolled at compile time."""
    if len(node.generators) != 1:
        raise state.unsupported(node, "nested comprehensions are not supported")
    (generator,) = node.generators
    values = normalize(unwrap(state.visit(generator.iter)))
    if not isinstance(values, tuple):
        raise state.unsupported(
            node,
            f"only tuple comprehensions are supported, but this is over {describe(values)}; write the "
            "items as a tuple, or use a loop over tl.static_range",
        )
    results = []
    with state.inner_scope():
        for value in values.values:
            assign(state, generator.target, value, known=True)
            if all(_static_value(state, condition, "the condition") for condition in generator.ifs):
                results.append(normalize(state.visit(node.elt)))
    return tuple(results)


def _static_value(state: State, node: ast.expr, what: str) -> object:
    """Return the plain value of an expression that must be known at compile time.

    Raises:
        UnsupportedLanguageConstruct: The value is not known at compile time.
    """
    value = state.visit(node)
    if flatten(value):
        raise state.unsupported(
            node, f"{what} must be known at compile time, but is {describe(value)}"
        )
    return unwrap(value)


def visit_binop(state: State, node: ast.BinOp) -> object:
    """Return the value of a binary operator."""
    return operate(state, node, type(node.op), state.visit(node.left), state.visit(node.right))


def operate(
    state: State, node: ast.AST, kind: type[ast.AST], left: object, right: object
) -> object:
    """Return the result of an operator on two values.

    Raises:
        UnsupportedLanguageConstruct: There is no such operator, or the values do not support it.
    """
    function = _OPERATORS.get(kind)
    if function is None:
        hint = " Write tl.dot(a, b)." if kind is ast.MatMult else ""
        raise state.unsupported(
            node, f"AST operator '{kind.__name__}' is not (currently) implemented.{hint}"
        )
    first, second = unwrap(left), unwrap(right)
    for value, other, name in ((first, right, "__{}__"), (second, left, "__r{}__")):
        special = name.format(function.__name__.strip("_"))
        if isinstance(value, composite) and hasattr(type(value), special):
            return method_result(state, node, value, special, other)
    if is_tensor(first) or is_tensor(second):
        result = normalize(function(first, second))
        overflow.check(function, first, second)
        return result
    try:
        return normalize(function(first, second))
    except TypeError:
        names = f"'{type(first).__name__}' and '{type(second).__name__}'"
        raise state.unsupported(
            node, f"unsupported operand type(s) for {_SYMBOLS[kind]}: {names}"
        ) from None


def visit_unaryop(state: State, node: ast.UnaryOp) -> object:
    """Return the value of a unary operator."""
    value = state.visit(node.operand)
    if isinstance(node.op, ast.Not):
        return value.__not__() if is_tensor(value) else constexpr(not unwrap(value))
    if is_tensor(value):
        return _UNARY[type(node.op)](value)
    try:
        return constexpr(_UNARY[type(node.op)](unwrap(value)))
    except TypeError:
        raise state.unsupported(
            node,
            f"AST unary operator '{type(node.op).__name__}' is not (currently) implemented on "
            f"type {type(unwrap(value)).__name__}",
        ) from None


def visit_compare(state: State, node: ast.Compare) -> object:
    """Return the value of a comparison; a chain is joined by ``and``."""
    values = _comparisons(state, node)
    return next(values) if len(node.ops) == 1 else join(state, node, ast.And, values)


def _comparisons(state: State, node: ast.Compare) -> Iterator[object]:
    left = state.visit(node.left)
    for kind, operand in zip(node.ops, node.comparators, strict=True):
        right = state.visit(operand)
        if isinstance(kind, ast.Is | ast.IsNot):
            yield constexpr((unwrap(left) is unwrap(right)) == isinstance(kind, ast.Is))
        elif isinstance(kind, ast.In | ast.NotIn):
            raise state.unsupported(
                node,
                f"AST comparison operator '{type(kind).__name__}' is not (currently) implemented. "
                "Compare with == and join by `or`.",
            )
        else:
            yield operate(state, node, type(kind), left, right)
        left = right


def visit_boolop(state: State, node: ast.BoolOp) -> object:
    """Return the value of ``and`` or ``or``."""
    return join(state, node, type(node.op), (state.visit(v) for v in node.values), warn=True)


def join(
    state: State, node: ast.expr, kind: type[ast.AST], values: Iterator[object], warn: bool = False
) -> object:
    """Return ``and`` or ``or`` of values; known ones decide at compile time, in order."""
    decides = kind is ast.Or
    parts: list[tensor] = []
    value: object = None
    for value in values:
        if not is_tensor(value):
            if bool(unwrap(value)) is decides:
                return value
            continue
        if warn and value.type.is_block() and not is_own(value):
            _warn_of_blocks(state, node)
        parts.append(value)
    if not parts:
        return value
    # From the right, as Python groups conditions that are all evaluated.
    result = parts.pop()
    while parts:
        left = parts.pop()
        result = left.logical_or(result) if decides else left.logical_and(result)
    return result


def _warn_of_blocks(state: State, node: ast.expr) -> None:
    warnings.warn_explicit(
        "Logical operators 'and' and 'or' are deprecated for non-scalar tensors; please use '&' "
        "or '|' instead",
        category=UserWarning,
        filename=state.frame.function.file_name,
        lineno=node.lineno + state.frame.line,
        source=ast.unparse(node),
    )


def as_condition(state: State, value: tensor) -> tensor:
    """Return a condition of the running program as a scalar ``int1``."""
    return truth(value, functools.partial(_single, state))


def _single(state: State, value: tensor) -> tensor:
    handle = value.handle
    while handle.shape:
        (handle,) = state.builder.reduce([handle], 0, functools.partial(_either, state))
    return tensor(handle, value.dtype)


def _either(state: State, first: Value, second: Value) -> list[Value]:
    return [state.builder.binary(Code.MAX, first, second)]


def static_truth(state: State, node: ast.AST, value: object) -> bool:
    """Return the truth of a value known at compile time.

    Raises:
        UnsupportedLanguageConstruct: The value's type is not one of :data:`CONDITIONS`.
    """
    plain = unwrap(value)
    if type(plain) not in CONDITIONS:
        names = ", ".join(t.__name__ for t in CONDITIONS)
        raise state.unsupported(
            node,
            f"`if` conditionals can only accept values of type {{{names}}}, not objects of type "
            f"{type(plain).__name__}",
        )
    return bool(plain)


def visit_ifexp(state: State, node: ast.IfExp) -> object:
    """Return the chosen value of a ternary, or append an IF where the condition is not known."""
    value = state.visit(node.test)
    if not is_tensor(value):
        return state.visit(node.body if static_truth(state, node, value) else node.orelse)
    value = settled(value)
    if is_own(value):  # each thread chooses; both sides are computed
        return normalize(where(value, state.visit(node.body), state.visit(node.orelse)))
    condition = as_condition(state, value)
    sides = []
    for side in (node.body, node.orelse):
        region = Region()
        with state.builder.into(region), state.inner_scope():
            sides.append((region, normalize(state.visit(side))))
    (then, first), (other, second) = sides
    try:
        type_ = common_type(type_of(first), type_of(second))
        for region, chosen in sides:
            with state.builder.into(region):
                made = fit(chosen, type_)
                state.builder.yield_(*flatten(made))
    except Mismatch:
        raise _ternary_error(first, second) from None
    if all(len(region.operations) == 1 for region, _ in sides) and not flatten(made):
        return made
    return unflatten(made, state.builder.if_(condition.handle, then, other))


def _ternary_error(first: object, second: object) -> TypeError:
    """Return the error for a ternary whose sides differ."""
    return TypeError(
        "Ternary expression with dynamic condition has inconsistent types "
        f"{describe(first)} and {describe(second)}"
    )


def condition_of(state: State, node: ast.If | ast.While, value: tensor) -> tensor:
    """Return the condition of a branch or loop as a scalar ``int1``; errors name the node."""
    try:
        return as_condition(state, value)
    except TypeError as error:
        raise state.unsupported(node, str(error)) from None
