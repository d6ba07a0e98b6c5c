"""Translation of a kernel's syntax tree to a module of the tile IR."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import IMPURE
from emu.triton.codegen import branches, calls, expressions, loops, statements, threads
from emu.triton.codegen.errors import CompilationError
from emu.triton.codegen.state import State, Visitor, message_of
from emu.triton.codegen.values import (
    base_value,
    constexpr,
    flatten,
    is_tensor,
    parameter,
    tensor,
    tuple,
    unwrap,
)
from emu.triton.language.blocks import stored_type
from emu.triton.language.constants import constexpr_type
from emu.triton.language.context import Context, building, current
from emu.triton.language.types import dtype, float32, str_to_ty, tuple_type
from emu.triton.source import JITCallable, KernelParam

VISITORS: Mapping[type[ast.AST], Visitor] = {
    ast.AnnAssign: statements.visit_annassign,
    ast.Assert: statements.visit_assert,
    ast.Assign: statements.visit_assign,
    ast.Attribute: expressions.visit_attribute,
    ast.AugAssign: statements.visit_augassign,
    ast.BinOp: expressions.visit_binop,
    ast.BoolOp: expressions.visit_boolop,
    ast.Call: calls.visit_call,
    ast.Compare: expressions.visit_compare,
    ast.Constant: expressions.visit_constant,
    ast.Expr: statements.visit_expr,
    ast.For: loops.visit_for,
    ast.If: branches.visit_if,
    ast.IfExp: expressions.visit_ifexp,
    ast.JoinedStr: expressions.visit_joinedstr,
    ast.List: expressions.visit_list,
    ast.ListComp: expressions.visit_listcomp,
    ast.Name: expressions.visit_name,
    ast.NamedExpr: expressions.visit_namedexpr,
    ast.Pass: statements.visit_pass,
    ast.Slice: expressions.visit_slice,
    ast.Subscript: expressions.visit_subscript,
    ast.Tuple: expressions.visit_tuple,
    ast.UnaryOp: expressions.visit_unaryop,
    ast.While: loops.visit_while,
    ast.With: threads.visit_with,
}
"""Visitors of all nodes that kernels may contain; ``return`` is handled by the visit of blocks."""


def _emit_kernel(state: State, arguments: Sequence[Value], narrow: Mapping[str, dtype]) -> Function:
    """Visit the kernel's body, and return the finished function.

    Args:
        state: The compilation, at the kernel's frame.
        arguments: Those of the function.
        narrow: Parameters whose values are of another dtype than the function's arguments.

    Raises:
        CompilationError: The body breaks a rule of the language.
    """
    function = state.frame.function
    (definition,) = function.parse().body
    region = Region(list(arguments))
    with state.builder.into(region):
        scope = state.frame.scope
        for name, type_ in narrow.items():
            wide = scope[name]
            assert is_tensor(wide)
            scope[name] = wide.to(type_)
        value = calls.body(state, function)
        if flatten(value):
            raise state.error(
                CompilationError,
                definition,
                f"a kernel returns nothing, but {function.__name__} returns {value!r}",
            )
        state.builder.return_()
    return Function(function.__name__, region)


def _combine(state: State, function: object, arguments: Sequence[object]) -> object:
    """Emit a combine function that was passed to the language; return its value.

    Integers may wrap around in it: how often and of what it is called is the compiler's choice.
    """
    node = _CALL if state.call_node is None else state.call_node
    region = state.builder.region
    first = len(region.operations)
    context = current()
    before, context.sanitize_overflow = context.sanitize_overflow, False
    outer, state.in_place = state.in_place, True
    try:
        value = calls.call(state, node, unwrap(function), list(arguments), {})
    finally:
        context.sanitize_overflow, state.in_place = before, outer
    asserted = [] if context.asserted is None else context.asserted.conditions
    _sweep(region, first, [*flatten(value), *asserted])
    return value


def _sweep(region: Region, first: int, results: Sequence[Value]) -> None:
    """Drop the operations from ``first`` on whose results are not used.

    A combine function that reads a tile's dtype, for example, emits tiles where only scalars may be.
    """
    needed = set(results)
    kept = []
    for operation in reversed(region.operations[first:]):
        if operation.code in IMPURE or not needed.isdisjoint(operation.results):
            kept.append(operation)
            needed.update(operation.operands)
            for inner in (o for r in operation.regions for o in r.walk()):
                needed.update(inner.operands)
    region.operations[first:] = reversed(kept)


_CALL = ast.parse("f()").body[0]


def build_module(
    fn: JITCallable,
    signature: Mapping[str, object],
    constants: Mapping[str, object] | None = None,
    options: object = None,
) -> Module:
    """Compile a kernel to the tile IR.

    Args:
        fn: The kernel.
        signature: Types of parameters: of ``triton.language``, or their text (``"*fp32"``, ``"i32"``), or
            a tuple of these, in which a constexpr (or its type) stands for a known item.
        constants: Values of the other parameters. Parameters in neither have their defaults.
        options: The launch's; an attribute or item ``debug`` makes ``device_assert`` effective, and
            ``input_precision`` rounds operands of fp32 products, ``bf16_native`` multiplies bf16 natively,
            ``num_warps`` is what a kernel learns that asks for it, ``over_hosts`` says that PEs are on several hosts.

    Returns:
        A module whose kernel takes the parameters that are not constant, in order, items of tuples one
        after the other.

    Raises:
        CompilationError: The kernel cannot be compiled.
        TypeError: A parameter has no type and no value, or there is no such parameter.
    """
    bound = _bind(fn, signature, constants or {})
    builder = Builder()
    frame = calls.frame_of(fn, bound.scope, None, 0)
    state = State(builder, frame, VISITORS)
    state.call = functools.partial(calls.call, state)
    module = Module()
    context = _context(state, module, options)
    (definition,) = fn.parse().body
    builder.location = frame.location(definition)
    with building(context):
        try:
            _check_parameters(state, fn.params, definition)
            kernel = _emit_kernel(state, bound.arguments, bound.narrow)
        except CompilationError as error:
            # Where the compiler noticed it is of no interest; the error says where the fault is.
            raise error.with_traceback(None) from error.__cause__
        except RecursionError as error:
            raise state.error(
                CompilationError, definition, f"the code is nested too deeply: {message_of(error)}"
            ) from error
    return Module({kernel.name: kernel, **module.functions})


def _context(state: State, module: Module, options: object) -> Context:
    """Return what functions of the language emit into."""
    precision = _option(options, "input_precision")
    warps = _option(options, "num_warps")
    return Context(
        state.builder,
        module,
        functools.partial(_combine, state),
        debug=bool(_option(options, "debug")),
        input_precision=None if precision is None else str(precision),
        bf16_native=bool(_option(options, "bf16_native")),
        sanitize_overflow=_option(options, "sanitize_overflow") is not False,
        num_warps=warps if isinstance(warps, int) else None,
        keeps_fences=bool(_option(options, "keeps_fences")),
        over_hosts=bool(_option(options, "over_hosts")),
    )


class _Bound(NamedTuple):
    """Parameters of a kernel with their types and values.

    Attributes:
        arguments: Arguments of the IR's function.
        scope: Values of the parameters by name.
        narrow: Parameters whose values are narrower than their arguments, with the narrow dtype.
    """

    arguments: list[Value]
    scope: dict[str, object]
    narrow: dict[str, dtype]


def _bind(
    fn: JITCallable, signature: Mapping[str, object], constants: Mapping[str, object]
) -> _Bound:
    """Give each parameter of a kernel an argument, its constant, or its default."""
    for name in (*signature, *constants):
        if name not in fn.arg_names:
            raise TypeError(
                f"signature must name parameters of {fn.__name__} {fn.arg_names}, but got {name!r}"
            )
    arguments, scope, narrow = bound = _Bound([], {}, {})
    for param in fn.params:
        if param.name in constants:
            scope[param.name] = parameter(constants[param.name])
        elif param.name in signature:
            type_ = _parsed(signature[param.name])
            if isinstance(type_, dtype) and type_.is_floating() and type_.primitive_bitwidth < 32:
                # Launches pass numbers in 32 bits at least; the kernel begins by narrowing them.
                narrow[param.name], type_ = type_, float32
            scope[param.name] = _argument(param.name, type_, arguments)
        elif param.has_default:
            scope[param.name] = parameter(param.default)
        else:
            raise TypeError(
                f"signature must have a type for {param.name} of {fn.__name__}, but got none"
            )
    return bound


def _check_parameters(state: State, params: Sequence[KernelParam], definition: ast.AST) -> None:
    for param in params:
        if param.is_constexpr and param.do_not_specialize:
            message = f"{param.name} marked as constexpr and listed in do_not_specialize; it can only be one"
            raise state.error(CompilationError, definition, message)


def _option(options: object, name: str) -> object:
    if isinstance(options, Mapping):
        return options.get(name)
    return getattr(options, name, None)


def _parsed(type_: object) -> object:
    return str_to_ty(type_) if isinstance(type_, str) else type_


def _argument(name: str, type_: object, arguments: list[Value]) -> base_value:
    """Return what a parameter of a type holds, and append what the function takes for it."""
    type_ = _parsed(type_)
    if isinstance(type_, constexpr | constexpr_type):
        return constexpr(type_.value)
    if isinstance(type_, dtype):
        value = Value(type_.to_ir(), name=name)
        arguments.append(value)
        return tensor(value, type_)
    if isinstance(type_, stored_type):
        return type_.make(
            [_argument(f"{name}.{part}", of, arguments) for part, of in type_.part_types().items()]
        )
    if isinstance(type_, Iterable):
        parts = list(type_)
        fields = getattr(type_, "fields", None) or getattr(type(type_), "_fields", None)
        labels = fields or range(len(parts))
        items = [
            _argument(f"{name}.{label}", item, arguments)
            for label, item in zip(labels, parts, strict=True)
        ]
        return tuple(items, tuple_type([i.type for i in items], fields))
    raise TypeError(f"signature must have a type for {name}, but got {type_!r}")
