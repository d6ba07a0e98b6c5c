"""Which operation an instruction comes from: a line table in the object file, read only after a fault.

Instructions that may touch memory of the program get one of LLVM's debug locations. Its "line" is the number of a place in
:attr:`Places.found`, whose places have file, line, column and callers. The table takes no part in running: it is a
section of the object file that is not loaded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir.instructions import CastInstr

from emu.tile.ir import Location

_FIRST_NUMBER = 1_000_000
"""Number of the first of these nodes; llvmlite numbers its own from 0."""

_ACCESSES = (
    ir.LoadInstr,
    ir.StoreInstr,
    ir.LoadAtomicInstr,
    ir.StoreAtomicInstr,
    ir.AtomicRMW,
    ir.CmpXchg,
)
_LOADING = (
    ir.LoadInstr,
    ir.CallInstr,
    CastInstr,
    ir.InsertElement,
    ir.ShuffleVector,
)
"""Loads, and what changes the form of what they give."""

_PURE = "llvm."
_ACCESSING = ("llvm.masked.", "llvm.memcpy.", "llvm.memset.", "llvm.memmove.")


class _Node(NamedTuple):
    """A node of metadata, in the form that llvmlite's instructions take."""

    number: int

    def get_reference(self) -> str:
        """Return how an instruction names it."""
        return f"!{self.number}"


class _Instructions(list[Any]):
    """Instructions of a block, which note the place of those that access memory."""

    def __init__(self, function: LocatedFunction) -> None:
        super().__init__()
        self._function = function

    def insert(self, at: Any, instruction: Any, /) -> None:
        """Insert an instruction."""
        if self._function.location is None:
            pass
        elif _may_access(instruction):
            instruction.metadata["dbg"] = self._function.node()
        else:
            _take_over(instruction)
        super().insert(at, instruction)


def _may_access(instruction: Any) -> bool:
    kind = type(instruction)
    if kind is ir.CallInstr:
        name = getattr(instruction.callee, "name", "")
        return name.startswith(_ACCESSING) or not name.startswith(_PURE)
    return kind in _ACCESSES


def _take_over(instruction: Any) -> None:
    """Note the place of a load at what reads its result: LLVM may make one instruction of both."""
    for operand in instruction.operands:
        if type(operand) in _LOADING and "dbg" in operand.metadata:
            instruction.metadata["dbg"] = operand.metadata["dbg"]
            return


class Places:
    """The places of a module's instructions.

    Attributes:
        found: The places; that of number n is ``found[n - 1]``.
    """

    def __init__(self) -> None:
        self.found: list[Location] = []
        self._numbers: dict[Location, int] = {}
        self._nodes: list[str] = []

    def number(self, location: Location) -> int:
        """Return the number of a place."""
        known = self._numbers.get(location)
        if known is None:
            self.found.append(location)
            known = self._numbers[location] = len(self.found)
        return known

    def add(self, text: str) -> _Node:
        """Add a node of metadata."""
        self._nodes.append(text)
        return _Node(_FIRST_NUMBER + len(self._nodes) - 1)

    def text(self) -> str:
        """Return the nodes as LLVM IR that goes behind a module's functions."""
        if not self._nodes:
            return ""
        named = "!llvm.dbg.cu = !{!%d}\n!llvm.module.flags = !{!%d}\n"
        nodes = [f"!{_FIRST_NUMBER + n} = {text}" for n, text in enumerate(self._nodes)]
        return named % (_FIRST_NUMBER + 1, _FIRST_NUMBER + 2) + "\n".join(nodes) + "\n"


class LocatedFunction(ir.Function):  # type: ignore[misc]  # llvmlite has no types
    """A function whose instructions know the operation that they come from.

    Attributes:
        location: Of the instructions that are emitted now; None: unknown.
    """

    def __init__(self, module: ir.Module, kind: ir.FunctionType, name: str, places: Places) -> None:
        super().__init__(module, kind, name)
        self.location: Location | None = None
        self._places = places
        self._nodes: dict[Location | None, _Node] = {}
        self._scope: _Node | None = None

    def append_basic_block(self, name: str = "") -> ir.Block:
        """Append a block."""
        block = super().append_basic_block(name)
        block.instructions = _Instructions(self)
        return block

    def locate(self, location: Location | None) -> Location | None:
        """Let instructions from now on come from a location, if it is known; return the one before."""
        before = self.location
        self.location = location or before
        return before

    def node(self) -> _Node:
        """Return the node of metadata for the present location."""
        found = self._nodes.get(self.location)
        if found is None:
            assert self.location is not None
            if self._scope is None:
                self._scope = _scope(self._places, self)
            line, scope = self._places.number(self.location), self._scope.get_reference()
            found = self._places.add(f"!DILocation(line: {line}, scope: {scope})")
            self._nodes[self.location] = found
        return found


def _scope(places: Places, function: ir.Function) -> _Node:
    """Describe a function; the first one brings what all of them refer to."""
    first = _FIRST_NUMBER
    if not places.found:
        places.add('!DIFile(filename: "kernel", directory: "")')
        places.add(
            f"distinct !DICompileUnit(language: DW_LANG_C, file: !{first}, emissionKind: DebugDirectivesOnly)"
        )
        places.add('!{i32 2, !"Debug Info Version", i32 3}')
        places.add(f"!DISubroutineType(types: !{first + 4})")
        places.add("!{}")
    scope = places.add(
        f'distinct !DISubprogram(name: "{function.name}", file: !{first}, line: 1, type: !{first + 3}, '
        f"unit: !{first + 1}, spFlags: DISPFlagDefinition)"
    )
    function.set_metadata("dbg", scope)
    return scope
