"""Interfaces of the parser and the printer, for the pretty forms of operations and attributes.

A dialect reads and writes its forms through these, as MLIR's do through ``OpAsmParser`` and
``OpAsmPrinter``. The classes that implement them are in ``emu.mlir.text``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from emu.mlir.attributes import Attribute, DictAttr
from emu.mlir.diagnostics import Location, Place
from emu.mlir.ir import Block, BlockArgument, Operation, Region, Value
from emu.mlir.types import FunctionType, Type

_T = TypeVar("_T")


class Operand(NamedTuple):
    """A use of a value in the text, not yet looked up.

    Attributes:
        name: The name, ``%x``.
        number: The result's number, 1 for ``%x#1``.
        place: Its offset in the text.
    """

    name: str
    number: int
    place: int


Argument = tuple[Operand, Type, "dict[str, Attribute] | None", Location | Place]
"""An argument of a region: name, type, attributes and location."""


class OpParser(Protocol):
    """Interface through which a dialect reads the form of an operation or attribute.

    ``optional_…`` return None (or an empty dictionary) and read nothing where something else
    comes; the others raise ``MlirError``.
    """

    # Errors and locations

    @property
    def op_place(self) -> Place:
        """Place of the operation's name."""

    def here(self) -> Place:
        """Return the place of the next token."""

    def error(self, message: str, at: Place | int | None = None) -> NoReturn:
        """Raise an error about the form, at the next token or at a place or offset."""

    def in_operation(self, message: str) -> str:
        """Return a message with the operation in front whose form is being read."""

    # Punctuation, words and literals

    def peek(self, punctuation: str) -> bool:
        """Return whether the next token is this one."""

    def accept(self, punctuation: str) -> bool:
        """Read this token if it comes next; return whether it did."""

    def expect(self, punctuation: str, context: str = "") -> None:
        """Read this token."""

    def peek_keyword(self, punctuation: str) -> bool:
        """Return whether this keyword comes next."""

    def accept_keyword(self, punctuation: str) -> bool:
        """Read this keyword if it comes next; return whether it did."""

    def expect_keyword(self, keyword: str, context: str = "") -> None:
        """Read this keyword."""

    def keyword(self, context: str = "") -> str:
        """Read any bare identifier."""

    def optional_keyword(self) -> str | None:
        """Read a bare identifier if one comes."""

    def integer(self) -> int:
        """Read an integer of 64 bits."""

    def optional_integer(self) -> int | None:
        """Read an integer if one comes."""

    def string(self) -> str:
        """Read a string literal."""

    def optional_string(self) -> str | None:
        """Read a string literal if one comes."""

    def symbol(self) -> str:
        """Read ``@name``; return the name."""

    def optional_symbol(self) -> str | None:
        """Read ``@name`` if it comes; return the name."""

    def comma_separated(self, open_: str, close: str, parse_one: Callable[[], _T]) -> list[_T]:
        """Read items with commas between; brackets "" for none."""

    # Types and attributes

    def type(self) -> Type:
        """Read a type."""

    def types(self) -> list[Type]:
        """Read one or more types with commas between."""

    def function_type(self) -> FunctionType:
        """Read ``(i32) -> f32``."""

    def attribute(self, type_: Type | None = None) -> Attribute:
        """Read an attribute; ``type_`` is that of a number whose type is not written."""

    def peek_attribute(self) -> bool:
        """Return whether ``#…`` comes: an attribute with its full name, or an alias."""

    def optional_attr_dict(self) -> dict[str, Attribute]:
        """Read ``{…}`` if it comes."""

    def optional_attr_dict_with_keyword(self) -> dict[str, Attribute]:
        """Read ``attributes {…}`` if it comes."""

    def optional_location(self) -> Location | None:
        """Read ``loc(…)`` if it comes."""

    # Operands and regions

    def peek_operand(self) -> bool:
        """Return whether ``%…`` comes."""

    def operand(self) -> Operand:
        """Read ``%x`` or ``%x#1``."""

    def optional_operand(self) -> Operand | None:
        """Read ``%x`` or ``%x#1`` if it comes."""

    def operands(self) -> list[Operand]:
        """Read operands with commas between, none at all included."""

    def resolve(self, operand: Operand, type_: Type) -> Value:
        """Return the value that a name stands for; one that is not yet defined is made up."""

    def resolve_all(
        self, operands: Sequence[Operand], types: Sequence[Type], at: Place | None = None
    ) -> list[Value]:
        """Return the values of names; an error about their number is reported at ``at``."""

    def argument(self) -> Argument:
        """Read ``%a: i32 {x = 1} loc(…)``."""

    def argument_list(self) -> list[Argument]:
        """Read ``(%a: i32 {x = 1} loc(…), …)``."""

    def region(
        self,
        arguments: Sequence[tuple[Operand, Type] | Argument] | None = None,
        *,
        isolated: bool = False,
    ) -> Region:
        """Read ``{…}``, whose entry block has these arguments if they are given."""

    def successor(self) -> Block:
        """Read the name of a block."""


class OpPrinter(Protocol):
    """Interface through which a dialect writes the form of an operation."""

    @property
    def write(self) -> Callable[[str], object]:
        """Function that writes text."""

    def newline(self) -> None:
        """End the line and indent the next."""

    def op_name(self, op: Operation) -> None:
        """Write the operation's name, without the dialect where that is the default."""

    def symbol(self, name: str) -> None:
        """Write ``@name``."""

    def operand(self, value: Value) -> None:
        """Write the name of a value."""

    def operands(self, values: Iterable[Value]) -> None:
        """Write names of values with commas between."""

    def type(self, type_: Type) -> None:
        """Write a type."""

    def types(self, types: Iterable[Type]) -> None:
        """Write types with commas between."""

    def functional_type(self, op: Operation) -> None:
        """Write ``(operand types) -> result types``."""

    def attribute(self, attribute: Attribute) -> None:
        """Write an attribute."""

    def dictionary(self, attributes: DictAttr) -> None:
        """Write `` {…}`` unless it is empty."""

    def attr_dict(
        self, op: Operation, *, elide: Sequence[str] = (), with_keyword: bool = False
    ) -> None:
        """Write `` {…}`` of the inherent and discardable attributes that ``elide`` does not name."""

    def block_argument(self, argument: BlockArgument, attributes: DictAttr | None = None) -> None:
        """Write ``%arg0: T``, its attributes and its location."""

    def region(
        self,
        region: Region,
        *,
        entry_arguments: bool = True,
        terminators: bool = True,
        empty_block: bool = False,
    ) -> None:
        """Write ``{…}``; the flags tell which labels and terminators are written."""

    def generic_operation(self, op: Operation) -> None:
        """Write the generic form, without results and location."""
