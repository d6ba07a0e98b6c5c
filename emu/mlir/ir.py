"""Operations, values, blocks and regions: a module in memory.

An operation is in a block's doubly linked list, so that inserting and erasing cost the same in a
module of ten operations and of a hundred thousand. A value knows its uses. ``uses`` runs from the
*newest* use to the oldest, as MLIR's lists do: the order in which passes meet users, and therefore
which of two conflicting shardings wins, depends on it.

Everything here is picklable: ``emu.mlir.pickling`` writes a flat table, since a linked list pickled
as it stands would recurse once per operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

from emu.mlir.attributes import Attribute, StringAttr
from emu.mlir.diagnostics import UNKNOWN, Diagnostics, Location, Place
from emu.mlir.entries import Entries
from emu.mlir.types import Type

Use = tuple["Operation", int]
"""An operation and the index of its operand."""
_Where = Location | Place

_STRIDE = 1 << 32
"""Distance between the order numbers of appended operations: room for later insertions."""


class Located:
    """Base of what has a location, in a slot of its own."""

    __slots__ = ()
    _location: _Where

    @property
    def location(self) -> Location:
        """Where it comes from."""
        # Most are never asked for, and line and column cost more than the rest of the operation.
        if isinstance(self._location, tuple):
            text, offset = self._location
            self._location = text.location(offset)  # type: ignore[misc]  # a slot of those below
        return self._location

    @location.setter
    def location(self, location: Location) -> None:
        self._location = location  # type: ignore[misc]  # likewise


class Value:
    """A result of an operation or an argument of a block."""

    __slots__ = ("_uses", "type")

    def __init__(self, type_: Type) -> None:
        self.type = type_
        self._uses: dict[Use, None] = {}

    @property
    def uses(self) -> list[Use]:
        """Uses, newest first (a snapshot)."""
        return list(reversed(self._uses))

    @property
    def users(self) -> list[Operation]:
        """Operations that use the value, newest use first; one entry per use."""
        return [op for op, _ in reversed(self._uses)]

    def walk_users(self) -> Iterator[Operation]:
        """Iterate over ``users`` lazily; uses must not change meanwhile."""
        return (op for op, _ in reversed(self._uses))

    @property
    def has_uses(self) -> bool:
        """Whether anything uses the value."""
        return bool(self._uses)

    @property
    def has_one_use(self) -> bool:
        """Whether the value has exactly one use."""
        return len(self._uses) == 1

    @property
    def defining_op(self) -> Operation | None:
        """Operation whose result it is; None for block arguments."""
        return None

    @property
    def parent_block(self) -> Block | None:
        """Block in which the value is defined."""
        return None

    def change_type(self, type_: Type) -> None:
        """Set another type, which concerns the operation that has the value, and its users."""
        self.type = type_
        for op in (self.defining_op, *self.users):
            if op is not None:
                op.changed = True
        if self.defining_op is None and self.parent_block is not None:
            self.parent_block._note_change()

    def replace_all_uses_with(self, new: Value) -> None:
        """Replace every use by ``new``, newest use first, as MLIR does."""
        if new is self:
            raise ValueError("a value cannot replace itself")
        for op, index in self.uses:
            op.set_operand(index, new)


class OpResult(Value):
    """A result of an operation."""

    __slots__ = ("index", "owner")

    def __init__(self, type_: Type, owner: Operation, index: int) -> None:
        self.type = type_
        self._uses = {}  # not by super(): there are many
        self.owner = owner
        self.index = index

    @property
    def defining_op(self) -> Operation:
        """Operation whose result it is."""
        return self.owner

    @property
    def parent_block(self) -> Block | None:
        """Block of the operation."""
        return self.owner.parent


class BlockArgument(Value, Located):
    """An argument of a block."""

    __slots__ = ("_location", "index", "owner")

    def __init__(self, type_: Type, owner: Block, index: int, location: _Where = UNKNOWN) -> None:
        super().__init__(type_)
        self.owner = owner
        self.index = index
        self._location = location

    @property
    def parent_block(self) -> Block:
        """Block that has the argument."""
        return self.owner


class Operation(Located):
    """An operation; modules and functions are operations too.

    Attributes:
        name: The full name, ``"stablehlo.add"``.
        properties: Inherent attributes, which the operation's definition names
            (the generic form has them between ``<{`` and ``}>``).
        attributes: Discardable attributes (``sdy.sharding`` and others').
        results: Results.
        regions: Regions.
        successors: Blocks it may branch to.
        parent: The block that holds it.
        print_function: Makes the text of ``str()``. The printer, which stands above this module,
            puts itself here.
        changed: Whether it, or the list of operations in one of its blocks, has changed since it
            was last verified; new operations have. The methods of this module see to it, and the
            two dictionaries of attributes; who sets anything else has to set it too.
        resources: The file's resources (``{-# … #-}``) as text, which the printer writes behind
            the module; only modules that were read from such a file have them.
    """

    __slots__ = (
        "_location",
        "_next",
        "_operands",
        "_order",
        "_previous",
        "attributes",
        "changed",
        "name",
        "parent",
        "properties",
        "regions",
        "resources",
        "results",
        "successors",
    )

    print_function: ClassVar[Callable[[Operation], str]] = repr

    def __init__(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        *,
        properties: Mapping[str, Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        regions: Iterable[Region] = (),
        successors: Iterable[Block] = (),
        location: _Where = UNKNOWN,
    ) -> None:
        self.name = name
        self._location = location
        self.changed = True
        inherent, discardable = Entries(properties or ()), Entries(attributes or ())
        inherent.owner = discardable.owner = self
        self.properties: dict[str, Attribute] = inherent
        self.attributes: dict[str, Attribute] = discardable
        self.results = [OpResult(t, self, i) for i, t in enumerate(result_types)]
        self.regions: list[Region] = []
        for region in regions:
            self.add_region(region)
        self.successors = list(successors)
        self.parent: Block | None = None
        self._previous: Operation | None = None
        self._next: Operation | None = None
        self._order = 0
        self.resources: str | None = None
        self._operands = list(operands)
        for index, value in enumerate(self._operands):
            value._uses[self, index] = None

    # Operands

    @property
    def operands(self) -> tuple[Value, ...]:
        """Operands; change them with the setters, which keep the uses up to date."""
        return tuple(self._operands)

    def set_operand(self, index: int, value: Value) -> None:
        """Replace one operand."""
        old = self._operands[index]
        self.changed = True
        # MLIR unlinks and links anew: even that of the same value becomes the newest use.
        del old._uses[self, index]
        self._operands[index] = value
        value._uses[self, index] = None

    def erase_operands(self, indices: Iterable[int]) -> None:
        """Remove operands; those behind the first move up.

        As in MLIR, the uses of those that move become the newest.
        """
        gone = set(indices)
        self.changed = True
        first = min(gone, default=len(self._operands))
        behind = self._operands[first:]
        del self._operands[first:]
        for index, value in enumerate(behind, first):
            del value._uses[self, index]
            if index not in gone:
                value._uses[self, len(self._operands)] = None
                self._operands.append(value)

    def drop_operands(self) -> None:
        """Remove all operands."""
        for index, value in enumerate(self._operands):
            del value._uses[self, index]
        self._operands = []
        self.changed = True

    # Results and attributes

    @property
    def result(self) -> OpResult:
        """Only result; raises ValueError where there is not exactly one."""
        (result,) = self.results
        return result

    @property
    def dialect(self) -> str:
        """Name before the first dot."""
        return self.name.partition(".")[0]

    def attribute(self, name: str) -> Attribute | None:
        """Return an inherent or discardable attribute, or None."""
        found = self.properties.get(name)
        return self.attributes.get(name) if found is None else found

    @property
    def symbol_name(self) -> str | None:
        """Symbol that the operation defines, or None."""
        name = self.properties.get("sym_name")
        return name.value if isinstance(name, StringAttr) else None

    # Regions and blocks

    def add_region(self, region: Region | None = None) -> Region:
        """Append a region (a new one unless given); return it."""
        region = Region() if region is None else region
        region.parent = self
        self.regions.append(region)
        self.changed = True
        return region

    def body(self, region: int = 0) -> Block:
        """Return the first block of a region."""
        return self.regions[region].blocks[0]

    @property
    def parent_op(self) -> Operation | None:
        """Operation in whose region it is."""
        block = self.parent
        return block.parent_op if block is not None else None

    def ancestor(self, *names: str) -> Operation | None:
        """Return the nearest operation of one of these names around it, or None."""
        op = self.parent_op
        while op is not None and op.name not in names:
            op = op.parent_op
        return op

    @property
    def next_op(self) -> Operation | None:
        """Next operation in the block."""
        return self._next

    def is_before(self, other: Operation) -> bool:
        """Return whether it comes before another operation of the same block."""
        block = self.parent
        if block is None or block is not other.parent:
            raise ValueError("only operations of one block have an order")
        block._renumber()
        return self._order < other._order

    # Moving and ending

    def detach(self) -> Operation:
        """Take it out of its block without changing uses; return itself."""
        if self.parent is not None:
            self.parent._unlink(self)
        return self

    def erase(self) -> None:
        """Remove it for good; raises ValueError where its results are used."""
        for result in self.results:
            if result._uses:
                raise ValueError(f"{self.name} is erased while its results are used")
        self.detach()
        self.drop_all_references()

    def drop_all_references(self) -> None:
        """Drop its operands and successors, and those of everything inside."""
        for op in self.walk():
            op.drop_operands()
            op.successors = []

    def replace_with(self, values: Iterable[Value]) -> None:
        """Replace the results by values, and erase it."""
        for old, new in zip(self.results, list(values), strict=True):
            if old is not new:
                old.replace_all_uses_with(new)
        self.erase()

    # Walking and copying

    def walk(self, *, post_order: bool = False) -> Iterator[Operation]:
        """Iterate over it and all operations inside, each before (or after) those it holds.

        The operation just returned may be erased or moved, the others may not.
        """
        if not post_order:
            yield self
        stack: list[tuple[Operation, Iterator[Operation]]] = [(self, _ops_of(self.regions))]
        while stack:
            op, inner = stack[-1]
            for child in inner:
                if not child.regions:
                    yield child
                    continue
                if not post_order:
                    yield child
                stack.append((child, _ops_of(child.regions)))
                break
            else:
                stack.pop()
                if post_order:
                    yield op

    def walk_blocks(self) -> Iterator[Block]:
        """Iterate over all blocks inside it, outer before inner."""
        for op in self.walk():
            for region in op.regions:
                yield from region.blocks

    def clone(self, mapping: dict[Value, Value] | None = None) -> Operation:
        """Return a copy that is in no block.

        Args:
            mapping: Old to new values, which replace operands; values defined inside are added.
        """
        mapping = {} if mapping is None else mapping
        copy = Operation(
            self.name,
            [mapping.get(v, v) for v in self._operands],
            [r.type for r in self.results],
            properties=self.properties,
            attributes=self.attributes,
            successors=self.successors,
            location=self._location,
        )
        copy.resources = self.resources
        mapping.update(zip(self.results, copy.results, strict=True))
        for region in self.regions:
            copy.add_region(region.clone(mapping))
        return copy

    def __repr__(self) -> str:
        return f"<{self.name} at {self.location}>"

    def __str__(self) -> str:
        return type(self).print_function(self)

    def emit_op_error(self, diagnostics: Diagnostics, message: str) -> bool:
        """Emit ``'name' op message`` at the operation's location; return False."""
        diagnostics.error(self.location, f"'{self.name}' op {message}")
        return False


def _ops_of(regions: Iterable[Region]) -> Iterator[Operation]:
    for region in regions:
        for block in region.blocks:
            op = block._first
            while op is not None:
                following = op._next
                yield op
                op = following


class Block:
    """A list of operations with arguments."""

    __slots__ = ("_first", "_last", "_numbered", "arguments", "parent")

    def __init__(self, argument_types: Iterable[Type] = ()) -> None:
        self.arguments: list[BlockArgument] = []
        self.parent: Region | None = None
        self._first: Operation | None = None
        self._last: Operation | None = None
        self._numbered = True
        for type_ in argument_types:
            self.add_argument(type_)

    def add_argument(self, type_: Type, location: _Where = UNKNOWN) -> BlockArgument:
        """Append an argument; return it."""
        self.arguments.append(BlockArgument(type_, self, len(self.arguments), location))
        self._note_change()
        return self.arguments[-1]

    def erase_argument(self, index: int) -> None:
        """Remove an argument that nothing uses."""
        if self.arguments[index]._uses:
            raise ValueError(f"block argument {index} is erased while it is used")
        self._note_change()
        del self.arguments[index]
        for i, argument in enumerate(self.arguments):
            argument.index = i

    @property
    def parent_op(self) -> Operation | None:
        """Operation in whose region the block is."""
        return self.parent.parent if self.parent is not None else None

    @property
    def first(self) -> Operation | None:
        """First operation."""
        return self._first

    @property
    def last(self) -> Operation | None:
        """Last operation."""
        return self._last

    @property
    def terminator(self) -> Operation:
        """Last operation; raises ValueError in an empty block."""
        if self._last is None:
            raise ValueError("the block is empty")
        return self._last

    @property
    def operations(self) -> list[Operation]:
        """Operations (a snapshot)."""
        return list(self)

    def __iter__(self) -> Iterator[Operation]:
        op = self._first
        while op is not None:
            following = op._next
            yield op
            op = following

    def append(self, op: Operation) -> Operation:
        """Put an operation (that is in no block) at the end; return it."""
        return self.insert_before(None, op)

    def insert_before(self, place: Operation | None, op: Operation) -> Operation:
        """Put an operation before another, or at the end; return it."""
        if op.parent is not None:
            raise ValueError(f"{op.name} is in a block already")
        op.changed = True
        previous = self._last if place is None else place._previous
        op.parent, op._previous, op._next = self, previous, place
        if previous is None:
            self._first = op
        else:
            previous._next = op
        if place is None:
            self._last = op
            op._order = 0 if previous is None else previous._order + _STRIDE
        else:
            place._previous = op
            self._number(op, previous, place)
        return op

    def _number(self, op: Operation, previous: Operation | None, following: Operation) -> None:
        """Set the order number of an inserted operation, or note that all need new ones."""
        if previous is None:
            op._order = following._order - _STRIDE
        elif following._order - previous._order > 1:
            op._order = (previous._order + following._order) // 2
        else:
            self._numbered = False

    def _note_change(self) -> None:
        parent = self.parent_op
        if parent is not None:
            parent.changed = True

    def _unlink(self, op: Operation) -> None:
        self._note_change()
        if op._previous is None:
            self._first = op._next
        else:
            op._previous._next = op._next
        if op._next is None:
            self._last = op._previous
        else:
            op._next._previous = op._previous
        op.parent = op._previous = op._next = None

    def _renumber(self) -> None:
        if not self._numbered:
            for order, op in enumerate(self):
                op._order = order * _STRIDE
            self._numbered = True


class Region:
    """A list of blocks inside an operation."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.parent: Operation | None = None
        for block in blocks:
            self.add_block(block)

    def add_block(self, block: Block | None = None) -> Block:
        """Append a block (a new one unless given); return it."""
        block = Block() if block is None else block
        if self.parent is not None:
            self.parent.changed = True
        block.parent = self
        self.blocks.append(block)
        return block

    def take_body(self, other: Region) -> None:
        """Move all blocks of another region here."""
        for owner in (self.parent, other.parent):
            if owner is not None:
                owner.changed = True
        for block in other.blocks:
            block.parent = self
        self.blocks, other.blocks = self.blocks + other.blocks, []

    def clone(self, mapping: dict[Value, Value]) -> Region:
        """Return a copy in which ``mapping`` replaces values.

        MLIR allows a block to use values of a block that follows; such uses are replaced at the
        end, when all copies exist.
        """
        copy = Region()
        blocks: dict[Block, Block] = {}
        for block in self.blocks:
            new = blocks[block] = copy.add_block()
            for argument in block.arguments:
                mapping[argument] = new.add_argument(argument.type, argument._location)
        for block in self.blocks:
            for op in block:
                blocks[block].append(op.clone(mapping))
        for new in copy.blocks:
            for op in new:
                op.successors = [blocks.get(s, s) for s in op.successors]
                if len(self.blocks) > 1:
                    for index, value in enumerate(op.operands):
                        if value in mapping:
                            op.set_operand(index, mapping[value])
        return copy
