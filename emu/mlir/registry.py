"""What is known of operations and dialect attributes: definitions by name.

The parser, the printer, the verifier and the passes ask here; a name that
nobody defined passes in generic form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.mlir.attributes import Attribute
    from emu.mlir.diagnostics import Diagnostics
    from emu.mlir.ir import BlockArgument, Operation
    from emu.mlir.text.parser import Parser
    from emu.mlir.text.printer import Printer

__all__ = [
    "AttributeVerifiers",
    "OpDefinition",
    "attribute_parsers",
    "attribute_verifiers",
    "closed_dialects",
    "define",
    "definition",
    "extend",
    "known_dialects",
    "load_dialects",
]

ParseOp = Callable[["Parser"], "Operation"]
PrintOp = Callable[["Printer", "Operation"], None]
VerifyOp = Callable[["Operation", "Diagnostics"], bool]


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """What is known of an operation.

    Attributes:
        name: The full name.
        properties: Names of the inherent attributes.
        parse: Reads the pretty form behind the name; None: generic form only.
        print: Writes the pretty form, name included; None: generic form.
        verify: Reports what is wrong; gives whether all is well. Called on
            the way down: nothing inside was verified yet.
        verify_regions: The same, called once all that is inside is well.
        verify_symbol_uses: The same for what the operation names elsewhere;
            called at the very end, by the symbol table around it.
        pure: No effect but its results: it goes when nothing uses them.
        pure_if: Instead of ``pure``, where it depends on the operation.
        recursive_effects: It has the effects of what is in its regions.
        constant: Its result is its property ``value``; canonicalisation keeps
            one of equal ones.
        terminator: Ends a block.
        symbol: Defines a symbol (``sym_name``).
        isolated: Its regions use no value from outside.
        symbol_table: Holds symbols.
        elementwise: Each element of the result comes from the same element of
            each operand.
        result_name: Gives the printed name for its results ("cst" for
            ``%cst``), or None for numbers; a tuple has a name for each result
            (``%values, %indices``).
        argument_name: The name for the arguments of its blocks ("iterArg"), or
            what gives an argument's.
        defaults: Inherent attributes that it gets where its generic form has
            none.
    """

    name: str
    properties: tuple[str, ...] = ()
    parse: ParseOp | None = None
    print: PrintOp | None = None
    verify: VerifyOp | None = None
    verify_regions: VerifyOp | None = None
    verify_symbol_uses: VerifyOp | None = None
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


_DIALECT_MODULES = ("emu.stablehlo", "emu.sdy.dialect.ops", "emu.sdy.dialect.verify")

_definitions: dict[str, OpDefinition] = {}
_nothing = OpDefinition("")

known_dialects: set[str] = {"builtin", "func"}
"""Dialects of which an operation that is not defined is an error."""

closed_dialects: set[str] = set()
"""Dialects of which an attribute that nobody reads is an error."""

attribute_parsers: dict[str, Callable[[Parser, str], Attribute]] = {}
"""By ``dialect.mnemonic``: read a dialect attribute's body.

Called behind the mnemonic (``#sdy.sharding`` is read, ``<`` comes next); the
second argument is the mnemonic.
"""


@dataclass(frozen=True, slots=True)
class AttributeVerifiers:
    """How a dialect checks its attributes on operations of any dialect.

    Each reports what is wrong, and gives whether all is well.

    Attributes:
        operation: ``(op, name, attribute, diagnostics)``: a discardable
            attribute whose name starts with the dialect's; called before the
            operation's own ``verify``, in the order of the names.
        argument: ``(func, index, name, attribute, diagnostics)``: one of a
            function's argument.
        result: The same of a function's result.
    """

    operation: Callable[[Operation, str, Attribute, Diagnostics], bool]
    argument: Callable[[Operation, int, str, Attribute, Diagnostics], bool]
    result: Callable[[Operation, int, str, Attribute, Diagnostics], bool]


attribute_verifiers: dict[str, AttributeVerifiers] = {}
"""By dialect."""


def define(op: OpDefinition) -> OpDefinition:
    """Register a definition; a name is defined once."""
    if op.name in _definitions:
        raise ValueError(f"operation {op.name!r} is defined already")
    _definitions[op.name] = op
    known_dialects.add(op.name.partition(".")[0])
    return op


def extend(name: str, **changes: object) -> OpDefinition:
    """Change fields of a definition (a verifier kept in another module)."""
    _definitions[name] = replace(_definitions[name], **changes)  # type: ignore[arg-type]
    return _definitions[name]


def load_dialects() -> None:
    """Have the dialects define what they have; the parser calls it.

    By name, because dialects stand above this package.
    """
    for name in _DIALECT_MODULES:
        import_module(name)


def definition(name: str) -> OpDefinition:
    """The definition, or one that knows nothing."""
    return _definitions.get(name, _nothing)


def is_defined(name: str) -> bool:
    """Whether an operation is known."""
    return name in _definitions
