"""Kernels as functions that Python executes.

Where the rules of kernels are not Python's, the syntax tree calls :mod:`callees`: an assigned number becomes a
tensor, ``and``, ``or``, ``not`` and chains of comparisons of tensors go element by element, ``is`` looks into
constexprs, and calls of jit functions, of ``range`` and the like are those of kernels. Everything else is
Python's own. All nodes keep their places, so that debuggers and tracebacks show the user's lines.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Sequence
from typing import Any

from emu.triton.assertions import operands_of
from emu.triton.source import JITCallable

HELPERS = "_emu"
"""Name by which a rewritten function reaches the callees, as a variable of an enclosing function."""


_INNER = "_emu_kernel"


def as_python(function: JITCallable, helpers: object) -> Callable[..., Any]:
    """Return a jit function as one that Python executes, with the same globals and closure.

    Args:
        function: The jit function.
        helpers: What its rewritten parts call; has the methods of ``callees.Callees``.
    """
    tree = copy.deepcopy(function.parse())
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.args.defaults = []
    definition.args.kw_defaults = [None for _ in definition.args.kwonlyargs]
    definition.returns = None
    _Rewriter(function).visit(definition)
    _place(definition, function.def_file_line_number - 1, function.def_file_col_number)
    original = function.fn
    # Under another name: its own would be a variable of the enclosing function, not the global.
    definition.name = _INNER
    outer = _enclose(definition, (HELPERS, *original.__code__.co_freevars))
    code = _code_of(compile(outer, function.file_name, "exec")).replace(
        co_name=original.__code__.co_name, co_qualname=original.__code__.co_qualname
    )
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    cells[HELPERS] = types.CellType(helpers)
    made = types.FunctionType(
        code,
        original.__globals__,
        original.__name__,
        original.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    made.__kwdefaults__ = original.__kwdefaults__
    made.__qualname__ = original.__qualname__
    made.__module__ = original.__module__
    return made


def _enclose(definition: ast.FunctionDef, names: Sequence[str]) -> ast.Module:
    """Return a module with a function that has the names as parameters and the definition inside."""
    (outer,) = ast.parse(f"def enclosing({', '.join(names)}): pass").body
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [definition]
    return ast.fix_missing_locations(ast.Module([outer], []))


def _code_of(code: types.CodeType) -> types.CodeType:
    (outer,) = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == _INNER)


def _place(tree: ast.AST, lines: int, columns: int) -> None:
    """Move a tree from the place in its own text to that in its file."""
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, lines)
    for node in ast.walk(tree):
        for name in ("col_offset", "end_col_offset"):
            at = getattr(node, name, None)
            if at is not None:
                setattr(node, name, at + columns)


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)


def _named(target: ast.expr) -> bool:
    """Return whether a target gives variables values, not items or attributes alone."""
    return isinstance(target, ast.Name | ast.Tuple | ast.List)


class _Rewriter(ast.NodeTransformer):
    """Transformer of a function's body; each new node is placed where the old one was."""

    def __init__(self, function: JITCallable) -> None:
        self._constants: set[str] = set()
        self._names: dict[ast.AST, str] = {}  # of operands of asserted conditions
        self._function = function

    def _call(self, name: str, at: ast.expr, *arguments: ast.expr) -> ast.Call:
        helpers = ast.copy_location(ast.Name(HELPERS, ast.Load()), at)
        function = ast.copy_location(ast.Attribute(helpers, name, ast.Load()), at)
        return ast.copy_location(ast.Call(function, list(arguments), []), at)

    def visit(self, node: ast.AST) -> Any:
        """Rewrite a node; let the error of an assertion show it where it is what the condition compares."""
        made = super().visit(node)
        name = self._names.get(node)
        if name is None:
            return made
        return self._call("shows", made, ast.copy_location(ast.Constant(name), node), made)

    # ---- statements

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Let the variables be assigned as in kernels."""
        self.generic_visit(node)
        names = {
            n.id for t in node.targets if _named(t) for n in ast.walk(t) if isinstance(n, ast.Name)
        }
        known = bool(names) and names <= self._constants
        self._constants -= names
        if not known and any(map(_named, node.targets)):
            node.value = self._call("assigned", node.value, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """As an assignment, unless the annotation is ``constexpr``."""
        known = _is_constexpr(node.annotation)
        if node.value is None:
            if known and isinstance(node.target, ast.Name):
                self._constants.add(node.target.id)
            return node
        value: ast.expr = self.visit(node.value)
        node.value = value
        if not known and _named(node.target):
            node.value = self._call("assigned", value, value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Write ``x += y`` as ``x = x + y``; an item or attribute is Python's."""
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        assigned = self._call("assigned", value, value)
        return ast.copy_location(ast.Assign([node.target], assigned), node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """Let each round be noted, with the loop's place."""
        self.generic_visit(node)
        function = self._function
        line = function.def_file_line_number - 1 + node.lineno
        column = function.def_file_col_number + node.col_offset + 1
        place = ast.Constant(f"{function.file_name}:{line}:{column}")
        node.test = self._call(
            "goes_round", node.test, ast.copy_location(place, node.test), node.test
        )
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Check every element of a tensor; the message says which ones fail."""
        self._names.update({n: text for text, n in operands_of(node.test).items()})
        self.generic_visit(node)
        node.test = self._call("every", node.test, self._asserted(node.test))
        given = [] if node.msg is None else [node.msg]
        node.msg = self._call("reason", node.test, *given)
        return node

    def _asserted(self, condition: ast.expr) -> ast.Call:
        """Return a condition whose operands' values are kept for the error."""
        return self._call("asserted", condition, self._call("asserting", condition), condition)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave annotations and defaults, which are no part of the body, alone."""
        node.body = [self.visit(statement) for statement in node.body]
        return node

    # ---- expressions

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        """As an assignment."""
        self.generic_visit(node)
        node.value = self._call("assigned", node.value, node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Call what stands for the function in kernels."""
        asserts = _name_of(node.func) == "device_assert" and bool(node.args)
        if asserts and not isinstance(node.args[0], ast.Starred):
            self._names.update({n: text for text, n in operands_of(node.args[0]).items()})
            self.generic_visit(node)
            node.args[0] = self._asserted(node.args[0])
        else:
            self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr != "value":
            name = ast.copy_location(ast.Constant(node.func.attr), node.func)
            node.func = self._call("method", node.func, node.func.value, name)
        else:
            node.func = self._call("callee", node.func, node.func)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Let a plain value be its own ``value``, as that of a constexpr."""
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            return self._call("value_of", node, node.value)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Take ``not`` element by element."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._call("not_", node, node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Join conditions element by element; what is known decides as in Python."""
        self.generic_visit(node)
        decides = isinstance(node.op, ast.Or)
        result = node.values[0]
        for value in node.values[1:]:
            which = ast.copy_location(ast.Constant(decides), node)
            test = self._call("goes_on", node, result, which)
            joined = self._call("joined", node, value, copy.copy(which))
            result = ast.copy_location(ast.IfExp(test, joined, self._call("held", node)), node)
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Join a chain element by element; let ``is`` look into constexprs."""
        self.generic_visit(node)
        operands = [node.left, *node.comparators]
        if len(node.ops) > 1:
            kinds = [ast.copy_location(ast.Constant(type(o).__name__), node) for o in node.ops]
            return self._call("chain", node, ast.copy_location(_tuple(kinds), node), *operands)
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            found = self._call("is_", node, *operands)
            if isinstance(node.ops[0], ast.Is):
                return found
            return ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
        if isinstance(node.ops[0], ast.Eq | ast.NotEq):
            kind = ast.copy_location(ast.Constant(type(node.ops[0]).__name__), node)
            return self._call("equality", node, kind, *operands)
        return node


def _name_of(function: ast.expr) -> str | None:
    """Return the last part of a function's name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def _tuple(items: Sequence[ast.expr]) -> ast.Tuple:
    return ast.Tuple(list(items), ast.Load())
