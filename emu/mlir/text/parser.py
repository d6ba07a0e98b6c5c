"""Parser of operations: from text to a module.

It is composed of a reader of tokens, the parsers of types, attributes and locations that share that
reader, and the scopes of values. The parser itself reads operations, regions and blocks.
``OpDefinition.parse`` gets it, as an ``OpParser``, for the pretty forms.

Uses are linked in the order in which operations are made, an operation after the regions it holds:
passes meet the users of a value in MLIR's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from emu.mlir.assembly import Argument, Operand
from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import UNKNOWN, Diagnostic, FileLoc, MlirError, Place, Severity
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.registry import definition, is_defined, known_dialects
from emu.mlir.text.attribute_parser import AttributeParser
from emu.mlir.text.lexer import SourceText, is_line, render_all
from emu.mlir.text.scopes import PendingLocation, Scopes, StandIn
from emu.mlir.text.similar_lines import Line, SimilarLines, split_line
from emu.mlir.text.token_reader import TokenReader
from emu.mlir.types import FunctionType, Type

_DEFAULT_DIALECTS = {"func.func": "func", "builtin.module": "builtin"}
_MOST_RESULTS = 1 << 32
_LINES_AT_ONCE = 32
_WORD_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


class ModuleParser:
    """Parser of a module; implements ``OpParser``.

    Args:
        source: The text.
        allow_unregistered: Whether operations of unknown dialects may come in generic form.
        names: Is filled with the names that values have in the text.
    """

    def __init__(
        self,
        source: SourceText,
        *,
        allow_unregistered: bool = True,
        names: dict[Value, str] | None = None,
    ) -> None:
        reader = self._reader = TokenReader(source)
        attributes = self._attributes = AttributeParser(reader, self)
        types = self._types = attributes.types
        self._locations = attributes.locations
        self._scopes = Scopes(reader, names)
        self._allow_unregistered = allow_unregistered
        self._resources: str | None = None
        self._op_start = 0
        self._default_dialects = ["builtin"]
        self._similar: dict[str, SimilarLines] = {}  # by the default dialect, which they depend on
        self._new_lines: dict[int, Line] = {}
        # What dialects call (`OpParser`). Bound once: a method that forwards would cost each call.
        self.here = reader.here
        self.error = reader.error
        self.in_operation = reader.in_operation
        self.peek = self.peek_keyword = reader.peek
        self.accept = self.accept_keyword = reader.accept
        self.expect = reader.expect
        self.expect_keyword = reader.expect_keyword
        self.keyword = reader.keyword
        self.optional_keyword = reader.optional_keyword
        self.integer = reader.integer
        self.optional_integer = reader.optional_integer
        self.string = reader.string
        self.optional_string = reader.optional_string
        self.symbol = reader.symbol
        self.optional_symbol = reader.optional_symbol
        self.comma_separated = reader.comma_separated
        self.peek_operand = reader.peek_operand
        self.operand = reader.operand
        self.optional_operand = reader.optional_operand
        self.operands = reader.operands
        self.type = types.type
        self.types = types.types
        self.function_type = types.function_type
        self.attribute = attributes.attribute
        self.peek_attribute = attributes.peek_attribute
        self.optional_attr_dict = attributes.optional_attr_dict
        self.optional_attr_dict_with_keyword = attributes.optional_attr_dict_with_keyword
        self.optional_location = self._locations.optional_location
        self.resolve = self._scopes.resolve

    @property
    def alike(self) -> set[Operation]:
        """Operations that equal an earlier one in all but their place, operands and uses."""
        return set[Operation]().union(*(each.made for each in self._similar.values()))

    @property
    def op_place(self) -> Place:
        """Place of the operation's name."""
        return self._reader.source, self._op_start

    def resolve_all(
        self, operands: Sequence[Operand], types: Sequence[Type], at: Place | None = None
    ) -> list[Value]:
        """Return the values that names stand for.

        Args:
            operands: The names.
            types: Their types.
            at: Where to report an error about their number. Default: the operation.
        """
        if len(operands) != len(types):
            self._reader.error(
                f"number of operands and types do not match: got {len(operands)} operands "
                f"and {len(types)} types",
                at if at is not None else self._op_start,
            )
        return [self._scopes.resolve(o, t) for o, t in zip(operands, types, strict=True)]

    # Regions

    def argument_list(self) -> list[Argument]:
        """Read ``(%a: i32 {x = 1} loc(…), …)``."""
        return self._reader.comma_separated("(", ")", self.argument)

    def argument(self) -> Argument:
        """Read ``%a: i32 {x = 1} loc(…)``."""
        reader = self._reader
        operand = reader.operand()
        reader.expect(":")
        type_ = self.type()
        attributes = self.optional_attr_dict() if reader.peek("{") else None
        holder = StandIn((reader.source, operand.place))
        pending = len(self._locations.deferred)
        self._locations.trailing_location(holder)
        if len(self._locations.deferred) > pending:
            _, alias, place = self._locations.deferred.pop()
            return operand, type_, attributes, PendingLocation(alias, place)
        return operand, type_, attributes, holder._location

    def region(
        self,
        arguments: Sequence[tuple[Operand, Type] | Argument] | None = None,
        *,
        isolated: bool = False,
    ) -> Region:
        """Read ``{…}``.

        Args:
            arguments: Names and types of the entry block's arguments where the operation's form
                has them, as ``argument_list`` returns them.
            isolated: Whether names from outside are unknown inside and can be given anew. Values
                that an isolated region must not use are found by the verifier, not here.
        """
        reader = self._reader
        region = Region()
        reader.expect("{", " to begin a region")
        if not arguments and reader.accept("}"):
            return region
        outer, reader.custom_op = reader.custom_op, None
        self._scopes.push(isolated=isolated)
        entry = Block()
        for argument in arguments or ():
            operand, type_ = argument[:2]
            given = argument[3] if len(argument) == 4 else (reader.source, operand.place)
            holder = entry.add_argument(type_, given)
            if operand.name in self._scopes.values:
                reader.fail(
                    f"region entry argument '{operand.name}' is already in use",
                    operand.place,
                    notes=(("previously referenced here", self._scopes.places[operand.name]),),
                )
            self._scopes.define(operand.name, [holder], operand.place)
            if isinstance(given, PendingLocation):
                self._locations.deferred.append((holder, given.alias, given.place))
        self._blocks(region, entry, named=bool(arguments))
        for block, place in self._scopes.pop().values():
            del block
            reader.fail("reference to an undefined block", place)
        reader.index += 1
        reader.custom_op = outer
        return region

    def _blocks(self, region: Region, entry: Block, *, named: bool) -> None:
        """Read blocks up to the closing brace."""
        reader = self._reader
        if reader.tokens[reader.index][:1] == "^" and len(reader.tokens[reader.index]) > 1:
            if named:
                reader.fail("invalid block name in region with named arguments")
            self._labelled_block(region)
        else:
            region.add_block(entry)
            self._block_body(entry)
        while not reader.peek("}"):
            if reader.tokens[reader.index][:1] != "^":
                reader.wrong_token("expected operation name in quotes")
            self._labelled_block(region)

    def _block_body(self, block: Block) -> None:
        reader = self._reader
        append = block.append
        default = self._default_dialects[-1]
        similar = self._similar.get(default)
        if similar is None:
            similar = self._similar[default] = SimilarLines(reader.source, self._scopes)
        while True:
            token = reader.tokens[reader.index]
            if token == "}" or token[:1] == "^" or not token:
                if not token:
                    reader.wrong_token("expected operation name in quotes")
                return
            if token[0] != "%":
                append(self._operation())
                continue
            start = reader.starts[reader.index]
            if is_line(token):
                found = similar.read(token, start)
                if found is not None:
                    op, length = found
                    reader.index += 1
                    if length < len(token):
                        self._locations.alias_behind(op, token[length + 1 :], start + length + 1)
                    append(op)
                    continue
                self._split_lines(similar)
            line_to_learn = self._new_lines.pop(start, None)
            append(
                self._operation() if line_to_learn is None else self._learn(line_to_learn, similar)
            )

    def _split_lines(self, similar: SimilarLines) -> None:
        """Split the line that comes next, and of the following ones those that are new too."""
        seen: set[str] = set()

        def is_kept(token: str, start: int) -> bool:
            line = split_line(token, start)
            if line.words in seen or similar.is_known(line):
                return True
            seen.add(line.words)
            self._new_lines[start] = line
            return False

        reader = self._reader
        is_kept(reader.tokens[reader.index], reader.starts[reader.index])
        reader.split_lines(_LINES_AT_ONCE, is_kept)

    def _learn(self, line: Line, similar: SimilarLines) -> Operation:
        """Read an operation; keep the line as a pattern if that was all of it."""
        reader = self._reader
        places = self._scopes.looked_up = []
        op = self._operation()
        self._scopes.looked_up = None
        if reader.starts[reader.index - 1] < line.end <= reader.starts[reader.index]:
            similar.learn(line, op, places)
        return op

    def _labelled_block(self, region: Region) -> None:
        reader = self._reader
        token, place = reader.tokens[reader.index], reader.starts[reader.index]
        if len(token) < 2:
            reader.fail("expected block name")
        reader.index += 1
        defined, forward = self._scopes.blocks[-1], self._scopes.forward_blocks[-1]
        if token in defined:
            reader.fail(f"redefinition of block '{token}'", place)
        block = forward.pop(token, (Block(), 0))[0]
        defined[token] = (block, place)
        region.add_block(block)
        if reader.accept("(") and not reader.accept(")"):
            self._block_arguments(block)
        reader.expect(":", " after block name")
        self._block_body(block)

    def _block_arguments(self, block: Block) -> None:
        reader = self._reader
        while True:
            operand = reader.operand()
            reader.expect(":", " and type for SSA operand")
            argument = block.add_argument(self.type(), (reader.source, operand.place))
            self._scopes.define(operand.name, [argument], operand.place)
            self._locations.trailing_location(argument)
            if not reader.accept(","):
                break
        reader.expect(")")

    def successor(self) -> Block:
        """Read the name of a block."""
        reader = self._reader
        token = reader.tokens[reader.index]
        if token[:1] != "^" or len(token) < 2:
            reader.fail("expected block name")
        reader.index += 1
        defined, forward = self._scopes.blocks[-1], self._scopes.forward_blocks[-1]
        found = defined.get(token) or forward.get(token)
        if found is None:
            found = forward[token] = (Block(), reader.starts[reader.index - 1])
        return found[0]

    # Operations

    def _operation(self) -> Operation:
        reader = self._reader
        names: list[tuple[str, int, int]] | None = None
        token = reader.tokens[reader.index]
        start = reader.starts[reader.index]
        if token[:1] == "%":
            names = self._result_names()
            token = reader.tokens[reader.index]
        outer = self._op_start
        self._op_start = reader.starts[reader.index]
        if token[:1] == '"':
            op = self._generic_operation()
        elif token[:1] in _WORD_START and token:
            op = self._custom_operation(token)
        else:
            reader.wrong_token("expected operation name in quotes")
        self._op_start = outer
        if reader.tokens[reader.index][:3] == "loc":
            self._locations.trailing_location(op)
        if names is not None:
            self._name_results(op, names, start)
        return op

    def _result_names(self) -> list[tuple[str, int, int]]:
        reader = self._reader
        names: list[tuple[str, int, int]] = []
        while True:
            reader.split_line()
            token, start = reader.tokens[reader.index], reader.starts[reader.index]
            if token[:1] != "%" or token == "%":
                reader.wrong_token("expected valid ssa identifier")
            reader.index += 1
            count = 1
            if reader.accept(":"):
                place = reader.starts[reader.index]
                number = reader.optional_integer()
                if number is None:
                    reader.wrong_token("expected integer number of results")
                if not 1 <= number < _MOST_RESULTS:
                    reader.fail("expected named operation to have at least 1 result", place)
                count = number
            names.append((token, count, start))
            if not reader.accept(","):
                break
        reader.expect("=", " after SSA name")
        return names

    def _name_results(self, op: Operation, names: list[tuple[str, int, int]], start: int) -> None:
        reader = self._reader
        results = op.results
        if len(names) == 1 and len(results) == 1 and names[0][1] == 1:
            self._scopes.define(names[0][0], results, names[0][2])
            return
        if not results:
            reader.fail("cannot name an operation with no results", start)
        expected = sum(count for _, count, _ in names)
        if expected != len(results):
            reader.fail(
                f"operation defines {len(results)} results but was provided {expected} to bind",
                start,
            )
        first = 0
        for name, count, place in names:
            self._scopes.define(name, results[first : first + count], place)
            first += count

    def _generic_operation(self) -> Operation:
        reader = self._reader
        name = reader.string()
        if not name:
            reader.fail("empty operation name is invalid", self._op_start)
        if "\0" in name:
            reader.fail("null character not allowed in operation name", self._op_start)
        known = definition(name)
        if known.name != name:
            self._check_unknown(name)
        reader.expect("(", " to start operand list")
        operands = reader.operands()
        reader.expect(")", " to end operand list")
        successors = reader.comma_separated("[", "]", self.successor) if reader.peek("[") else []
        properties: dict[str, Attribute] | None = None
        if reader.accept("<"):
            properties = dict(self._attributes.attribute_entries())
            reader.expect(">")
        regions: list[Region] = []
        if reader.peek("("):
            self._default_dialects.append("")
            regions = reader.comma_separated("(", ")", self.region)
            self._default_dialects.pop()
        attributes = self.optional_attr_dict()
        type_ = self._generic_type(operands)
        values = [self._scopes.resolve(o, t) for o, t in zip(operands, type_.inputs, strict=True)]
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
            location=self.op_place,
        )

    def _generic_type(self, operands: Sequence[Operand]) -> FunctionType:
        """Read the type of an operation in generic form, which must fit its operands."""
        reader = self._reader
        reader.expect(":", " followed by operation type")
        place = reader.starts[reader.index]
        type_ = self.type()
        if not isinstance(type_, FunctionType):
            reader.fail("expected function type", place)
        if len(type_.inputs) != len(operands):
            plural = "" if len(operands) == 1 else "s"
            reader.fail(
                f"expected {len(operands)} operand type{plural} but had {len(type_.inputs)}", place
            )
        return type_

    def _check_unknown(self, name: str) -> None:
        dialect = name.partition(".")[0]
        if not self._allow_unregistered and dialect not in known_dialects:
            self._reader.fail(
                "operation being parsed with an unregistered dialect. If this is intended, "
                "please use -allow-unregistered-dialect with the MLIR tool used",
                self._op_start,
            )

    def _custom_operation(self, token: str) -> Operation:
        reader = self._reader
        name = token
        if not is_defined(name):
            if "." not in name:
                name = f"{self._default_dialects[-1]}.{token}"
            if not is_defined(name):
                self._unknown_custom(token, name)
        reader.index += 1
        known = definition(name)
        if known.parse is None:
            reader.fail(f"op '{name}' has no custom assembly form", self._op_start)
        self._default_dialects.append(_DEFAULT_DIALECTS.get(name, ""))
        outer, reader.custom_op = reader.custom_op, name
        op = known.parse(self)
        reader.custom_op = outer
        self._default_dialects.pop()
        if op._location is UNKNOWN:
            op._location = self.op_place
        return op

    def _unknown_custom(self, token: str, name: str) -> NoReturn:
        reader = self._reader
        tried = f" (tried '{name}' as well)" if token != name else ""
        dialect = name.partition(".")[0]
        if dialect not in known_dialects:
            reader.fail(f"Dialect `{dialect}' not found for custom op '{token}' {tried}")
        reader.fail(f"custom op '{token}' is unknown{tried}")

    # The whole text

    def module(self) -> Operation:
        """Read the whole text; operations that are not one module are put into a new one."""
        reader = self._reader
        block = Block()
        self._scopes.push(isolated=True)
        while (token := reader.tokens[reader.index]) != "":
            if token[0] == "#" and len(token) > 1 and token[-1] != ">":
                self._attribute_alias(token)
            elif token[0] == "!" and len(token) > 1 and token[-1] != ">":
                self._type_alias(token)
            elif token == "{-#":
                self._file_metadata()
            else:
                block.append(self._operation())
        if self._scopes.undefined:
            self._fail_undefined()
        self._scopes.pop()
        self._locations.resolve_deferred()
        first = block.first
        if first is not None and first is block.last and first.name == "builtin.module":
            first.resources = self._resources
            return first.detach()
        region = Region([block])
        return Operation(
            "builtin.module", regions=[region], location=FileLoc(reader.source.file, 0, 0)
        )

    def _fail_undefined(self) -> NoReturn:
        """Raise the errors about all values that were used and never defined."""
        reader = self._reader
        found = [
            Diagnostic(
                Severity.ERROR, reader.source.location(place), "use of undeclared SSA value name"
            )
            for place in sorted(self._scopes.undefined.values())
        ]
        raise MlirError(render_all(found, reader.source), found)

    def _attribute_alias(self, token: str) -> None:
        reader = self._reader
        name = token[1:]
        if name in self._attributes.aliases:
            reader.fail(f"redefinition of attribute alias id '{name}'")
        if "." in name:
            reader.fail("attribute names with a '.' are reserved for dialect-defined names")
        reader.index += 1
        reader.expect("=", " in attribute alias definition")
        location = self.optional_location()
        self._attributes.aliases[name] = self.attribute() if location is None else location

    def _type_alias(self, token: str) -> None:
        reader = self._reader
        name = token[1:]
        if name in self._types.aliases:
            reader.fail(f"redefinition of type alias id '{name}'")
        if "." in name:
            reader.fail("type names with a '.' are reserved for dialect-defined names")
        reader.index += 1
        reader.expect("=", " in type alias definition")
        self._types.aliases[name] = self.type()

    def _file_metadata(self) -> None:
        reader = self._reader
        start = reader.starts[reader.index]
        while reader.tokens[reader.index] not in ("#-}", ""):
            reader.index += 1
        reader.expect("#-}")
        self._resources = reader.source.text[start : reader.starts[reader.index - 1] + 3]
