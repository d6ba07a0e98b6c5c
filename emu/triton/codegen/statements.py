"""Statements that are neither branches nor loops: assignments, returns, assertions."""

from __future__ import annotations

import ast
from typing import Any

from emu.triton import language
from emu.triton.codegen.calls import Calls
from emu.triton.codegen.errors import CompilationError
from emu.triton.codegen.values import (
    assignable,
    constexpr,
    describe,
    is_tensor,
    normalize,
    tuple,
    unwrap,
)


class Statements(Calls):
    """Visits simple statements; each visit returns nothing."""

    def _visit_pass(self, node: ast.Pass) -> None:
        del node

    def _visit_expr(self, node: ast.Expr) -> None:
        self.visit(node.value)
        if not isinstance(node.value, ast.Call):
            return
        hint = getattr(unwrap(self.visit(node.value.func)), "_must_use_result", False)
        if hint:
            message = f"The result of {ast.unparse(node.value.func)} is not being used."
            if isinstance(hint, str):
                message = f"{message} {hint}"
            raise self.error(CompilationError, node, message)

    def _visit_assert(self, node: ast.Assert) -> None:
        condition = self.visit(node.test)
        message = constexpr("") if node.msg is None else self.visit(node.msg)
        language.device_assert(condition, message)

    # ---- assignments

    def _visit_assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _visit_annassign(self, node: ast.AnnAssign) -> None:
        annotation = self.visit(node.annotation)
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node.target, "only names can be annotated")
        name = node.target.id
        known = unwrap(annotation) is constexpr
        if node.value is None:
            if known:
                self.frame.annotated.add(name)
            return
        value = self.visit(node.value)
        if not known:
            self.assign(node.target, value)
            return
        # An unrolled loop comes to the same statement again.
        if name in self.frame.scope and self.frame.declared.get(name) is not node:
            raise ValueError(f"{name} is already defined. constexpr cannot be reassigned.")
        self.frame.declared[name] = node
        self.frame.scope[name] = normalize(value)

    def _visit_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        if not isinstance(target, ast.Name):
            self.assign(target, None)
            return
        before = self.lookup(target.id)
        value = self.visit(node.value)
        self.assign(target, self.operate(node, type(node.op), before, value))

    def assign(self, target: ast.expr, value: Any, known: bool = False) -> None:
        """Give a variable a value, or several those of a tuple.

        Args:
            target: A name, or a tuple or list of targets.
            value: The value.
            known: Whether numbers stay known at compile time; otherwise they become tensors.

        Raises:
            UnsupportedLanguageConstruct: The target is of another form.
            TypeError: A tuple is needed.
            ValueError: The tuple has more or fewer items than there are targets.
        """
        if isinstance(target, ast.Name):
            if target.id in self.frame.annotated:
                self.frame.annotated.discard(target.id)
                known = True
            value = normalize(value)
            self.set(target.id, value if known else assignable(value))
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value, known)
        elif isinstance(target, ast.Subscript):
            raise self.unsupported(target, "__setitem__ is not supported in triton")
        elif isinstance(target, ast.Attribute):
            raise self.unsupported(target, "Attribute assignment is not supported in triton")
        else:
            raise self.unsupported(target, "starred assignment targets are not supported")

    def _unpack(self, target: ast.Tuple | ast.List, value: Any, known: bool) -> None:
        for part in target.elts:
            if isinstance(part, ast.Starred):
                raise self.unsupported(part, "starred assignment targets are not supported")
        value = normalize(unwrap(value))
        if not isinstance(value, tuple):
            raise TypeError(f"cannot unpack non-iterable value of type {describe(value)}")
        wanted, given = len(target.elts), len(value)
        if given > wanted:
            raise ValueError(f"too many values to unpack (expected {wanted}, got {given})")
        if given < wanted:
            raise ValueError(f"not enough values to unpack (expected {wanted}, got {given})")
        for part, item in zip(target.elts, value.values, strict=True):
            self.assign(part, item, known)

    def set(self, name: str, value: Any) -> None:
        """Give a variable a value."""
        if is_tensor(value) and value.handle is not None and not value.handle.name:
            value.handle.name = name
        self.frame.scope[name] = value
        self.frame.lost.pop(name, None)
