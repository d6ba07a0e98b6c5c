"""The text of PTX: statements, instructions and operands."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*:(?!:)")
_GUARD = re.compile(r"@\s*(!?)\s*([\w$%.]+)\s+")
_REGISTERS = re.compile(r"\.reg\s+(?:\.v([24])\s+)?\.(\w+)\s+(.*)", re.DOTALL)
_COMPONENTS = re.compile(r"(.+)\.([xyzwrgba])$")
_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?$")
_BITS_OF_FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?$|-?\d+[eE][-+]?\d+$")


@dataclass(frozen=True)
class Register:
    """A register by its name; ``$0`` is an operand of the assembly."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A number in the text."""

    value: int | float


@dataclass(frozen=True)
class Vector:
    """Several operands in braces."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """Memory at a register plus a number of bytes."""

    base: Operand
    offset: int


@dataclass(frozen=True)
class Pair:
    """Two destinations, ``p|q``."""

    first: Register
    second: Register


Operand = Register | Immediate | Vector | Address | Pair


@dataclass(frozen=True)
class Label:
    """A place that branches name."""

    name: str


@dataclass(frozen=True)
class Declaration:
    """Names of new registers and their type; a vector's are those of its components, ``%v.x`` and so on."""

    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Scope:
    """The beginning or the end of a block of statements in braces."""

    opens: bool


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        text: As it was written, for errors.
        name: The first part of its name: ``add`` of ``add.rn.f32``.
        suffixes: The other parts.
        operands: Its operands, destinations first.
        guard: The predicate under which it runs, or ``None``.
    """

    text: str = field(compare=False)
    name: str
    suffixes: tuple[str, ...]
    operands: tuple[Operand, ...] = field(default=())
    guard: Register | None = None


Statement = Label | Declaration | Scope | Instruction


def _split_operands(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    if part.strip():
        parts.append(part)
    return [p.strip() for p in parts]


def _number(text: str) -> int | float | None:
    if found := _BITS_OF_FLOAT.match(text):
        double = found[1] in "dD"
        raw = bytes.fromhex(found[2].zfill(16 if double else 8))
        value: float = struct.unpack(">d" if double else ">f", raw)[0]
        return value
    if _INTEGER.match(text):
        plain = text.removesuffix("U")
        digits = plain.lstrip("-")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return int(plain, 8) if octal else int(plain, 0)
    return float(text) if _DECIMAL.match(text) else None


def read_operand(text: str, line: str) -> Operand:
    """Read an operand.

    Args:
        text: The operand.
        line: The instruction, for errors.

    Raises:
        NotImplementedError: It has a form that is not in the subset.
    """
    if text.startswith("{") and text.endswith("}"):
        return Vector(tuple(read_operand(t, line) for t in _split_operands(text[1:-1])))
    if text.startswith("[") and text.endswith("]"):
        base, _, offset = text[1:-1].strip().partition("+")
        number = _number(offset.strip()) if offset.strip() else 0
        if not isinstance(number, int):
            raise unsupported(line, f"the address {text}")
        return Address(read_operand(base.strip(), line), number)
    if "|" in text:
        first, _, second = text.partition("|")
        return Pair(Register(first.strip()), Register(second.strip()))
    number = _number(text)
    if number is not None:
        return Immediate(number)
    name = text.lstrip("!")
    if not re.fullmatch(r"[\w$%.]+", name):
        raise unsupported(line, f"the operand {text!r}")
    return Register(name, text.startswith("!"))


def unsupported(line: str, what: str) -> NotImplementedError:
    """Return the error for what is outside the subset."""
    return NotImplementedError(
        f"inline assembly: {what} of the instruction {line!r} is not in the subset of PTX that emu runs; "
        "write it with tl"
    )


def _declaration(found: re.Match[str], vectors: dict[str, Vector]) -> Declaration:
    """Return what a statement declares, and note its vectors."""
    names: list[str] = []
    for part in found[3].split(","):
        name = part.strip()
        if counted := re.fullmatch(r"([\w$%]+)<(\d+)>", name):
            names += [f"{counted[1]}{i}" for i in range(int(counted[2]))]
        else:
            names.append(name)
    if not found[1]:
        return Declaration(found[2], tuple(names))
    parts = [[f"{name}.{part}" for part in "xyzw"[: int(found[1])]] for name in names]
    vectors |= {n: Vector(tuple(map(Register, p))) for n, p in zip(names, parts, strict=True)}
    return Declaration(found[2], tuple(component for p in parts for component in p))


def _of_vectors(operand: Operand, vectors: dict[str, Vector]) -> Operand:
    """Return an operand with the components for each vector's name, and ``x`` to ``w`` for their other names."""
    if isinstance(operand, Vector):
        return Vector(tuple(_of_vectors(item, vectors) for item in operand.items))
    if not isinstance(operand, Register):
        return operand
    if operand.name in vectors:
        return vectors[operand.name]
    named = _COMPONENTS.match(operand.name)
    if named and named[1] in vectors and named[2] in "rgba":
        return Register(f"{named[1]}.{'xyzw'['rgba'.index(named[2])]}", operand.negated)
    return operand


def _instruction(text: str, vectors: dict[str, Vector]) -> Instruction:
    line = " ".join(text.split())
    guard, rest = None, line
    if found := _GUARD.match(rest):
        guard = Register(found[2], bool(found[1]))
        rest = rest[found.end() :]
    name, _, operands = rest.partition(" ")
    parts = name.replace("::", "__").split(".")
    read = tuple(_of_vectors(read_operand(t, line), vectors) for t in _split_operands(operands))
    return Instruction(line, parts[0], tuple(parts[1:]), read, guard)


def parse(text: str) -> list[Statement]:
    """Read the statements of an assembly text.

    Raises:
        NotImplementedError: A statement has a form that is not in the subset.
    """
    rest = _COMMENTS.sub(" ", text).replace("$$", "$").strip()
    statements: list[Statement] = []
    vectors: dict[str, Vector] = {}
    while rest:
        if found := _LABEL.match(rest):
            statements.append(Label(found[1]))
            rest = rest[found.end() :].lstrip()
            continue
        if rest[0] in "{}":
            statements.append(Scope(rest[0] == "{"))
            rest = rest[1:].lstrip()
            continue
        # A brace inside an instruction closes before its semicolon; one that ends a block may lack it.
        line, _, rest = rest.partition(";")
        if line.count("}") > line.count("{"):
            line, _, tail = line.partition("}")
            rest = "}" + tail + ";" + rest
        line, rest = line.strip(), rest.lstrip()
        if declared := _REGISTERS.match(line):
            statements.append(_declaration(declared, vectors))
        elif line:
            statements.append(_instruction(line, vectors))
    return statements
