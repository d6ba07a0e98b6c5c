"""Emitter of a kernel's Python: lines, loops over the elements of tiles, elements where they are needed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from emu.tile import ops
from emu.tile.cuda.expressions import expression, literal, numba_name
from emu.tile.cuda.memory import BlockMemory, Buffer, Hazards, Registers
from emu.tile.cuda.plan import Plan, is_tile, keeps_order, size_of
from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import ELEMENTWISE, Code
from emu.tile.types import ScalarType, element_of

_INDENT = "    "


class Index(NamedTuple):
    """An index into a tile's elements in row-major order.

    Attributes:
        text: A name or a number.
        bound: It is below this.
    """

    text: str
    bound: int


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


class _Open(NamedTuple):
    """A loop that the next tile of as many elements may share."""

    size: int
    line: int
    indent: int
    scope: dict[tuple[object, str], str]
    lane: tuple[str, str]


class Emitter:
    """Emitter of one kernel.

    Attributes:
        plan: Plan of the materialized tiles.
        threads: Threads of a block.
        names: Scalar values by what they are called in the text.
        places: Materialized tiles by their place.
        memory: Memory of the block.
        hazards: What was done since the last barrier.
        messages: Of assertions; a kernel reports the number of one, from 1.
    """

    def __init__(self, plan: Plan, threads: int, body: Callable[[Emitter, Region], None]) -> None:
        self.plan = plan
        self._body = body
        self.threads = threads
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[Value, str] = {}
        self.places: dict[Value, Registers | Buffer] = {}
        self.arrays: dict[str, tuple[int, str]] = {}
        self.memory = BlockMemory()
        self.hazards = Hazards()
        self.messages: list[str] = []
        self._scopes: list[dict[tuple[object, str], str]] = [{}]
        self._lane = ("", "")
        self._open: _Open | None = None
        self._count = 0

    def body(self, region: Region) -> None:
        """Write all operations of a region but its terminator."""
        self._body(self, region)

    # ---- lines

    def line(self, text: str) -> None:
        """Write a line at the present depth."""
        self.lines.append(_INDENT * self.indent + text)

    def name(self, hint: str = "") -> str:
        """Return a new name."""
        self._count += 1
        stem = re.sub(r"\W", "_", hint).strip("_") if hint.isascii() else ""
        stem = stem if stem and not stem[0].isdigit() else "v"
        return f"{stem}_{self._count}" if stem != "v" else f"v{self._count}"

    def define(self, text: str, hint: str = "") -> str:
        """Write an assignment to a new name, and return that."""
        name = self.name(hint)
        self.line(f"{name} = {text}")
        return name

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a header and indent what follows."""
        self.line(header)
        self.indent += 1
        self._scopes.append({})
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._scopes.pop()
        self.indent -= 1
        self._open = None

    def _known(self, key: tuple[object, str]) -> str | None:
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def _once(self, key: tuple[object, str], text: str, hint: str = "") -> str:
        found = self._known(key)
        if found is None:
            found = self._scopes[-1][key] = self.define(text, hint)
        return found

    def index(self, text: str) -> str:
        """Return a name for an index expression, computed once."""
        return self._once(("index", text), text, "i")

    # ---- loops over elements

    @contextlib.contextmanager
    def lanes(self, size: int) -> Iterator[Index]:
        """Loop over a tile's elements, each thread over its own; joins the loop just before."""
        last = self._open
        if last and last.size == size and last.line == len(self.lines):
            depth, self.indent = self.indent, last.indent
            scope, self._lane = last.scope, last.lane
        else:
            depth, scope = self.indent, {}
            self._lane = self._lane_headers(size)
        self._scopes.append(scope)
        lane = self._lane
        yield Index(lane[0], size)
        self._scopes.pop()
        self._open = _Open(size, len(self.lines), self.indent, scope, lane)
        self.indent = depth
        self._lane = ("", "")

    def _lane_headers(self, size: int) -> tuple[str, str]:
        rounds = -(-size // self.threads)
        if rounds == 1:
            if size < self.threads:
                self.line(f"if t < {size}:")
                self.indent += 1
            return "t", "0"
        self.line(f"for k in range({rounds}):")
        self.indent += 1
        self.line(f"e = t + k * {self.threads}")
        if size % self.threads:
            self.line(f"if e < {size}:")
            self.indent += 1
        return "e", "k"

    @contextlib.contextmanager
    def own(self, element: str, slot: str) -> Iterator[None]:
        """Register a thread's own index, in loops that are written by hand."""
        before, self._lane = self._lane, (element, slot)
        yield
        self._lane = before

    # ---- places

    def place(self, value: Value) -> Registers | Buffer:
        """Return the place of a materialized tile; allocate it at the first call."""
        home = self.plan.home_of(value)
        if home not in self.places:
            element, size = element_of(home.type), size_of(home)
            if home in self.plan.block:
                self.places[home] = self.memory.take(element, size)
            else:
                name = self.name(home.name or "tile")
                self.arrays[name] = (-(-size // self.threads), numba_name(element))
                self.places[home] = Registers(name)
        return self.places[home]

    def free(self, operation: Operation) -> None:
        """Free the places that are not needed after an operation."""
        for home in self.plan.dies.get(operation, ()):
            place = self.places.get(home)
            if isinstance(place, Buffer):
                self.memory.give(place)

    def put(self, value: Value, index: Index, text: str, keep: bool = True) -> None:
        """Write a thread's own element of a materialized tile."""
        place = self.place(value)
        if isinstance(place, Registers):
            assert index.text == self._lane[0]
            self.line(f"{place.name}[{self._lane[1]}] = {text}")
        else:
            self.line(place.write(index.text, text))
        if keep:
            self._scopes[-1][value, index.text] = text

    # ---- barriers

    def sync(self) -> None:
        """Let all threads wait for each other."""
        self.line("cuda.syncthreads()")
        self.hazards.clear()

    def access(
        self,
        operation: Operation | None,
        writes: Sequence[Registers | Buffer] = (),
        load: object = False,
        store: object = False,
        reads: Sequence[Buffer] = (),
    ) -> None:
        """Wait if an operation must, and note what it does.

        Args:
            operation: Its tiles are read as the plan says.
            writes: Places of which each thread writes its own elements.
            load: The tile of pointers that is loaded from; ``None``: any addresses; false: no load.
            store: As ``load``.
            reads: Buffers besides of which threads read others' elements.
        """
        state = self.hazards
        reading: list[tuple[Buffer, bool]] = [(b, True) for b in reads]
        for value, cross in (self.plan.reads.get(operation, {}) if operation else {}).items():
            place = self.place(value)
            if isinstance(place, Buffer):
                reading.append((place, cross))
        written = [p for p in writes if isinstance(p, Buffer)]
        waits = any(state.read_conflict(*r) for r in reading)
        waits |= any(map(state.write_conflict, written))
        waits |= load is not False and state.load_conflict(load)
        waits |= store is not False and state.store_conflict(store)
        if waits:
            self.sync()
        state.reads.update(reading)
        state.writes.update(written)
        if load is not False:
            state.loads.add(load)
        if store is not False:
            state.stores.add(store)

    def wrote(self, buffer: Buffer) -> None:
        """Note that threads wrote a buffer."""
        self.hazards.writes.add(buffer)

    @contextlib.contextmanager
    def temporary(self, element: ScalarType, size: int) -> Iterator[Buffer]:
        """Provide a buffer inside the block."""
        buffer = self.memory.take(element, size)
        yield buffer
        self.memory.give(buffer)

    # ---- elements

    def at(self, value: Value, index: Index) -> str:
        """Return the name of an element of a tile, or of a scalar; emit the code that computes it."""
        if not is_tile(value):
            return self.names[value]
        key = (value, index.text)
        found = self._known(key)
        if found is not None:
            return found
        if value in self.plan.materialized:
            text = self._held(value, index)
        else:
            assert value.owner is not None
            text = self._computed(value, value.owner, index)
            if text.isidentifier():
                self._scopes[-1][key] = text
                return text
        return self._once(key, text, value.name)

    def _held(self, value: Value, index: Index) -> str:
        place = self.place(value)
        if isinstance(place, Buffer):
            return place.read(index.text)
        assert index.text == self._lane[0], "an element that another thread holds"
        return f"{place.name}[{self._lane[1]}]"

    def computed(self, value: Value, index: Index) -> str:
        """Return the element of a pure operation's result, computed from its operands."""
        assert value.owner is not None
        return self._computed(value, value.owner, index)

    def _computed(self, value: Value, operation: Operation, index: Index) -> str:
        code, operands = operation.code, operation.operands
        if code is Code.CONSTANT:
            return literal(operation.attributes["value"], element_of(value.type))
        if code is Code.SPLAT:
            return self.names[operands[0]]
        if code is Code.ARANGE:
            start = operation.attributes["start"]
            return f"int32({index.text} + {start})" if start else f"int32({index.text})"
        if code is Code.AFTER:
            return self.at(operands[0], index)
        if code in ELEMENTWISE:
            return expression(operation, [self.at(v, index) for v in operands])
        if code in ops.SHAPES and keeps_order(operation):
            return self.at(operands[0], index)
        if code in (Code.JOIN, Code.CAT):
            return self._either(value, operation, index)
        if code is Code.SPLIT:
            half = operation.results.index(value)
            return self.at(operands[0], self._affine(index, 2, half, 2))
        return self.at(operands[0], self._source(operation, index))

    # ---- indices

    def _affine(self, index: Index, factor: int, plus: int, per: int) -> Index:
        if index.text.isdigit():
            return Index(str(int(index.text) * factor + plus), index.bound * per)
        text = f"{index.text} * {factor}" + (f" + {plus}" if plus else "")
        return Index(self.index(text), index.bound * per)

    def coordinate(self, index: Index, stride: int, extent: int) -> Index:
        """Return ``index // stride % extent``."""
        text, bound = index
        if extent == 1 or bound <= stride:
            return Index("0", 1)
        if text.isdigit():
            return Index(str(int(text) // stride % extent), extent)
        if stride > 1:
            text = self.index(f"{text} // {stride}")
            bound = -(-bound // stride)
        if bound > extent:
            return Index(self.index(f"{text} % {extent}"), extent)
        return Index(text, bound)

    def flat(self, parts: Sequence[tuple[Index, int]], bound: int) -> Index:
        """Return the sum of coordinates by their strides."""
        terms = [f"{c.text} * {s}" if s > 1 else c.text for c, s in parts if c.text != "0"]
        if not terms:
            return Index("0", 1)
        if len(terms) == 1 and "*" not in terms[0]:
            return Index(terms[0], bound)
        return Index(self.index(" + ".join(terms)), bound)

    def _source(self, operation: Operation, index: Index) -> Index:
        """Return the index in the operand of an element of the result."""
        code, attributes = operation.code, operation.attributes
        source, result = operation.operands[0].shape, operation.results[0].shape
        taken, given = _strides(source), _strides(result)
        parts: list[tuple[Index, int]] = []
        for axis, extent in enumerate(result):
            origin = attributes["order"][axis] if code is Code.PERMUTE else axis
            if source[origin] == 1:
                continue
            if code is Code.GATHER and axis == attributes["axis"]:
                chosen = self.at(operation.operands[1], index)
                wanted = Index(self.index(f"int64({chosen})"), source[axis])
            else:
                wanted = self.coordinate(index, given[axis], extent)
            if code is Code.FLIP and axis == attributes["axis"]:
                wanted = Index(self.index(f"{extent - 1} - {wanted.text}"), extent)
            parts.append((wanted, taken[origin]))
        return self.flat(parts, size_of(operation.operands[0]))

    def _either(self, value: Value, operation: Operation, index: Index) -> str:
        """Return an element of one of two tiles."""
        first, second = operation.operands
        shape = value.shape
        if operation.code is Code.JOIN:
            half = self.coordinate(index, 1, 2)
            inner = self.coordinate(index, 2, size_of(first))
            choices = (f"{half.text} == 0", inner, inner)
        else:
            axis = operation.attributes["axis"]
            stride, split = _strides(shape)[axis], first.shape[axis]
            place = self.coordinate(index, stride, shape[axis])
            outer = self.coordinate(index, stride * shape[axis], size_of(value))
            rest = self.coordinate(index, 1, stride)
            # Evaluated in its branch alone, so that no index lies outside.
            moved = Index(self.index(f"{place.text} - {split}"), second.shape[axis])
            choices = (
                f"{place.text} < {split}",
                self.flat([(outer, stride * split), (place, stride), (rest, 1)], size_of(first)),
                self.flat(
                    [(outer, stride * second.shape[axis]), (moved, stride), (rest, 1)],
                    size_of(second),
                ),
            )
        name = self.name(value.name)
        self.line(f"{name} = {literal(0, element_of(value.type))}")
        for header, tile, inner in (
            (f"if {choices[0]}:", first, choices[1]),
            ("else:", second, choices[2]),
        ):
            with self.block(header):
                self.line(f"{name} = {self.at(tile, inner)}")
        return name
