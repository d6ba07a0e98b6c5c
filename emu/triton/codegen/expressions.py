"""Expressions: operators, comparisons, subscripts, attributes, literals."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.triton.codegen.state import Base
from emu.triton.codegen.values import (
    Mismatch,
    common_type,
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
from emu.triton.language.values import unflatten

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


class Expressions(Base):
    """Visits expressions; each visit returns a value."""

    def _visit_constant(self, node: ast.Constant) -> Any:
        return constexpr(node.value)

    def _visit_name(self, node: ast.Name) -> Any:
        return self.lookup(node.id)

    def _visit_tuple(self, node: ast.Tuple) -> Any:
        return tuple(list(self._items(node.elts)))

    def _visit_list(self, node: ast.List) -> Any:
        return tuple(list(self._items(node.elts)))

    def _items(self, nodes: list[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.unpacked(node.value)
            else:
                yield normalize(self.visit(node))

    def unpacked(self, node: ast.expr) -> list[Any]:
        """Return the items of what stands behind a star.

        Raises:
            TypeError: It is no tuple.
        """
        value = normalize(unwrap(self.visit(node)))
        if not isinstance(value, tuple):
            raise TypeError(f"only a tuple can be unpacked, but got {describe(value)}")
        return list(value.values)

    def _visit_slice(self, node: ast.Slice) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if part is None else unwrap(self.visit(part)) for part in parts])

    def _visit_subscript(self, node: ast.Subscript) -> Any:
        value = self.visit(node.value)
        index = self.visit(node.slice)
        if isinstance(value, tensor | tuple):
            return normalize(value[index])
        return normalize(unwrap(value)[unwrap(index)])

    def _visit_attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        if isinstance(value, constexpr) and node.attr not in ("value", "type"):
            value = value.value
        found = getattr(value, node.attr)
        return found if callable(found) else normalize(found)

    def _visit_joinedstr(self, node: ast.JoinedStr) -> constexpr:
        return constexpr("".join(self._text(part) for part in node.values))

    def _text(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        assert isinstance(node, ast.FormattedValue)
        value = self.visit(node.value)
        if flatten(value):
            raise self.unsupported(
                node.value,
                "Cannot evaluate f-string containing non-constexpr conversion values, found "
                f"conversion of type {describe(value)}",
            )
        value = unwrap(value)
        convert = _CONVERSIONS.get(node.conversion)
        converted = value if convert is None else convert(value)
        spec = "" if node.format_spec is None else self.visit(node.format_spec).value
        return format(converted, spec)

    def _visit_namedexpr(self, node: ast.NamedExpr) -> Any:
        self.assign(node.target, self.visit(node.value))
        return self.lookup(node.target.id)

    def _visit_listcomp(self, node: ast.ListComp) -> Any:
        if len(node.generators) != 1:
            raise self.unsupported(node, "nested comprehensions are not supported")
        (generator,) = node.generators
        values = normalize(unwrap(self.visit(generator.iter)))
        if not isinstance(values, tuple):
            raise self.unsupported(node, "only tuple comprehensions are supported")
        results = []
        with self.inner_scope():
            for value in values.values:
                self.assign(generator.target, value, known=True)
                if all(self.known(condition, "the condition") for condition in generator.ifs):
                    results.append(normalize(self.visit(node.elt)))
        return tuple(results)

    def known(self, node: ast.expr, what: str) -> Any:
        """Return the plain value of an expression that must be known at compile time.

        Raises:
            UnsupportedLanguageConstruct: It is not.
        """
        value = self.visit(node)
        if flatten(value):
            raise self.unsupported(
                node, f"{what} must be known at compile time, but is {describe(value)}"
            )
        return unwrap(value)

    # ---- operators

    def _visit_binop(self, node: ast.BinOp) -> Any:
        return self.operate(node, type(node.op), self.visit(node.left), self.visit(node.right))

    def operate(self, node: ast.AST, kind: type[ast.AST], left: Any, right: Any) -> Any:
        """Return what an operator gives for two values.

        Raises:
            UnsupportedLanguageConstruct: There is no such operator, or not for these values.
        """
        function = _OPERATORS.get(kind)
        if function is None:
            raise self.unsupported(
                node, f"AST operator '{kind.__name__}' is not (currently) implemented."
            )
        first, second = unwrap(left), unwrap(right)
        if is_tensor(first) or is_tensor(second):
            return normalize(function(first, second))
        try:
            return normalize(function(first, second))
        except TypeError as error:
            names = f"'{type(first).__name__}' and '{type(second).__name__}'"
            raise self.unsupported(
                node, f"unsupported operand type(s) for {_SYMBOLS[kind]}: {names}"
            ) from error

    def _visit_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return value.__not__() if is_tensor(value) else constexpr(not unwrap(value))
        if is_tensor(value):
            return _UNARY[type(node.op)](value)
        try:
            return constexpr(_UNARY[type(node.op)](unwrap(value)))
        except TypeError as error:
            raise self.unsupported(
                node,
                f"AST unary operator '{type(node.op).__name__}' is not (currently) implemented on "
                f"type {type(unwrap(value)).__name__}",
            ) from error

    def _visit_compare(self, node: ast.Compare) -> Any:
        values = self._comparisons(node)
        return next(values) if len(node.ops) == 1 else self.join(node, ast.And, values)

    def _comparisons(self, node: ast.Compare) -> Iterator[Any]:
        left = self.visit(node.left)
        for kind, operand in zip(node.ops, node.comparators, strict=True):
            right = self.visit(operand)
            if isinstance(kind, ast.Is | ast.IsNot):
                yield constexpr((unwrap(left) is unwrap(right)) == isinstance(kind, ast.Is))
            elif isinstance(kind, ast.In | ast.NotIn):
                raise self.unsupported(
                    node,
                    f"AST comparison operator '{type(kind).__name__}' is not (currently) implemented.",
                )
            else:
                yield self.operate(node, type(kind), left, right)
            left = right

    def _visit_boolop(self, node: ast.BoolOp) -> Any:
        return self.join(node, type(node.op), (self.visit(v) for v in node.values), warn=True)

    def join(
        self, node: ast.expr, kind: type[ast.AST], values: Iterator[Any], warn: bool = False
    ) -> Any:
        """Return ``and`` or ``or`` of values; known ones decide at compile time, in order."""
        decides = kind is ast.Or
        parts: list[Any] = []
        value: Any = None
        for value in values:
            if not is_tensor(value):
                if bool(unwrap(value)) is decides:
                    return value
                continue
            if warn and value.type.is_block():
                self._warn_of_blocks(node)
            parts.append(value)
        if not parts:
            return value
        # From the right, as Python groups conditions that are all evaluated.
        result = parts.pop()
        while parts:
            left = parts.pop()
            result = left.logical_or(result) if decides else left.logical_and(result)
        return result

    def _warn_of_blocks(self, node: ast.expr) -> None:
        warnings.warn_explicit(
            "Logical operators 'and' and 'or' are deprecated for non-scalar tensors; please use '&' "
            "or '|' instead",
            category=UserWarning,
            filename=self.frame.function.file_name,
            lineno=node.lineno + self.frame.line,
            source=ast.unparse(node),
        )

    # ---- conditions

    def condition(self, value: tensor) -> tensor:
        """Return a condition of the running program as a scalar ``int1``."""
        return truth(value, self._single)

    def _single(self, value: tensor) -> tensor:
        handle = value.handle
        while handle.shape:
            (handle,) = self.builder.reduce([handle], 0, self._either)
        return tensor(handle, value.dtype)

    def _either(self, first: Value, second: Value) -> list[Value]:
        return [self.builder.binary(Code.MAX, first, second)]

    def decided(self, node: ast.AST, value: Any) -> bool:
        """Return the truth of a value known at compile time.

        Raises:
            UnsupportedLanguageConstruct: It is of no type that may decide.
        """
        plain = unwrap(value)
        if type(plain) not in CONDITIONS:
            names = ", ".join(t.__name__ for t in CONDITIONS)
            raise self.unsupported(
                node,
                f"`if` conditionals can only accept values of type {{{names}}}, not objects of type "
                f"{type(plain).__name__}",
            )
        return bool(plain)

    def _visit_ifexp(self, node: ast.IfExp) -> Any:
        value = self.visit(node.test)
        if not is_tensor(value):
            return self.visit(node.body if self.decided(node, value) else node.orelse)
        condition = self.condition(value)
        sides = []
        for side in (node.body, node.orelse):
            region = self.region()
            with self.builder.into(region), self.inner_scope():
                sides.append((region, normalize(self.visit(side))))
        (then, first), (other, second) = sides
        try:
            type_ = common_type(type_of(first), type_of(second))
            for region, chosen in sides:
                with self.builder.into(region):
                    made = fit(chosen, type_)
                    self.builder.yield_(*flatten(made))
        except Mismatch:
            raise self.error_of_types(node, first, second) from None
        if all(len(region.operations) == 1 for region, _ in sides) and not flatten(made):
            return made
        return unflatten(made, self.builder.if_(condition.handle, then, other))

    def error_of_types(self, node: ast.AST, first: Any, second: Any) -> Exception:
        """Return the error for a ternary whose sides differ."""
        return TypeError(
            "Ternary expression with dynamic condition has inconsistent types "
            f"{describe(first)} and {describe(second)}"
        )

    def assign(self, target: ast.expr, value: Any, known: bool = False) -> None:
        """Give a variable, or several, a value; :class:`Statements` says how."""
        raise NotImplementedError
