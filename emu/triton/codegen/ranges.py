"""Ranges that ``for`` loops run over."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from emu.triton import language
from emu.triton.codegen.expressions import arguments_of
from emu.triton.codegen.state import State
from emu.triton.codegen.values import (
    cast_to,
    constexpr,
    describe,
    is_tensor,
    tensor,
    to_tensor,
    unwrap,
)
from emu.triton.language.iteration import check_plain_range
from emu.triton.language.promotion import integer_promote
from emu.triton.language.threads import is_own, settled

ELSE = "`else` of a loop is not supported; as no loop has `break`, write the statements behind the loop"


class OwnBounds(Exception):
    """Raised where each thread of a program has bounds of its own."""

    def __init__(self, bounds: Sequence[tensor]) -> None:
        super().__init__()
        self.bounds = bounds


def loop_name(state: State, node: ast.For) -> str:
    """Return the name of a loop's variable.

    Raises:
        UnsupportedLanguageConstruct: The target is not a name.
    """
    if not isinstance(node.target, ast.Name):
        raise state.unsupported(node.target, "the target of a `for` must be a name")
    return node.target.id


def _iterator(
    state: State, node: ast.For
) -> tuple[Callable[..., Any], list[object], dict[str, object]]:
    """Return the function that makes a loop's range, its arguments and its keywords."""
    call = node.iter
    function = unwrap(state.visit(call.func)) if isinstance(call, ast.Call) else None
    if function not in (range, language.range, language.static_range):
        raise state.unsupported(
            node.iter,
            "Only `range` and `static_range` iterators are currently supported; a tuple's items are "
            "xs[i] for i in tl.static_range(len(xs)), and a tensor is computed as a whole",
        )
    if node.orelse:
        raise state.unsupported(node.orelse[0], ELSE)
    assert isinstance(call, ast.Call)
    arguments = arguments_of(state, call.args)
    return function, arguments, {str(k.arg): state.visit(k.value) for k in call.keywords}


def unrolled(state: State, node: ast.For) -> range | None:
    """Return the indices of a loop over ``static_range``; of any other loop ``None``."""
    call = node.iter
    if not isinstance(call, ast.Call) or unwrap(state.visit(call.func)) is not (
        language.static_range
    ):
        return None
    function, arguments, keywords = _iterator(state, node)
    for value in (*arguments, *keywords.values()):
        if not isinstance(unwrap(value), int):
            raise TypeError(
                "static_range needs ints known at compile time, but got a value of type "
                f"{describe(value)}"
            )
    found = function(*arguments, **keywords)
    return range(unwrap(found.start), unwrap(found.end), unwrap(found.step))


def bounds_of(state: State, node: ast.For) -> list[tensor]:
    """Return start, end and step of a loop as scalars of one integer dtype.

    Raises:
        OwnBounds: Each thread has its own.
    """
    function, arguments, keywords = _iterator(state, node)
    if function is range:
        check_plain_range(arguments, keywords)
        parts = [constexpr(0), *arguments] if len(arguments) == 1 else list(arguments)
        parts = [*parts, constexpr(1)][:3]
    else:
        found = function(*arguments, **keywords)
        parts = [found.start, found.end, found.step]
    if not is_tensor(parts[2]) and unwrap(parts[2]) == 0:
        raise ValueError("step of a range must not be 0")
    bounds = [to_tensor(p) for p in parts]
    names = ("lower bound", "upper bound", "step")
    if not all(b.dtype.is_int() for b in bounds):
        kinds = ", ".join(str(b.dtype) for b in bounds)
        raise TypeError(f"For loop bounds and step must all be ints, are ({kinds})")
    bounds = [settled(b) for b in bounds]
    if any(map(is_own, bounds)):
        raise OwnBounds(bounds)
    for what, bound in zip(names, bounds, strict=True):
        if bound.type.is_block():
            raise TypeError(f"For {what} must be a scalar, got {bound.type}")
    type_ = bounds[0].dtype
    for bound in bounds[1:]:
        type_ = integer_promote(type_, bound.dtype)
    return [cast_to(b, type_) for b in bounds]
