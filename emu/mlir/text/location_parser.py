"""Parser of locations, and of the aliases that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from emu.mlir.base import Attribute
from emu.mlir.diagnostics import UNKNOWN, CallSiteLoc, FileLoc, FusedLoc, Location, NameLoc
from emu.mlir.text.token_reader import TokenReader

_LAST_LINE = (1 << 32) - 1


class HasLocation(Protocol):
    """An operation, an argument or a stand-in, whose location is set once it is known."""

    @property
    def location(self) -> Location:
        """Where it is in the source."""

    @location.setter
    def location(self, location: Location) -> None: ...


class LocationParser:
    """Parser of locations.

    Args:
        reader: The place in the text.
        aliases: Attributes and locations by the names that the text gives them.
        parse_attribute: Reads the metadata of a fused location.

    Attributes:
        deferred: Owners whose location is an alias that was not yet defined, with the alias and
            its offset.
    """

    def __init__(
        self,
        reader: TokenReader,
        aliases: Mapping[str, Attribute | Location],
        parse_attribute: Callable[[], Attribute],
    ) -> None:
        self.deferred: list[tuple[HasLocation, str, int]] = []
        self._reader = reader
        self._aliases = aliases
        self._parse_attribute = parse_attribute

    def optional_location(self) -> Location | None:
        """Read ``loc(…)`` if it comes; raise an error about an alias that is not defined."""
        reader = self._reader
        token = reader.tokens[reader.index]
        if token == "loc" and reader.tokens[reader.index + 1] == "(":
            reader.index += 2
            found = self._location()
            reader.expect(")", " in location")
            return found
        if token[:5] == "loc(#":
            alias = self._aliases.get(token[5:-1])
            if not isinstance(alias, Location):
                reader.fail(f"undefined symbol alias id '{token[5:-1]}'")
            reader.index += 1
            return alias
        return None

    def alias_behind(self, owner: HasLocation, token: str, place: int) -> None:
        """Store the location whose alias ``loc(#name)`` stands behind an operation."""
        name = token[5:-1]
        alias = self._aliases.get(name)
        if isinstance(alias, Location):
            owner.location = alias
        else:
            self.deferred.append((owner, name, place))

    def trailing_location(self, owner: HasLocation) -> None:
        """Read ``loc(…)`` behind an operation or argument, if it comes, and store it there.

        An alias may be defined at the end of the text: ``resolve_deferred`` stores it then.
        """
        reader = self._reader
        token = reader.tokens[reader.index]
        if token[:5] == "loc(#":
            self.alias_behind(owner, token, reader.starts[reader.index])
            reader.index += 1
        elif token == "loc":
            # `loc(#name)` with blanks in it, which the lexer does not join to one token.
            name = reader.tokens[reader.index + 2]
            if name[:1] == "#" and reader.tokens[reader.index + 3] == ")":
                self.deferred.append((owner, name[1:], reader.starts[reader.index + 2]))
                reader.index += 4
                return
            found = self.optional_location()
            if found is not None:
                owner.location = found

    def resolve_deferred(self) -> None:
        """Store the locations whose aliases were defined later."""
        reader = self._reader
        for owner, name, place in self.deferred:
            alias = self._aliases.get(name)
            if alias is None:
                reader.fail("operation location alias was never defined", place)
            if not isinstance(alias, Location):
                reader.fail(f"expected location, but found '{alias}'", place)
            owner.location = alias

    def _location(self) -> Location:
        reader = self._reader
        token = reader.tokens[reader.index]
        if token[:1] == '"':
            return self._name_or_file()
        if token[:1] == "#":
            alias = self._aliases.get(token[1:])
            if not isinstance(alias, Location):
                reader.fail(f"undefined symbol alias id '{token[1:]}'")
            reader.index += 1
            return alias
        if reader.accept_keyword("unknown"):
            return UNKNOWN
        if reader.accept_keyword("callsite"):
            reader.expect("(", " in callsite location")
            callee = self._location()
            reader.expect_keyword("at", " in callsite location")
            caller = self._location()
            reader.expect(")", " in callsite location")
            return CallSiteLoc(callee, caller)
        if reader.accept_keyword("fused"):
            return self._fused()
        reader.fail("expected location instance")

    def _fused(self) -> Location:
        reader = self._reader
        metadata = ""
        if reader.accept("<"):
            metadata = str(self._parse_attribute())
            reader.expect(">", " after fused location metadata")
        reader.expect("[")
        parts = [self._location()]
        while reader.accept(","):
            parts.append(self._location())
        reader.expect("]", " in fused location")
        return _fuse(parts, metadata)

    def _name_or_file(self) -> Location:
        reader = self._reader
        name = reader.string()
        if reader.accept(":"):
            line = self._line_or_column("line")
            reader.expect(":", " in FileLineColRange")
            column = self._line_or_column("column")
            if not reader.accept_keyword("to"):
                return FileLoc(name, line, column)
            end_line = line if reader.peek(":") else self._line_or_column("line")
            reader.expect(":", " in FileLineColRange")
            return FileLoc(name, line, column, end_line, self._line_or_column("column"))
        if not reader.accept("("):
            return NameLoc(name, UNKNOWN)
        child = self._location()
        reader.expect(")", " after child location of NameLoc")
        return NameLoc(name, child)

    def _line_or_column(self, what: str) -> int:
        reader = self._reader
        value = reader.optional_integer()
        if value is None or value > _LAST_LINE:
            reader.wrong_token(f"expected integer {what} number in FileLineColRange")
        return value


def _fuse(parts: list[Location], metadata: str) -> Location:
    """Fuse locations; like MLIR, drop repeated and unknown ones, and flatten."""
    # A dict keeps the order of first occurrence.
    flat: dict[Location, None] = {}
    for part in parts:
        if isinstance(part, FusedLoc) and part.metadata == metadata:
            flat.update(dict.fromkeys(part.locations))
        elif part != UNKNOWN:
            flat[part] = None
    if metadata:
        return FusedLoc(tuple(flat) or (UNKNOWN,), metadata)
    if not flat:
        return UNKNOWN
    return FusedLoc(tuple(flat)) if len(flat) > 1 else next(iter(flat))
