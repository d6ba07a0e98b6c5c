"""Assignment to names, and to tuples of names."""

from __future__ import annotations

import ast

from emu.triton.codegen.state import State
from emu.triton.codegen.values import assignable, describe, normalize, tuple, unwrap

_SET_ITEM = (
    "__setitem__ is not supported in triton; tl.store(pointer + offset, value) writes to memory, "
    "tl.where(index == i, value, x) makes a tensor with another element"
)
_SET_ATTRIBUTE = "Attribute assignment is not supported in triton; use a variable, or triton.language.aggregate_replace"


def assign(state: State, target: ast.expr, value: object, known: bool = False) -> None:
    """Give a variable a value, or several those of a tuple.

    Args:
        target: A name, or a tuple or list of targets.
        value: The value.
        known: Whether numbers stay known at compile time; otherwise they become tensors.

    Raises:
        UnsupportedLanguageConstruct: The target is neither a name nor a tuple of targets.
        TypeError: There are several targets, but the value is not a tuple.
        ValueError: The tuple has more or fewer items than there are targets.
    """
    if isinstance(target, ast.Name):
        if target.id in state.frame.annotated:
            state.frame.annotated.discard(target.id)
            known = True
        value = normalize(value)
        state.set(target.id, value if known else assignable(value))
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(state, target, value, known)
    elif isinstance(target, ast.Subscript):
        raise state.unsupported(target, _SET_ITEM)
    elif isinstance(target, ast.Attribute):
        raise state.unsupported(target, _SET_ATTRIBUTE)
    else:
        raise state.unsupported(target, "starred assignment targets are not supported")


def _unpack(state: State, target: ast.Tuple | ast.List, value: object, known: bool) -> None:
    for part in target.elts:
        if isinstance(part, ast.Starred):
            raise state.unsupported(part, "starred assignment targets are not supported")
    value = normalize(unwrap(value))
    if not isinstance(value, tuple):
        raise TypeError(f"cannot unpack non-iterable value of type {describe(value)}")
    wanted, given = len(target.elts), len(value)
    if given > wanted:
        raise ValueError(f"too many values to unpack (expected {wanted}, got {given})")
    if given < wanted:
        raise ValueError(f"not enough values to unpack (expected {wanted}, got {given})")
    for part, item in zip(target.elts, value.values, strict=True):
        assign(state, part, item, known)
