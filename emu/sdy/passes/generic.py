"""Passes that are independent of dialects: those of MLIR's own that the pipelines need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from emu.mlir.attributes import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DialectAttr,
    IntegerAttr,
    RawAttr,
    StringAttr,
)
from emu.mlir.diagnostics import UNKNOWN, PassFailed
from emu.mlir.ir import Operation
from emu.mlir.registry import definition, known_dialects
from emu.mlir.symbols import symbol_references
from emu.mlir.transforms.cse import eliminate_common_subexpressions
from emu.mlir.transforms.rewriting import rewrite_greedily
from emu.sdy.dialect.attributes import OpShardingRule, TensorSharding, TensorShardingPerValue
from emu.sdy.dialect.canonicalize import canonicalization_patterns
from emu.sdy.passes.base import ModulePass, Session


class Canonicalize(ModulePass, name="canonicalize"):
    """Simplify until no pattern applies any more, and drop unused operations.

    Attributes:
        top_down: Whether operations are first visited in program order. In MLIR,
            pipelines built by a program, such as Shardy's export pipeline, have
            False here; those given as text have True.
        max_iterations: Maximum number of iterations.
        enable_patterns: Labels of patterns; if not empty, only these patterns.
        disable_patterns: Labels of patterns to leave out.
    """

    top_down: bool = True
    max_iterations: int = 10
    enable_patterns: tuple[str, ...] = ()
    disable_patterns: tuple[str, ...] = ()

    def run(self, op: Operation, session: Session) -> None:
        """Canonicalize the operations inside an operation."""
        patterns = canonicalization_patterns(self.enable_patterns, self.disable_patterns)
        for region in op.regions:
            rewrite_greedily(
                region, patterns, top_down=self.top_down, max_iterations=self.max_iterations
            )


class Cse(ModulePass, name="cse"):
    """Eliminate common subexpressions: keep the first of equal operations."""

    def run(self, op: Operation, session: Session) -> None:
        """Eliminate equal operations inside an operation."""
        eliminate_common_subexpressions(op)


class StripDebuginfo(ModulePass, name="strip-debuginfo"):
    """Remove all locations."""

    def run(self, op: Operation, session: Session) -> None:
        """Make all locations unknown."""
        for inner in op.walk():
            inner.location = UNKNOWN
        for block in op.walk_blocks():
            for argument in block.arguments:
                argument.location = UNKNOWN


# Unused symbols

_SYMBOL = re.compile(r'@("(?:[^"\\]|\\.)*"|[\w.$-]+)')


def _leaf_symbols(attribute: Attribute) -> Iterator[str]:
    """Yield the names of symbols in a sharding, or in an attribute that is kept as text."""
    if isinstance(attribute, TensorSharding):
        if isinstance(attribute.mesh, str):
            yield attribute.mesh
    elif isinstance(attribute, TensorShardingPerValue):
        for sharding in attribute.shardings:
            yield from _leaf_symbols(sharding)
    elif isinstance(attribute, DialectAttr | RawAttr):
        text = attribute.body if isinstance(attribute, DialectAttr) else attribute.text
        for name in _SYMBOL.findall(text):
            yield name.strip('"')


# Those that most operations have, and those that may be large.
_WITHOUT_SYMBOLS = frozenset(
    {IntegerAttr, BoolAttr, DenseArrayAttr, DenseElementsAttr, OpShardingRule}
)


@lru_cache(maxsize=1 << 12)
def _symbols_in(attribute: Attribute) -> frozenset[str]:
    return frozenset(symbol_references(attribute, _leaf_symbols))


def _may_hold_symbols(op: Operation) -> bool:
    """Return whether an operation is unknown, so that names inside it may be local to it."""
    return (
        len(op.regions) == 1 and not definition(op.name).name and op.dialect not in known_dialects
    )


def _is_discardable(op: Operation) -> bool:
    visibility = op.attribute("sym_visibility")
    return (
        definition(op.name).symbol
        and isinstance(visibility, StringAttr)
        and visibility.value in ("private", "nested")
    )


class SymbolDce(ModulePass, name="symbol-dce"):
    """Erase private symbols that no remaining operation refers to."""

    def run(self, op: Operation, session: Session) -> None:
        """Erase the dead symbols of a module."""
        symbols = {each.symbol_name: each for each in op.body() if each.symbol_name is not None}
        pending = [each for each in op.body() if not _is_discardable(each)]
        live = set(pending)
        while pending:
            each = pending.pop()
            for name in self._named_in(each, session):
                found = symbols.get(name)
                if found is not None and found not in live:
                    live.add(found)
                    pending.append(found)
        for each in op.body():
            if each not in live:
                each.erase()

    def _named_in(self, top: Operation, session: Session) -> set[str]:
        names: set[str] = set()
        for op in top.walk():
            if _may_hold_symbols(op):
                session.diagnostics.error(
                    top.location,
                    "operation contains potentially unknown symbol table, meaning that we "
                    "can't reliable compute symbol uses",
                )
                raise PassFailed(f"{self.name}: {op.name} may be a symbol table")
            for entries in (op.properties, op.attributes):
                for attribute in entries.values():
                    if type(attribute) not in _WITHOUT_SYMBOLS:
                        names.update(_symbols_in(attribute))
        return names
