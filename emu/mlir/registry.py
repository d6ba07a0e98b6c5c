"""Registry of dialects: definitions of operations and readers of attributes, by name.

The parser, the printer, the verifier and the passes look definitions up here. An operation without
a definition is read and written in generic form.

Dialects stand above this package. Importing a dialect's module defines what it has;
``register_dialects`` names modules that ``load_dialects`` shall import before the next text is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import BlockArgument, Operation

ParseOp = Callable[[OpParser], Operation]
PrintOp = Callable[[OpPrinter, Operation], None]
VerifyOp = Callable[[Operation, Diagnostics], bool]


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """Definition of an operation.

    Attributes:
        name: The full name.
        properties: Names of the inherent attributes.
        parse: Reads the pretty form behind the name; None: generic form only.
        print: Writes the pretty form, name included; None: generic form.
        verify: Emits diagnostics; returns True if the operation is valid. Called on the way
            down: nothing inside has been verified yet.
        verify_regions: The same, called once all operations inside are valid.
        verify_symbol_uses: The same for the symbols that the operation refers to; called at the
            very end, by the symbol table around it.
        reads_around: The verifiers look at the operations that define its operands, or at those around
            it; those of other operations look at the operation itself, at what is inside it, at
            symbols, and at operations around it that have a ``scope``.
        scope: The verifiers of the operations inside look at it.
        pure: Has no effect but its results: it is erased when nothing uses them.
        pure_if: Replaces ``pure`` where that depends on the operation.
        recursive_effects: It has the effects of the operations in its regions.
        constant: Its result is its property ``value``; canonicalisation merges equal ones.
        terminator: Ends a block.
        symbol: Defines a symbol (``sym_name``).
        isolated: Its regions use no value from outside.
        symbol_table: Holds symbols.
        elementwise: Each element of the result comes from the same element of
            each operand.
        result_name: Returns the printed name of its results ("cst" for ``%cst``), or None for
            numbers; a tuple has a name for each result (``%values, %indices``).
        argument_name: The name of the arguments of its blocks ("iterArg"), or a function that
            returns an argument's.
        defaults: Inherent attributes that it gets where its generic form has none.
    """

    name: str
    properties: tuple[str, ...] = ()
    parse: ParseOp | None = None
    print: PrintOp | None = None
    verify: VerifyOp | None = None
    verify_regions: VerifyOp | None = None
    verify_symbol_uses: VerifyOp | None = None
    reads_around: bool = False
    scope: bool = False
    pure: bool = False
    pure_if: Callable[[Operation], bool] | None = None
    recursive_effects: bool = False
    constant: bool = False
    terminator: bool = False
    symbol: bool = False
    isolated: bool = False
    symbol_table: bool = False
    elementwise: bool = False
    result_name: Callable[[Operation], str | tuple[str, ...] | None] | None = None
    argument_name: str | Callable[[BlockArgument], str | None] | None = None
    defaults: tuple[tuple[str, Attribute], ...] = ()


_definitions: dict[str, OpDefinition] = {}
_undefined = OpDefinition("")
_modules: list[str] = []

known_dialects: set[str] = set()
"""Dialects of which an operation without a definition is an error."""

closed_dialects: set[str] = set()
"""Dialects of which an attribute without a reader is an error."""

attribute_parsers: dict[str, Callable[[OpParser, str], Attribute]] = {}
"""Readers of the bodies of dialect attributes, by ``dialect.mnemonic``.

They are called behind the mnemonic (``#sdy.sharding`` is read, ``<`` comes next); the second
argument is the mnemonic.
"""


@dataclass(frozen=True, slots=True)
class AttributeVerifiers:
    """A dialect's checks of its attributes on operations of any dialect.

    Each emits diagnostics and returns True if the attribute is valid.

    Attributes:
        operation: ``(op, name, attribute, diagnostics)``: a discardable
            attribute whose name starts with the dialect's; called before the
            operation's own ``verify``, in the order of the names.
        argument: ``(func, index, name, attribute, diagnostics)``: one of a
            function's argument.
        result: The same of a function's result.
        reading_around: Names of the attributes for which ``operation`` looks at the operations that
            define the operands.
    """

    operation: Callable[[Operation, str, Attribute, Diagnostics], bool]
    argument: Callable[[Operation, int, str, Attribute, Diagnostics], bool]
    result: Callable[[Operation, int, str, Attribute, Diagnostics], bool]
    reading_around: frozenset[str] = frozenset()


attribute_verifiers: dict[str, AttributeVerifiers] = {}
"""Checks of discardable attributes, by dialect."""


def define(op: OpDefinition) -> OpDefinition:
    """Register a definition and return it; raises ValueError for a name that has one."""
    if op.name in _definitions:
        raise ValueError(f"operation {op.name!r} is defined already")
    _definitions[op.name] = op
    known_dialects.add(op.name.partition(".")[0])
    return op


def extend(name: str, **changes: object) -> OpDefinition:
    """Change fields of a definition, and return the new one."""
    _definitions[name] = replace(_definitions[name], **changes)  # type: ignore[arg-type]  # fields of any type
    return _definitions[name]


def register_dialects(*modules: str) -> None:
    """Name modules that define dialects when they are imported.

    They are imported, in this order, when ``load_dialects`` is called next: programs that read no
    text do not pay for them.
    """
    _modules.extend(name for name in modules if name not in _modules)


def load_dialects() -> None:
    """Import the modules of the registered dialects; the parser calls it before it reads."""
    # All of them each time: another thread may be in the middle of an import, which this waits for.
    for name in _modules:
        import_module(name)


def definition(name: str) -> OpDefinition:
    """Return the definition, or an empty one (with the name "")."""
    return _definitions.get(name, _undefined)


def names_where(holds: Callable[[OpDefinition], object]) -> frozenset[str]:
    """Return the names of the operations whose definition fulfils a condition."""
    return frozenset([name for name, known in _definitions.items() if holds(known)])


def is_defined(name: str) -> bool:
    """Return whether an operation has a definition."""
    return name in _definitions
