"""Reading operations: text to a module.

The layers below read tokens, types and attributes; this one reads operations,
regions and blocks, and knows the names of values. `OpDefinition.parse` gets the
`Parser` for the pretty forms.

Uses are linked in the order in which operations come to be, an operation after
the regions it holds, and a value that is used before it is defined gets its
uses when it is defined: the order of `Value.uses` is MLIR's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import emu.mlir.dialects.arith
import emu.mlir.dialects.builtin  # noqa: F401  # these define operations
from emu.mlir.attributes import Attribute, RawAttr
from emu.mlir.diagnostics import UNKNOWN, Diagnostic, FileLoc, Location, MlirError, Severity
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.registry import definition, is_defined, known_dialects
from emu.mlir.text.attribute_parser import AttributeReader
from emu.mlir.text.attribute_printer import RESOURCES
from emu.mlir.text.lexer import SourceText, render
from emu.mlir.text.scopes import Located, PendingLocation, Scopes
from emu.mlir.text.token_reader import Operand
from emu.mlir.types import FunctionType, Type

__all__ = ["Argument", "Operand", "Parser"]

Argument = tuple[Operand, Type, "dict[str, Attribute] | None", Location]
"""An argument of a region: name, type, attributes and location."""

_DEFAULT_DIALECTS = {"func.func": "func", "builtin.module": "builtin"}
_WORD_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


class Parser(AttributeReader):
    """Reads a module.

    Attributes:
        op_location: Where the operation that is being read starts.
    """

    def __init__(
        self,
        source: SourceText,
        *,
        allow_unregistered: bool = True,
        names: dict[Value, str] | None = None,
    ) -> None:
        super().__init__(source)
        self.allow_unregistered = allow_unregistered
        self.resources: RawAttr | None = None
        self._scopes = Scopes(names)
        self._op_start = 0
        self._default_dialects = ["builtin"]

    @property
    def op_location(self) -> FileLoc:
        """The place of the operation's name."""
        return self.source.location(self._op_start)

    # Operands

    def optional_operand(self) -> Operand | None:
        """Read ``%x`` or ``%x#1``, if it comes."""
        index = self.index
        token = self.tokens[index]
        if token[:1] != "%" or token == "%":
            return None
        place = self.starts[index]
        following = self.tokens[index + 1]
        if following[:1] == "#" and following[1:].isdigit():
            self.index = index + 2
            return Operand(token, int(following[1:]), place)
        self.index = index + 1
        return Operand(token, 0, place)

    def operand(self) -> Operand:
        """Read ``%x`` or ``%x#1``."""
        found = self.optional_operand()
        if found is None:
            self.wrong_token("expected SSA operand")
        return found

    def operands(self) -> list[Operand]:
        """Read operands with commas between; there may be none."""
        found = self.optional_operand()
        if found is None:
            return []
        items = [found]
        while self.accept(","):
            items.append(self.operand())
        return items

    def resolve(self, operand: Operand, type_: Type) -> Value:
        """The value that a name means; one not yet defined is made up.

        Args:
            operand: The name.
            type_: The type that the operation wants it to have.
        """
        name, number, place = operand
        scopes = self._scopes
        entries = scopes.values.get(name)
        if entries is None:
            return self._forward(operand, type_, [])
        if number >= len(entries):
            if any(v is not None and v not in scopes.forward for v in entries):
                self.fail("reference to invalid result number", place)
            return self._forward(operand, type_, entries)
        value = entries[number]
        if value is None:
            return self._forward(operand, type_, entries)
        if value.type is not type_ and value.type != type_:
            self.fail(
                f"use of value '{name}' expects different type than prior uses: "
                f"'{type_}' vs '{value.type}'",
                place,
                notes=(("prior use here", scopes.places[name]),),
            )
        return value

    def resolve_all(
        self, operands: Sequence[Operand], types: Sequence[Type], at: FileLoc | None = None
    ) -> list[Value]:
        """The values that names mean.

        Args:
            operands: The names.
            types: Their types, one each.
            at: The place of an error about their number.
        """
        if len(operands) != len(types):
            self.error(
                f"number of operands and types do not match: got {len(operands)} operands "
                f"and {len(types)} types",
                at if at is not None else self._op_start,
            )
        return [self.resolve(o, t) for o, t in zip(operands, types, strict=True)]

    def _forward(self, operand: Operand, type_: Type, entries: list[Value | None]) -> Value:
        name, number, place = operand
        scopes = self._scopes
        if scopes.values.setdefault(name, entries) is entries:
            scopes.places[name] = place
        entries.extend([None] * (number + 1 - len(entries)))
        value = Value(type_)
        entries[number] = value
        scopes.forward[value] = place
        return value

    def _define(self, name: str, values: Sequence[Value], place: int) -> None:
        scopes = self._scopes
        known = scopes.values.get(name)
        if known is not None:
            self._redefine(name, known, values, place)
        scopes.values[name] = list(values)
        scopes.places[name] = place
        scopes.names.append(name)

    def _redefine(
        self, name: str, known: list[Value | None], values: Sequence[Value], place: int
    ) -> None:
        scopes = self._scopes
        for number, old in enumerate(known):
            if old is None:
                continue
            if old not in scopes.forward:
                self.fail(
                    f"redefinition of SSA value '{name}'",
                    place,
                    notes=(("previously defined here", scopes.places[name]),),
                )
            if number >= len(values):
                # Never to be defined: reported with the other undeclared ones.
                continue
            new = values[number]
            if old.type != new.type:
                self.fail(
                    f"definition of SSA value '{name}#{number}' has type '{new.type}'",
                    place,
                    notes=((f"previously used here with type '{old.type}'", scopes.forward[old]),),
                )
            if old.has_uses:
                old.replace_all_uses_with(new)
            del scopes.forward[old]

    # Regions

    def argument_list(self) -> list[Argument]:
        """Read ``(%a: i32 {x = 1} loc(…), …)``."""
        return self.comma_separated("(", ")", self._argument)

    def _argument(self) -> Argument:
        operand = self.operand()
        self.expect(":")
        type_ = self.type()
        attributes = self.optional_attr_dict() if self.peek("{") else None
        holder = Located(self.source.location(operand.place))
        pending = len(self._deferred)
        self.trailing_location(holder)
        if len(self._deferred) > pending:
            _, alias, place = self._deferred.pop()
            return operand, type_, attributes, PendingLocation(alias, place)
        return operand, type_, attributes, holder.location

    def region(
        self,
        arguments: Sequence[tuple[Operand, Type] | Argument] | None = None,
        *,
        isolated: bool = False,
    ) -> Region:
        """Read ``{…}``.

        Args:
            arguments: Names and types of the entry block's arguments, if the
                operation's text gives them; what `argument_list` gives will do.
            isolated: Whether names from outside are unknown inside, and can
                be given anew. What an isolated operation's region must not use
                is not known to the parser: the verifier finds it.
        """
        region = Region()
        self.expect("{", " to begin a region")
        if not arguments and self.accept("}"):
            return region
        outer, self.custom_op = self.custom_op, None
        self._scopes.push(isolated=isolated)
        entry = Block()
        for argument in arguments or ():
            operand, type_ = argument[:2]
            holder = entry.add_argument(type_, self.source.location(operand.place))
            if operand.name in self._scopes.values:
                self.fail(
                    f"region entry argument '{operand.name}' is already in use",
                    operand.place,
                    notes=(("previously referenced here", self._scopes.places[operand.name]),),
                )
            self._define(operand.name, [holder], operand.place)
            if len(argument) == 4:
                self._relocate(holder, argument[3])
        self._blocks(region, entry, named=bool(arguments))
        for block, place in self._scopes.pop().values():
            del block
            self.fail("reference to an undefined block", place)
        self.index += 1
        self.custom_op = outer
        return region

    def _relocate(self, holder: object, location: Location) -> None:
        """Give a location that was read into a stand-in, now or when known."""
        holder.location = location  # type: ignore[attr-defined]
        if isinstance(location, PendingLocation):
            self._deferred.append((holder, location.alias, location.place))

    def _blocks(self, region: Region, entry: Block, *, named: bool) -> None:
        """Read blocks up to the closing brace."""
        if self.tokens[self.index][:1] == "^" and len(self.tokens[self.index]) > 1:
            if named:
                self.fail("invalid block name in region with named arguments")
            self._labelled_block(region)
        else:
            region.add_block(entry)
            self._block_body(entry)
        while not self.peek("}"):
            if self.tokens[self.index][:1] != "^":
                self.wrong_token("expected operation name in quotes")
            self._labelled_block(region)

    def _block_body(self, block: Block) -> None:
        append = block.append
        while True:
            token = self.tokens[self.index]
            if token == "}" or token[:1] == "^" or not token:
                if not token:
                    self.wrong_token("expected operation name in quotes")
                return
            append(self._operation())

    def _labelled_block(self, region: Region) -> None:
        token, place = self.tokens[self.index], self.starts[self.index]
        if len(token) < 2:
            self.fail("expected block name")
        self.index += 1
        defined, forward = self._scopes.blocks[-1], self._scopes.forward_blocks[-1]
        if token in defined:
            self.fail(f"redefinition of block '{token}'", place)
        block = forward.pop(token, (Block(), 0))[0]
        defined[token] = (block, place)
        region.add_block(block)
        if self.accept("(") and not self.accept(")"):
            self._block_arguments(block)
        self.expect(":", " after block name")
        self._block_body(block)

    def _block_arguments(self, block: Block) -> None:
        while True:
            operand = self.operand()
            self.expect(":", " and type for SSA operand")
            argument = block.add_argument(self.type(), self.source.location(operand.place))
            self._define(operand.name, [argument], operand.place)
            self.trailing_location(argument)
            if not self.accept(","):
                break
        self.expect(")")

    def successor(self) -> Block:
        """Read the name of a block."""
        token = self.tokens[self.index]
        if token[:1] != "^" or len(token) < 2:
            self.fail("expected block name")
        self.index += 1
        defined, forward = self._scopes.blocks[-1], self._scopes.forward_blocks[-1]
        found = defined.get(token) or forward.get(token)
        if found is None:
            found = forward[token] = (Block(), self.starts[self.index - 1])
        return found[0]

    # Operations

    def _operation(self) -> Operation:
        names: list[tuple[str, int, int]] | None = None
        token = self.tokens[self.index]
        start = self.starts[self.index]
        if token[:1] == "%":
            names = self._result_names()
            token = self.tokens[self.index]
        outer = self._op_start
        self._op_start = self.starts[self.index]
        if token[:1] == '"':
            op = self._generic_operation()
        elif token[:1] in _WORD_START and token:
            op = self._custom_operation(token)
        else:
            self.wrong_token("expected operation name in quotes")
        self._op_start = outer
        if self.tokens[self.index][:3] == "loc":
            self.trailing_location(op)
        if names is not None:
            self._name_results(op, names, start)
        return op

    def _result_names(self) -> list[tuple[str, int, int]]:
        names: list[tuple[str, int, int]] = []
        while True:
            token, start = self.tokens[self.index], self.starts[self.index]
            if token[:1] != "%" or token == "%":
                self.wrong_token("expected valid ssa identifier")
            self.index += 1
            count = 1
            if self.accept(":"):
                place = self.starts[self.index]
                number = self.optional_integer()
                if number is None:
                    self.wrong_token("expected integer number of results")
                if number < 1:
                    self.fail("expected named operation to have at least 1 result", place)
                count = number
            names.append((token, count, start))
            if not self.accept(","):
                break
        self.expect("=", " after SSA name")
        return names

    def _name_results(self, op: Operation, names: list[tuple[str, int, int]], start: int) -> None:
        results = op.results
        if len(names) == 1 and len(results) == 1 and names[0][1] == 1:
            self._define(names[0][0], results, names[0][2])
            return
        if not results:
            self.fail("cannot name an operation with no results", start)
        expected = sum(count for _, count, _ in names)
        if expected != len(results):
            self.fail(
                f"operation defines {len(results)} results but was provided {expected} to bind",
                start,
            )
        first = 0
        for name, count, place in names:
            self._define(name, results[first : first + count], place)
            first += count

    def _generic_operation(self) -> Operation:
        name = self.string()
        if not name:
            self.fail("empty operation name is invalid", self._op_start)
        if "\0" in name:
            self.fail("null character not allowed in operation name", self._op_start)
        known = definition(name)
        if known.name != name:
            self._check_unknown(name)
        self.expect("(", " to start operand list")
        operands = self.operands()
        self.expect(")", " to end operand list")
        successors = self.comma_separated("[", "]", self.successor) if self.peek("[") else []
        properties: dict[str, Attribute] | None = None
        if self.accept("<"):
            properties = dict(self.attribute_entries())
            self.expect(">")
        regions: list[Region] = []
        if self.peek("("):
            self._default_dialects.append("")
            regions = self.comma_separated("(", ")", self.region)
            self._default_dialects.pop()
        attributes = self.optional_attr_dict()
        self.expect(":", " followed by operation type")
        type_place = self.starts[self.index]
        type_ = self.type()
        if not isinstance(type_, FunctionType):
            self.fail("expected function type", type_place)
        if len(type_.inputs) != len(operands):
            plural = "" if len(operands) == 1 else "s"
            self.fail(
                f"expected {len(operands)} operand type{plural} but had {len(type_.inputs)}",
                type_place,
            )
        values = [self.resolve(o, t) for o, t in zip(operands, type_.inputs, strict=True)]
        if properties is None:
            properties = {}
            for key in known.properties:
                if key in attributes:
                    properties[key] = attributes.pop(key)
        for key, value in known.defaults:
            properties.setdefault(key, value)
        return Operation(
            name,
            values,
            type_.results,
            properties=properties,
            attributes=attributes,
            regions=regions,
            successors=successors,
            location=self.source.location(self._op_start),
        )

    def _check_unknown(self, name: str) -> None:
        dialect = name.partition(".")[0]
        if not self.allow_unregistered and dialect not in known_dialects:
            self.fail(
                "operation being parsed with an unregistered dialect. If this is intended, "
                "please use -allow-unregistered-dialect with the MLIR tool used",
                self._op_start,
            )

    def _custom_operation(self, token: str) -> Operation:
        name = token
        if not is_defined(name):
            if "." not in name:
                name = f"{self._default_dialects[-1]}.{token}"
            if not is_defined(name):
                self._unknown_custom(token, name)
        self.index += 1
        known = definition(name)
        if known.parse is None:
            self.fail(f"op '{name}' has no custom assembly form", self._op_start)
        self._default_dialects.append(_DEFAULT_DIALECTS.get(name, ""))
        outer, self.custom_op = self.custom_op, name
        op = known.parse(self)
        self.custom_op = outer
        self._default_dialects.pop()
        if op.location is UNKNOWN:
            op.location = self.source.location(self._op_start)
        return op

    def _unknown_custom(self, token: str, name: str) -> NoReturn:
        tried = f" (tried '{name}' as well)" if token != name else ""
        dialect = name.partition(".")[0]
        if dialect not in known_dialects:
            self.fail(f"Dialect `{dialect}' not found for custom op '{token}' {tried}")
        self.fail(f"custom op '{token}' is unknown{tried}")

    # The whole text

    def module(self) -> Operation:
        """Read everything; what is no module itself is put in one."""
        block = Block()
        self._scopes.push(isolated=True)
        while (token := self.tokens[self.index]) != "":
            if token[0] == "#" and len(token) > 1 and token[-1] != ">":
                self._attribute_alias(token)
            elif token[0] == "!" and len(token) > 1 and token[-1] != ">":
                self._type_alias(token)
            elif token == "{-#":
                self._file_metadata()
            else:
                block.append(self._operation())
        for place in sorted(self._scopes.forward.values()):
            self._undeclared(place)
        self._scopes.pop()
        self._resolve_deferred()
        first = block.first
        if first is not None and first is block.last and first.name == "builtin.module":
            if self.resources is not None:
                first.properties[RESOURCES] = self.resources
            return first.detach()
        region = Region([block])
        return Operation(
            "builtin.module", regions=[region], location=FileLoc(self.source.file, 0, 0)
        )

    def _undeclared(self, _: int) -> NoReturn:
        found = [
            Diagnostic(
                Severity.ERROR, self.source.location(place), "use of undeclared SSA value name"
            )
            for place in sorted(self._scopes.forward.values())
        ]
        raise MlirError("\n".join(render(each, self.source) for each in found), found)

    def _attribute_alias(self, token: str) -> None:
        name = token[1:]
        if name in self.attribute_aliases:
            self.fail(f"redefinition of attribute alias id '{name}'")
        if "." in name:
            self.fail("attribute names with a '.' are reserved for dialect-defined names")
        self.index += 1
        self.expect("=", " in attribute alias definition")
        location = self.optional_location()
        self.attribute_aliases[name] = self.attribute() if location is None else location

    def _type_alias(self, token: str) -> None:
        name = token[1:]
        if name in self.type_aliases:
            self.fail(f"redefinition of type alias id '{name}'")
        if "." in name:
            self.fail("type names with a '.' are reserved for dialect-defined names")
        self.index += 1
        self.expect("=", " in type alias definition")
        self.type_aliases[name] = self.type()

    def _file_metadata(self) -> None:
        start = self.starts[self.index]
        while self.tokens[self.index] not in ("#-}", ""):
            self.index += 1
        self.expect("#-}")
        self.resources = RawAttr(self.source.text[start : self.starts[self.index - 1] + 3])
