"""Printer of operations: from a module to text, byte for byte as MLIR prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from emu.mlir.affine import with_short_names
from emu.mlir.arguments import check, check_flag
from emu.mlir.attributes import Attribute, DictAttr, entries_text
from emu.mlir.diagnostics import Location
from emu.mlir.ir import Block, BlockArgument, Operation, Region, Value
from emu.mlir.literals import symbol_text
from emu.mlir.registry import OpDefinition, definition
from emu.mlir.text.location_printer import LocationNames, location_text
from emu.mlir.text.naming import Names
from emu.mlir.types import FunctionType, Type

_DEFAULT_DIALECTS = {"func.func": "func", "builtin.module": "builtin"}
# An operand's number where its name is to stand; no other text has such a character.
_NUMBER = re.compile("\0([0-9]+)\0")


class ModulePrinter:
    """Printer of operations; implements ``OpPrinter``.

    Args:
        names: Names of values and blocks.
        generic: Write every operation in generic form.
        locations: Write ``loc(…)`` behind operations and arguments.
        regions: Write regions; ``{...}`` stands for them otherwise.

    Attributes:
        write: Appends text.
    """

    def __init__(
        self, names: Names, *, generic: bool = False, locations: bool = False, regions: bool = True
    ) -> None:
        self._names = names
        self._values = names.values
        self._generic = generic
        self._locations = locations
        self._regions = regions
        self._parts: list[str] = []
        self.write = self._parts.append
        self._indent = ""
        self._default_dialects = ["builtin"]
        self._lines: dict[tuple[object, ...], str | None] = {}
        self._types: dict[Type, str] = {}
        self._attributes: dict[Attribute, str] = {}
        self._location_names = LocationNames()
        # Parts that a location is to replace once all locations have names.
        self._location_slots: list[tuple[int, Location, bool]] = []

    def text(self, *, top: bool) -> str:
        """Return what has been written.

        Args:
            top: Define the names of locations and maps before and behind it.
        """
        parts = self._parts
        if not self._locations:
            text = "".join(parts)
            return "".join(with_short_names(text)) if top else text
        names = self._location_names.names() if top else {}
        for index, location, named in self._location_slots:
            short = names.get(location) if named else None
            parts[index] = f" loc({location_text(location, names) if short is None else short})"
        if not top:
            return "".join(parts)
        define = self._location_names.definitions
        before = define(names, deferred=False)
        maps, text = with_short_names("".join(parts))
        return f"{before}{maps}{text}\n{define(names, deferred=True)}"

    # Small things

    def newline(self) -> None:
        """End the line and indent the next."""
        self.write("\n" + self._indent)

    def op_name(self, op: Operation) -> None:
        """Write the operation's name, without the dialect where that is the default."""
        dialect, _, rest = op.name.partition(".")
        self.write(rest if dialect == self._default_dialects[-1] and "." not in rest else op.name)

    def operand(self, value: Value) -> None:
        """Write the name of a value."""
        self.write(self._values.get(value, "<<UNKNOWN SSA VALUE>>"))

    def operands(self, values: Iterable[Value]) -> None:
        """Write names of values with commas between."""
        get = self._values.get
        self.write(", ".join([get(v, "<<UNKNOWN SSA VALUE>>") for v in values]))

    def symbol(self, name: str) -> None:
        """Write ``@name``."""
        self.write(symbol_text(name))

    def type(self, type_: Type) -> None:
        """Write a type."""
        self.write(self.type_text(type_))

    def type_text(self, type_: Type) -> str:
        """Return the text of a type."""
        found = self._types.get(type_)
        if found is None:
            found = self._types[type_] = str(type_)
        return found

    def types(self, types: Iterable[Type]) -> None:
        """Write types with commas between."""
        self.write(", ".join([self.type_text(t) for t in types]))

    def functional_type(self, op: Operation) -> None:
        """Write ``(operand types) -> result types``."""
        text = self.type_text
        results = op.results
        inputs = ", ".join([text(v.type) for v in op._operands])
        if len(results) == 1 and not isinstance(results[0].type, FunctionType):
            self.write(f"({inputs}) -> {text(results[0].type)}")
        else:
            self.write(f"({inputs}) -> ({', '.join([text(r.type) for r in results])})")

    def attribute(self, attribute: Attribute) -> None:
        """Write an attribute."""
        self.write(self.attribute_text(attribute))

    def attribute_text(self, attribute: Attribute) -> str:
        """Return the text of an attribute."""
        found = self._attributes.get(attribute)
        if found is None:
            found = self._attributes[attribute] = str(attribute)
        return found

    def dictionary(self, attributes: DictAttr) -> None:
        """Write `` {…}`` unless it is empty."""
        if attributes.entries:
            self.write(f" {self.attribute_text(attributes)}")

    def attr_dict(
        self, op: Operation, *, elide: Sequence[str] = (), with_keyword: bool = False
    ) -> None:
        """Write `` {…}`` of the inherent and discardable attributes that ``elide`` does not name.

        Nothing is written where there are none.
        """
        if not op.attributes and not op.properties:
            return
        entries = [*op.attributes.items(), *op.properties.items()]
        entries = [entry for entry in entries if entry[0] not in elide]
        if entries:
            entries.sort(key=_first)
            self.write(f"{' attributes' if with_keyword else ''} {{{entries_text(entries)}}}")

    def block_argument(self, argument: BlockArgument, attributes: DictAttr | None = None) -> None:
        """Write ``%arg0: T``, its attributes and its location."""
        self.write(f"{self._values[argument]}: {self.type_text(argument.type)}")
        if attributes is not None:
            self.dictionary(attributes)
        if self._locations:
            self._location_names.visit(argument.location, deferrable=False)
            self._location_slot(argument.location, named=False)

    def _location_slot(self, location: Location, *, named: bool) -> None:
        self._location_slots.append((len(self._parts), location, named))
        self.write("")

    # Regions

    def region(
        self,
        region: Region,
        *,
        entry_arguments: bool = True,
        terminators: bool = True,
        empty_block: bool = False,
    ) -> None:
        """Write ``{…}``.

        Args:
            region: The region.
            entry_arguments: Write the label of the entry block if it has arguments.
            terminators: Write the last operation of each block.
            empty_block: Write the label of an entry block without operations.
        """
        self.write("{\n")
        if region.blocks:
            parent = region.parent
            default = "" if parent is None else _DEFAULT_DIALECTS.get(parent.name, "")
            self._default_dialects.append(default)
            for number, block in enumerate(region.blocks):
                label = (
                    number > 0
                    or (entry_arguments and bool(block.arguments))
                    or (empty_block and block.first is None)
                )
                self._block(block, label=label, terminators=terminators)
            self._default_dialects.pop()
        self.write(self._indent + "}")

    def _block(self, block: Block, *, label: bool, terminators: bool) -> None:
        if label:
            self._label(block)
        outer = self._indent
        self._indent = outer + "  "
        last = None if terminators else block.last
        for op in block:
            if op is last:
                break
            self.write(self._indent)
            self.operation(op)
            self.write("\n")
        self._indent = outer

    def _label(self, block: Block) -> None:
        self.write(self._indent + self._names.blocks.get(block, "INVALIDBLOCK"))
        if block.arguments:
            self.write("(")
            for index, argument in enumerate(block.arguments):
                if index:
                    self.write(", ")
                self.block_argument(argument)
            self.write(")")
        self.write(":")
        predecessors = _predecessors(block)
        if predecessors:
            names = [self._names.blocks[p] for p in predecessors]
            head = "pred" if len(names) == 1 else f"{len(names)} preds"
            self.write(f"  // {head}: {', '.join(names)}")
        elif block.parent is not None and block.parent.blocks[0] is not block:
            self.write("  // no predecessors")
        self.write("\n")

    # Operations

    def operation(self, op: Operation) -> None:
        """Write an operation, results and location included."""
        if op.results:
            self.write(f"{self._names.packs[op]} = ")
        if self._locations:
            self._location_names.visit(op.location, deferrable=True)
        if op.regions or op.successors or self._generic:
            self._form(op)
        else:
            self._line(op)
        if self._locations:
            self._location_slot(op.location, named=True)

    def _form(self, op: Operation) -> None:
        known: OpDefinition = definition(op.name)
        if known.print is None or self._generic:
            self.generic_operation(op)
        else:
            known.print(self, op)

    def _line(self, op: Operation) -> None:
        """Write an operation without regions: what others with other operands have in common, once.

        Such a form tells its operands' names, and else what is the operation's own: its name, types and
        attributes. Those are told apart by identity, since hashing them would cost more than the rest;
        they live as long as the operation.
        """
        operands, properties, attributes = op._operands, op.properties, op.attributes
        key = (
            op.name,
            self._default_dialects[-1],
            len(operands),
            *[id(value.type) for value in operands],
            *[id(result.type) for result in op.results],
            *properties,
            *map(id, properties.values()),
            None,  # properties end here
            *attributes,
            *map(id, attributes.values()),
        )
        values = self._values
        line = self._lines.get(key)
        if line is None and key not in self._lines and len(set(operands)) == len(operands):
            line = self._lines[key] = self._line_of(op)
        if line is None:
            self._form(op)
            return
        try:
            self.write(line % tuple([values[value] for value in operands]))
        except KeyError:  # a value from nowhere
            self._form(op)

    def _line_of(self, op: Operation) -> str | None:
        """Return an operation with ``%s`` for its operands; None where it has not each once, in order."""
        outer = self._values
        self._values = {value: f"\0{index}\0" for index, value in enumerate(op._operands)}
        start = len(self._parts)
        self._form(op)
        self._values = outer
        text = "".join(self._parts[start:])
        del self._parts[start:]
        pieces = _NUMBER.split(text)
        if pieces[1::2] != [str(index) for index in range(len(op._operands))]:
            return None
        return "%s".join([piece.replace("%", "%%") for piece in pieces[::2]])

    def generic_operation(self, op: Operation) -> None:
        """Write the generic form, without results and location."""
        self.write(f'"{op.name}"(')
        self.operands(op._operands)
        self.write(")")
        if op.successors:
            self.write(f"[{', '.join([self._names.blocks[s] for s in op.successors])}]")
        if op.properties:
            self.write(f" <{{{entries_text(sorted(op.properties.items(), key=_first))}}}>")
        if op.regions:
            self.write(" (")
            for index, region in enumerate(op.regions):
                if index:
                    self.write(", ")
                if self._regions:
                    self.region(region, empty_block=True)
                else:
                    self.write("{...}")
            self.write(")")
        if op.attributes:
            self.write(f" {{{entries_text(sorted(op.attributes.items(), key=_first))}}}")
        self.write(" : ")
        self.functional_type(op)


def _first(entry: tuple[str, Attribute]) -> str:
    return entry[0]


def _predecessors(block: Block) -> list[Block]:
    """Return the blocks that may branch to a block, each once, in order."""
    region = block.parent
    if region is None or len(region.blocks) == 1:
        return []
    return [b for b in region.blocks if b.last is not None and block in b.last.successors]


def to_text(
    op: Operation, *, generic: bool = False, locations: bool = False, local: bool = False
) -> str:
    """Return an operation as MLIR prints it.

    Args:
        op: The operation; value names are numbered within the outermost one around it.
        generic: Write every operation in generic form. Default: False.
        locations: Write ``loc(…)`` behind operations and arguments. Default: False.
        local: Number value names within the function or other isolated operation around it, and
            leave regions out, as in diagnostics. Default: False.

    Raises:
        ArgumentError: An argument has another type.
    """
    check("op", op, Operation, "an operation, as a module is one")
    for name, flag in (("generic", generic), ("locations", locations), ("local", local)):
        check_flag(name, flag)
    root = op
    while (parent := root.parent_op) is not None:
        if local and definition(root.name).isolated:
            break
        root = parent
    printer = ModulePrinter(
        Names(root, generic=generic), generic=generic, locations=locations, regions=not local
    )
    printer.operation(op)
    top = op is root and not local
    text = printer.text(top=top)
    if not top:
        return text
    tail = "" if op.resources is None else f"\n{op.resources}\n"
    return text + ("" if text[-1] == "\n" else "\n") + tail


Operation.print_function = to_text
