"""Visits of simple statements: assignments, assertions, expressions."""

from __future__ import annotations

import ast

from emu.triton import language
from emu.triton.codegen.assignment import assign
from emu.triton.codegen.errors import CompilationError
from emu.triton.codegen.expressions import operate
from emu.triton.codegen.state import State
from emu.triton.codegen.values import (
    constexpr,
    normalize,
    unwrap,
)


def visit_pass(state: State, node: ast.Pass) -> None:
    """Do nothing."""


def visit_expr(state: State, node: ast.Expr) -> None:
    """Visit an expression statement; some results must be used."""
    state.visit(node.value)
    if not isinstance(node.value, ast.Call):
        return
    hint = getattr(unwrap(state.visit(node.value.func)), "_must_use_result", False)
    if hint:
        message = f"The result of {ast.unparse(node.value.func)} is not being used."
        if isinstance(hint, str):
            message = f"{message} {hint}"
        raise state.error(CompilationError, node, message)


def visit_assert(state: State, node: ast.Assert) -> None:
    """Emit a device assertion."""
    with state.asserting(node.test):
        condition = state.visit(node.test)
        message = constexpr("") if node.msg is None else state.visit(node.msg)
        language.device_assert(condition, message)


def visit_assign(state: State, node: ast.Assign) -> None:
    """Assign a value to one or several targets."""
    value = state.visit(node.value)
    for target in node.targets:
        assign(state, target, value)


def visit_annassign(state: State, node: ast.AnnAssign) -> None:
    """Assign a value to an annotated name; ``name: constexpr`` stays known at compile time."""
    annotation = state.visit(node.annotation)
    if not isinstance(node.target, ast.Name):
        raise state.unsupported(node.target, "only names can be annotated")
    name = node.target.id
    known = unwrap(annotation) is constexpr
    if node.value is None:
        if known:
            state.frame.annotated.add(name)
        return
    value = state.visit(node.value)
    if not known:
        assign(state, node.target, value)
        return
    # An unrolled loop visits the same statement again.
    if name in state.frame.scope and state.frame.declared.get(name) is not node:
        raise ValueError(f"{name} is already defined. constexpr cannot be reassigned.")
    state.frame.declared[name] = node
    state.frame.scope[name] = normalize(value)


def visit_augassign(state: State, node: ast.AugAssign) -> None:
    """Assign the value of an operator to its left operand."""
    target = node.target
    if not isinstance(target, ast.Name):
        assign(state, target, None)
        return
    before = state.lookup(target.id)
    value = state.visit(node.value)
    assign(state, target, operate(state, node, type(node.op), before, value))
