"""A reader of the macro text that declares tiling data, and of the setters that fill it.

It takes the text as it stands in a file or a document, C++ and prose around it included: it looks at
the macros, at variables of the structs, at their ``set_…`` calls, and at constants that lengths and
values name. The text is not run: assignments take effect in the order in which they stand, whatever
condition, loop or function they stand in, and of two variables of one name the later one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from emu.comm.errors import ArgumentError
from emu.comm.tiling import checks
from emu.comm.tiling.ctext import MacroError, Number, Token, evaluate, source, tokens
from emu.comm.tiling.scalars import C_SCALARS, scalar_type
from emu.comm.tiling.struct import TilingData, layout_of, structs_of
from emu.kernels.core.messages import shown

_FIELDS = {
    "TILING_DATA_FIELD_DEF": "(type, name)",
    "TILING_DATA_FIELD_DEF_ARR": "(type, length, name)",
    "TILING_DATA_FIELD_DEF_STRUCT": "(Struct, name)",
}
_BEGIN, _END, _REGISTER = (
    "BEGIN_TILING_DATA_DEF",
    "END_TILING_DATA_DEF",
    "REGISTER_TILING_DATA_CLASS",
)
_OTHERS = (_BEGIN, _END, _REGISTER)


@dataclass(frozen=True)
class Unread:
    """An assignment whose value the text alone does not give; the field keeps its value."""

    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class MacroText:
    """The declarations of a text."""

    structs: dict[str, type[TilingData]] = field(default_factory=dict)
    """By name, in the order of the text."""
    registered: dict[str, type[TilingData]] = field(default_factory=dict)
    """The struct of each operator of ``REGISTER_TILING_DATA_CLASS``."""
    instances: dict[str, TilingData] = field(default_factory=dict)
    """Variables of these structs, with the values that the text assigns."""
    unread: list[Unread] = field(default_factory=list)
    """Assignments to them that are not constant."""


def read_macros(
    text: str,
    *,
    structs: Mapping[str, type[TilingData]] | None = None,
    constants: Mapping[str, Number] | None = None,
) -> MacroText:
    """Read the structs that a text declares with the TILING_DATA_DEF macros.

    Args:
        text: C++, or anything that contains it.
        structs: Structs of other texts, to be nested or used. Default: none.
        constants: Values of names that the text uses without defining them. Default: none.

    Returns:
        The structs and the filled variables.

    Raises:
        MacroError: Of the line: a macro without its arguments, an unknown type, a field declared
            twice, a struct used before it is declared or without end, a value out of range.
    """
    checks.check_text(text, "text")
    reader = _Reader(text, _structs(structs), _constants(constants))
    reader.run()
    return reader.result


def _structs(structs: Mapping[str, type[TilingData]] | None) -> Mapping[str, type[TilingData]]:
    if structs is None:
        return {}
    if not isinstance(structs, Mapping):
        raise ArgumentError(f"structs must be a dictionary, but got {shown(structs)}")
    for name, struct in structs.items():
        checks.check_text(name, "name in structs")
        if not (isinstance(struct, type) and issubclass(struct, TilingData)):
            raise ArgumentError(
                f"structs[{name!r}] must be a struct of tiling data, but got {shown(struct)}"
            )
    return structs


def _constants(constants: Mapping[str, Number] | None) -> Mapping[str, Number]:
    if constants is None:
        return {}
    if not isinstance(constants, Mapping):
        raise ArgumentError(f"constants must be a dictionary, but got {shown(constants)}")
    for name, value in constants.items():
        checks.check_text(name, "name in constants")
        if not isinstance(value, int | float):
            raise ArgumentError(f"constants[{name!r}] must be a number, but got {shown(value)}")
    return constants


class _Reader:
    def __init__(
        self,
        text: str,
        structs: Mapping[str, type[TilingData]],
        constants: Mapping[str, Number],
    ) -> None:
        self.tokens = tokens(text)
        self.at = 0
        self.result = MacroText()
        self.known = dict(structs)
        self.constants: dict[str, Any] = dict(constants)
        self.constant = False  # the statement began with const or constexpr
        self.begun: Token | None = None
        self.name = ""
        self.members: dict[str, Any] = {}
        self.steps: dict[str, Callable[[Token], None]] = {
            **dict.fromkeys(_FIELDS, self.field),
            _BEGIN: self.begin,
            _END: self.end,
            _REGISTER: self.register,
        }

    def run(self) -> None:
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            step = self.steps.get(token.text) if token.kind == "name" else None
            if step is not None:
                step(token)
            elif self.begun is not None:
                self.check_body(token)
            elif token.kind == "directive":
                self.directive(token)
            else:
                self.other(token)
        if self.begun is not None:
            raise MacroError(
                f"struct {self.name} must end with {_END}, but the text ends", self.begun.line
            )

    # Tokens.

    def peek(self, ahead: int = 0) -> str:
        position = self.at + ahead
        return self.tokens[position].text if position < len(self.tokens) else ""

    def is_name(self, ahead: int = 0) -> bool:
        position = self.at + ahead
        return position < len(self.tokens) and self.tokens[position].kind == "name"

    def until(self, ends: str) -> list[Token]:
        """Take the tokens up to one of ``ends`` outside of parentheses, and leave that one."""
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            text = self.peek()
            if depth == 0 and text in ends:
                break
            depth += (text in {"(", "{", "["}) - (text in {")", "}", "]"})
            self.at += 1
        return self.tokens[start : self.at]

    def arguments(self, macro: Token, form: str) -> list[list[Token]]:
        """Take ``(a, b)`` behind a macro."""
        parts, end = self.split_arguments()
        if end is not None:
            self.at = end
            if len(parts) == form.count(",") + 1 and all(parts):
                return parts
        got = source([token for part in parts for token in part]) or repr(self.peek())
        if end is not None and all(parts):
            got = f"({', '.join(source(part) for part in parts)})"
        raise MacroError(f"{macro.text} must be followed by {form}, but got {got}", macro.line)

    def split_arguments(self) -> tuple[list[list[Token]], int | None]:
        """Return the parts between parentheses and the position behind them, None where they do not close."""
        parts: list[list[Token]] = [[]]
        if self.peek() != "(":
            return parts, None
        depth = 1
        for position in range(self.at + 1, len(self.tokens)):
            token = self.tokens[position]
            # A missing parenthesis must not swallow the macros behind it.
            if token.text == ";" or token.text in self.steps:
                break
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                return parts, position + 1
            if token.text == "," and depth == 1:
                parts.append([])
            else:
                parts[-1].append(token)
        return parts, None

    def word(self, part: list[Token], what: str) -> str:
        if len(part) != 1 or part[0].kind != "name":
            raise MacroError(f"{what} must be a name, but got {source(part)!r}", part[0].line)
        return part[0].text

    # Structs.

    def begin(self, token: Token) -> None:
        if self.begun is not None:
            raise MacroError(
                f"struct {self.name} must end with {_END} before line {token.line}, but has no end",
                self.begun.line,
            )
        (part,) = self.arguments(token, "(Name)")
        self.name, self.members = self.word(part, "name of a struct"), {}
        self.begun = token

    def end(self, token: Token) -> None:
        if self.begun is None:
            raise MacroError(f"{_END} must follow {_BEGIN}, but no struct has begun", token.line)
        if not self.members:
            raise MacroError(f"struct {self.name} must have fields, but has none", self.begun.line)
        try:
            struct = TilingData.define(self.name, list(self.members.items()), module=__name__)
        except ArgumentError as error:
            raise MacroError(str(error), self.begun.line) from None
        earlier = self.result.structs.get(self.name)
        if earlier is not None and layout_of(earlier) != layout_of(struct):
            raise MacroError(
                f"struct {self.name} must be declared once, but differs from an earlier one",
                self.begun.line,
            )
        self.known[self.name] = self.result.structs[self.name] = earlier or struct
        self.begun = None

    def field(self, token: Token) -> None:
        parts = self.arguments(token, _FIELDS[token.text])
        if self.begun is None:
            raise MacroError(
                f"{token.text} must stand between {_BEGIN} and {_END}, but no struct has begun",
                token.line,
            )
        name = self.word(parts[-1], f"name of a field of {self.name}")
        where = f"{self.name}.{name}"
        if name in self.members:
            raise MacroError(f"field {where} must be declared once, but is twice", token.line)
        kind: Any
        if token.text.endswith("_STRUCT"):
            kind = self.struct(source(parts[0]), f"struct of field {where}", token.line)
        else:
            kind = scalar_type(source(parts[0]))
            if kind is None:
                raise MacroError(
                    f"type of field {where} must be one of {', '.join(C_SCALARS)}, "
                    f"but got {source(parts[0])}",
                    token.line,
                )
        if token.text.endswith("_ARR"):
            count = evaluate(parts[1], self.constants)
            if not isinstance(count, int) or count < 1:
                raise MacroError(
                    f"length of field {where} must be a known whole number of at least 1, "
                    f"but got {source(parts[1])}",
                    token.line,
                )
            kind = kind[count]
        self.members[name] = kind

    def struct(self, name: str, what: str, line: int) -> type[TilingData]:
        struct = self.known.get(name.rpartition("::")[2])
        if struct is None:
            known = ", ".join(self.known) or "none"
            raise MacroError(
                f"{what} must be declared before (so far: {known}), but got {name}", line
            )
        return struct

    def register(self, token: Token) -> None:
        if self.begun is not None:
            raise MacroError(
                f"struct {self.name} must end with {_END} before line {token.line}, but has no end",
                self.begun.line,
            )
        operator, struct = self.arguments(token, "(Operator, Struct)")
        name = self.word(operator, "name of an operator")
        self.result.registered[name] = self.struct(
            source(struct), f"struct of operator {name}", token.line
        )

    def check_body(self, token: Token) -> None:
        """Reject anything but macros between BEGIN and END: a misspelt one must not be passed over."""
        harmless = token.text == ";" or (
            token.kind == "directive" and not token.text.lstrip(" \t#").startswith(("if", "el"))
        )
        if not harmless:
            assert self.begun is not None
            raise MacroError(
                f"struct {self.name} (line {self.begun.line}) must hold field macros only, "
                f"but got {token.text.strip()!r}",
                token.line,
            )

    # Constants, variables and assignments.

    def directive(self, token: Token) -> None:
        words = tokens(token.text.strip().lstrip("#"))
        if len(words) > 2 and words[0].text == "define":
            value = evaluate(words[2:], self.constants)
            if value is not None:
                self.constants[words[1].text] = value

    def other(self, token: Token) -> None:
        if token.text in {";", "{", "}"}:
            self.constant = False
        elif token.kind != "name":
            return
        elif token.text in {"const", "constexpr"}:
            self.constant = True
        elif token.text in self.known and not self.constant:
            self.declaration(self.known[token.text])
        elif token.text in self.result.instances and self.peek() in {".", "->"}:
            self.statement(token)
        elif self.peek() == "=":
            self.at += 1
            value = evaluate(self.until(";,"), self.constants) if self.constant else None
            self.define(token.text, value)
        elif self.peek() == "[" and self.is_array():
            self.define(token.text, self.array())
        elif isinstance(self.constants.get(token.text), list):
            self.define(token.text, None)  # an array used otherwise may be changed there

    def define(self, name: str, value: Any) -> None:
        if value is None:
            self.constants.pop(name, None)
        else:
            self.constants[name] = value

    def is_array(self) -> bool:
        """Return whether ``[length] = {`` follows."""
        ahead = 0
        while self.peek(ahead) not in {"]", ";", ""}:
            ahead += 1
        rest = [self.peek(ahead + i) for i in (1, 2)]
        return rest[0] == "{" or rest == ["=", "{"]

    def array(self) -> list[Number] | None:
        self.until("{")
        self.at += 1
        elements: list[Number | None] = []
        while self.peek() not in {"}", ""}:
            elements.append(evaluate(self.until(",}"), self.constants))
            self.at += self.peek() == ","
        known = [element for element in elements if element is not None]
        return known if len(known) == len(elements) else None

    def declaration(self, struct: type[TilingData]) -> None:
        """Read ``Struct a, &b = a, *c = &a;`` behind ``Struct``."""
        while True:
            mark = self.peek() if self.peek() in {"&", "*"} else ""
            ahead = 1 if mark else 0
            if not self.is_name(ahead) or self.peek(ahead + 1) not in {*";,)={"}:
                return
            name = self.peek(ahead)
            self.at += ahead + 1
            self.result.instances[name] = self.initial(struct, name, bool(mark))
            if self.peek() != ",":
                return
            self.at += 1

    def initial(self, struct: type[TilingData], name: str, is_shared: bool) -> TilingData:
        if self.peek() not in {"=", "{"}:
            return struct()
        line = self.tokens[self.at].line
        self.at += self.peek() == "="
        value = source(self.until(";,"))
        other = self.result.instances.get(value.lstrip("&"))
        if isinstance(other, struct):
            return other if is_shared else TilingData.copy(other)
        if value not in {"{}", "{0}", f"{struct.__name__}()", f"{struct.__name__}{{}}"}:
            self.result.unread.append(Unread(line, f"{name} = {value}"))
        return struct()

    def statement(self, token: Token) -> None:
        """Read ``variable.path.set_field(value)`` or ``variable.path.field = value``."""
        path = [token.text]
        while self.peek() in {".", "->"} and self.is_name(1):
            path.append(self.peek(1))
            self.at += 2
        if path[-1].startswith("set_") and self.peek() == "(":
            self.at += 1
            value = self.until(")")
            path[-1] = path[-1].removeprefix("set_")
        elif self.peek() == "=":
            self.at += 1
            value = self.until(";")
        elif self.peek() == "[":
            value = self.until(";")
            if any(part.text == "=" for part in value):
                self.result.unread.append(Unread(token.line, ".".join(path) + source(value)))
            return
        else:
            return
        self.assign(path, value, token.line)

    def assign(self, path: list[str], part: list[Token], line: int) -> None:
        owner = self.result.instances[path[0]]
        for name in path[1:-1]:
            if name not in structs_of(type(owner)):
                raise MacroError(
                    f"{'.'.join(path)} must lead through structs, "
                    f"but {type(owner).__name__} has no struct {name}",
                    line,
                )
            owner = getattr(owner, name)
        name = path[-1]
        known = self.constants.get(part[0].text) if len(part) == 1 else None
        value = known if isinstance(known, list) else evaluate(part, self.constants)
        try:
            if value is not None or name not in layout_of(owner).by_name:
                setattr(owner, name, value)
                return
        except ArgumentError as error:
            raise MacroError(str(error), line) from None
        self.result.unread.append(Unread(line, f"{'.'.join(path)} = {source(part)}"))
