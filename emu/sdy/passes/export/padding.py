"""``sdy-pad-for-divisibility``: pads tensors so that all shards have the same size.

A tensor that is sharded unevenly gets padding at its end, so that its shards
become even. Padding is added where a whole tensor is split (``sdy.all_slice``),
passes through all operations, whose results grow with their operands, and is
removed where the tensor becomes whole again (``sdy.all_gather``). Arguments and
results of functions must be sharded evenly already.

The contents of the padding do not matter as long as elements do not mix. A
``dot_general`` sums over contracted dimensions; there the padding must be zero.
An ``all_slice`` pads with zeros, which is known for values that come directly from
one; for others, the padding is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.mlir.diagnostics import Location, PassFailed
from emu.mlir.forms import I32
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.text.printer import to_text
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import ListOfAxisRefLists, TensorSharding
from emu.sdy.dialect.functions import func_result_sharding, function_type
from emu.sdy.dialect.meshes import find_mesh, get_mesh
from emu.sdy.dialect.shardings import get_sharding, set_sharding, shardable_value
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.permutation import is_local_slice_dim
from emu.sdy.passes.export.type_conversion import TypeConversion
from emu.sdy.passes.insertion_point import Place, location_of
from emu.stablehlo.attributes import DotDimensionNumbers
from emu.stablehlo.checks import Invalid
from emu.stablehlo.syntax import array_of_ints, ints
from emu.stablehlo.type_inference import implied_types

_Sizes = tuple[int | None, ...]


class PadForDivisibility(FunctionPass, name="sdy-pad-for-divisibility"):
    """Pad tensors that are sharded unevenly."""

    def run(self, op: Operation, session: Session) -> None:
        """Replace operations in program order."""
        module = op.parent_op
        if module is None:
            raise ValueError(f"{op.name} is in no module")
        padder = _Padder(SymbolTable(module), session)
        padder.check_boundaries(op)
        for each in [each for each in op.walk() if each is not op]:
            padder.visit(each)
        padder.conversion.finish()


class _Unpaddable(Exception):
    """Raised for a kind of operation that cannot be padded."""


class _Padder:
    def __init__(self, table: SymbolTable, session: Session) -> None:
        self._table = table
        self._session = session
        self._zero_padded: set[Value] = set()
        self._new: list[Operation] = []
        self.conversion = TypeConversion(self._even_type_of)
        self._patterns: dict[str, Callable[[Operation, list[Value]], None]] = {
            "sdy.all_slice": self._pad_all_slice,
            "sdy.all_gather": self._pad_all_gather,
            "stablehlo.slice": self._pad_slice,
            "stablehlo.dot_general": self._pad_dot_general,
        }

    # Queries

    def _even_type(self, type_: Type, sharding: TensorSharding | None) -> Type:
        """Return a type with its dimensions rounded up to even shards."""
        if not isinstance(type_, TensorType) or sharding is None or sharding.is_fully_replicated:
            return type_
        mesh = find_mesh(self._table, sharding.mesh)
        if mesh is None:
            return type_
        shape: list[int | None] = []
        for size, dim in zip(type_.shape, sharding.dims, strict=True):
            count = dim.sharded_size(mesh)
            shape.append(None if size is None else -(-size // count) * count)
        return TensorType(tuple(shape), type_.element)

    def _even_type_of(self, value: Value) -> Type:
        return self._even_type(value.type, get_sharding(value))

    def _is_even(self, value: Value) -> bool:
        return self._even_type_of(value) == value.type

    def _is_done(self, op: Operation) -> bool:
        """Return whether an operation can stay as it is."""
        # What is added up element by element takes padding as an operation of StableHLO does.
        if op.dialect == "stablehlo" or op.name == "sdy.all_reduce":
            return all(map(self._is_even, op.results)) and all(map(self._is_even, op.operands))
        if op.name == "sdy.all_slice":
            type_ = op.operands[0].type
            return self._even_type(type_, get_sharding(op.result)) == type_
        return op.name != "sdy.all_gather" or all(map(self._is_even, op.operands))

    def check_boundaries(self, func: Operation) -> None:
        """Raise PassFailed if an argument or a result of a function is sharded unevenly."""
        if not func.regions[0].blocks:
            return
        for index, argument in enumerate(func.body().arguments):
            if not self._is_even(argument):
                self._fail_at_boundary(func, f"argument #{index}")
        for index, type_ in enumerate(function_type(func).results):
            if self._even_type(type_, func_result_sharding(func, index)) != type_:
                self._fail_at_boundary(func, f"result #{index}")

    def _fail_at_boundary(self, func: Operation, what: str) -> None:
        self._session.diagnostics.error(
            func.location,
            f"'func.func' op {what} has a non-divisible sharding. Shardy expects function IO to "
            "be divisible.",
        )
        raise self._failed(func)

    def _failed(self, op: Operation) -> PassFailed:
        message = f"failed to legalize operation '{op.name}' that was explicitly marked illegal"
        shown = to_text(op, generic=True, local=True)
        self._session.diagnostics.error(op.location, f"{message}: {shown}")
        return PassFailed(message)

    def visit(self, op: Operation) -> None:
        """Replace an operation if any of its tensors is uneven."""
        try:
            self._replace(op, frozenset())
        except _Unpaddable:
            raise self._failed(op) from None

    def _replace(self, op: Operation, within: frozenset[str]) -> None:
        """Replace an operation, and then its replacements if necessary.

        Args:
            op: The operation.
            within: Kinds of operations being replaced; none is replaced by another
                of its kind.
        """
        if self._is_done(op):
            return
        kind = op.name if op.name in self._patterns else "stablehlo"
        if kind in within:
            raise _Unpaddable
        # The new operations may need padding themselves, as in MLIR's dialect conversion, which
        # legalizes whatever a pattern creates; ``within`` keeps that from going round in circles.
        self._new = []
        self._patterns.get(kind, self._pad_any)(op, self.conversion.operands(op))
        for each in self._new:
            self._replace(each, within | {kind})

    def _insert(self, old: Operation, new: Operation) -> None:
        """Insert an operation before the one that is replaced."""
        Place.before(old).insert(new)
        self._new.append(new)

    def _builder(self, old: Operation, location: Location) -> Builder:
        """Return a builder of operations before the one that is replaced."""
        return Builder(lambda new: self._insert(old, new), location)

    def _add(self, old: Operation, new: Operation) -> Value:
        """Insert an operation with one result, and return that."""
        self._insert(old, new)
        return new.result

    # Kinds of operations

    def _pad_any(self, op: Operation, operands: list[Value]) -> None:
        """Replace an operation by the same one with padded operands."""
        new = self._like(op, operands, [result.type for result in op.results])
        for old, region in zip(op.regions, new.regions, strict=True):
            region.take_body(old)
        implied = self._implied(new)
        # Padding of the operands may imply larger results than their own shardings do.
        for index, result in enumerate(op.results):
            new.results[index].change_type(_larger(self._even_type_of(result), implied, index))
        self.conversion.replace(op, list(new.results))

    def _like(self, op: Operation, operands: Sequence[Value], types: Sequence[Type]) -> Operation:
        stored = [shardable_value(value) for value in operands]
        if any(value is None for value in stored):
            raise _Unpaddable
        new = Operation(
            op.name,
            [value for value in stored if value is not None],
            types,
            properties=op.properties,
            attributes=op.attributes,
            regions=[Region() for _ in op.regions],
            successors=op.successors,
            location=op.location,
        )
        self._insert(op, new)
        return new

    def _implied(self, op: Operation) -> list[Type] | None:
        if op.dialect == "sdy":
            return [op.operands[0].type]
        try:
            return implied_types(op)
        except Invalid as error:
            self._session.diagnostics.error(op.location, str(error))
            return None

    def _pad_all_slice(self, op: Operation, operands: list[Value]) -> None:
        """Pad the operand with zeros."""
        (value,) = operands
        type_, sharding = value.type, get_sharding(op.result)
        even = self._even_type(type_, sharding)
        if even == type_ or not isinstance(even, TensorType):
            self._pad_any(op, operands)
            return
        build = self._builder(op, location_of(value))
        padded = build.pad_high(value, build.zero(even.element), even.shape)
        stored = get_sharding(value)
        if stored is not None:
            set_sharding(padded, stored)
        new = Operation(
            op.name,
            [padded],
            [self._even_type(op.result.type, sharding)],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
        sliced = self._add(op, new)
        self._zero_padded.update((padded, sliced))
        self.conversion.replace(op, [sliced])

    def _pad_all_gather(self, op: Operation, operands: list[Value]) -> None:
        """Remove padding from dimensions that become whole."""
        types = [_larger(self._even_type_of(op.result), [operands[0].type], 0)]
        gathered = self._like(op, operands, types).result
        made: list[Value] = [gathered]
        old, new, axes = op.result.type, gathered.type, op.properties["gathering_axes"]
        if (
            isinstance(old, TensorType)
            and isinstance(new, TensorType)
            and isinstance(axes, ListOfAxisRefLists)
        ):
            limits = [
                whole if each and _exceeds(size, whole) else size
                for each, size, whole in zip(axes.lists, new.shape, old.shape, strict=True)
            ]
            if limits != list(new.shape):
                sizes = [-(2**63) if size is None else size for size in limits]
                build = self._builder(op, op.location)
                sliced = build.slice(gathered, [0] * len(sizes), sizes)
                stored = get_sharding(gathered)
                if stored is not None:
                    set_sharding(sliced, stored)
                made.append(sliced)
        # A gather keeps the padding of dimensions that are still sharded.
        if operands[0] in self._zero_padded:
            self._zero_padded.update(made)
        self.conversion.replace(op, [made[-1]])

    def _pad_slice(self, op: Operation, operands: list[Value]) -> None:
        """Slice so that the result keeps the padding it needs."""
        sharding, type_ = get_sharding(op.result), op.result.type
        even = self._even_type(type_, sharding)
        if even == type_ or sharding is None or not isinstance(even, TensorType):
            self._pad_any(op, operands)
            return
        (value,) = operands
        starts, limits = ints(op.properties["start_indices"]), ints(op.properties["limit_indices"])
        new_limits = [start + (size or 0) for start, size in zip(starts, even.shape, strict=True)]
        stored, mesh = get_sharding(value), get_mesh(self._table, sharding.mesh)
        for dim, (old, new) in enumerate(zip(limits, new_limits, strict=True)):
            if old != new and (stored is None or not is_local_slice_dim(op, dim, stored, mesh)):
                self._session.diagnostics.error(
                    op.location,
                    f"a slice that moves elements of dimension {dim} between shards cannot be "
                    "padded: run sdy-resolve-permutation-factors first",
                )
                raise _Unpaddable
        new_slice = Operation(
            op.name,
            [value],
            [even],
            properties={**op.properties, "limit_indices": array_of_ints(new_limits)},
            location=op.location,
        )
        kept = self._add(op, new_slice)
        set_sharding(kept, sharding)
        self.conversion.replace(op, [kept])

    def _pad_dot_general(self, op: Operation, operands: list[Value]) -> None:
        """Set the padding to zero along contracted dimensions."""
        numbers = op.properties["dot_dimension_numbers"]
        if isinstance(numbers, DotDimensionNumbers):
            contracted = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)
            operands = [
                self._with_zeros(op, value, tensor(old).shape, dims)
                for value, old, dims in zip(operands, op.operands, contracted, strict=True)
            ]
        self._pad_any(op, operands)

    def _with_zeros(self, op: Operation, value: Value, sizes: _Sizes, dims: Sequence[int]) -> Value:
        """Return a value with zeros in place of the padding along some dimensions.

        Args:
            op: The operation that uses it.
            value: The value.
            sizes: Sizes of the dimensions without padding.
            dims: The dimensions.
        """
        type_ = tensor(value)
        if sizes == type_.shape or value in self._zero_padded:
            return value
        build = self._builder(op, op.location)
        mask: Value | None = None
        for dim, size in enumerate(sizes):
            if size is None or size == type_.shape[dim] or dim not in dims:
                continue
            indices = TensorType(type_.shape, I32)
            iota = build.iota(dim, indices)
            limits = build.broadcast(build.scalar(size, I32), indices.shape)
            inside = build.compare(iota, limits, "LT")
            mask = inside if mask is None else build.elementwise("and", mask, inside)
        if mask is None:
            return value
        zeros = build.broadcast(build.zero(type_.element), type_.shape)
        return build.select(mask, value, zeros)


def _exceeds(size: int | None, other: int | None) -> bool:
    return size is not None and other is not None and size > other


def _larger(even: Type, implied: list[Type] | None, index: int) -> Type:
    """Return a type with each dimension the larger of two types' sizes."""
    other = implied[index] if implied else None
    if not isinstance(other, TensorType) or not isinstance(even, TensorType):
        return even
    shape = [
        b if a is None else a if b is None else max(a, b)
        for a, b in zip(even.shape, other.shape, strict=True)
    ]
    return TensorType(tuple(shape), other.element)
