"""``sdy-pad-for-divisibility``: pads tensors so that all shards have the same size.

A tensor that is sharded unevenly gets padding at its end, so that its shards
become even. Padding is added where a collective splits a dimension
(``sdy.all_slice``, ``sdy.reduce_scatter``, ``sdy.all_to_all``), passes through all
operations, whose results grow with their operands, and is removed where a dimension
becomes whole again (``sdy.all_gather``, ``sdy.all_to_all``). Arguments and results
of functions must be sharded evenly already.

The contents of the padding do not matter as long as elements do not mix. A
``dot_general`` sums over contracted dimensions, a convolution over features and
windows; there the padding must be zero. A ``pad`` puts elements of its own after the
last one; what padding stands there must be equal to them. Collectives pad with zeros,
which is known for values that come directly from one; for others, the padding is
overwritten. Where elements and padding would be mixed otherwise (a sum, a reshape
that splits an uneven dimension), the pass fails: ``emu-resolve-uneven-shards`` makes
such dimensions whole.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from emu.mlir.attributes import Attribute
from emu.mlir.diagnostics import Location, PassFailed
from emu.mlir.forms import I32
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.text.printer import to_text
from emu.mlir.types import TensorType, Type, is_static_tensor
from emu.sdy.dialect.attributes import AllToAllParamList, ListOfAxisRefLists, TensorSharding
from emu.sdy.dialect.functions import func_result_sharding, function_type
from emu.sdy.dialect.meshes import find_mesh, get_mesh
from emu.sdy.dialect.shardings import get_sharding, set_sharding
from emu.sdy.passes.base import FunctionPass, Session
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.permutation.locality import is_local_reshape, is_local_slice_dim
from emu.sdy.passes.export.type_conversion import TypeConversion
from emu.sdy.passes.export.unevenness import unsafe_factors
from emu.sdy.passes.insertion_point import Place, location_of
from emu.sdy.rules import get_or_create
from emu.sdy.rules.reading import integer
from emu.stablehlo.attributes import ConvDimensionNumbers, DotDimensionNumbers
from emu.stablehlo.checks import Invalid
from emu.stablehlo.convolution import convolution_shape
from emu.stablehlo.syntax import array_of_ints, ints
from emu.stablehlo.type_inference import implied_types

_Sizes = tuple[int | None, ...]
_LIKE_STABLEHLO = frozenset(
    {"sdy.all_reduce", "sdy.all_to_all", "sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced"}
)


class PadForDivisibility(FunctionPass, name="sdy-pad-for-divisibility"):
    """Pad tensors that are sharded unevenly.

    Attributes:
        fix_wrong_results: Whether to correct wrong results of Shardy: elements that a
            ``pad`` puts right after the last one keep their value, and what mixes
            elements with padding is refused. False gives Shardy's results.
    """

    fix_wrong_results: bool = True

    def run(self, op: Operation, session: Session) -> None:
        """Replace operations in program order."""
        module = op.parent_op
        if module is None:
            raise ValueError(f"{op.name} is in no module")
        padder = _Padder(SymbolTable(module), session, self.fix_wrong_results)
        padder.check_boundaries(op)
        for each in [each for each in op.walk() if each is not op]:
            padder.visit(each)
        padder.conversion.finish()


class _Unpaddable(Exception):
    """Raised for a kind of operation that cannot be padded."""


class _Padder:
    def __init__(self, table: SymbolTable, session: Session, fix_wrong_results: bool) -> None:
        self._table = table
        self._fix_wrong_results = fix_wrong_results
        self._session = session
        self._zero_padded: set[Value] = set()
        self._new: list[Operation] = []
        self._made: set[Operation] = set()
        self._before: dict[Value, Type] = {}
        self._arguments: dict[Value, TensorSharding] = {}
        self.conversion = TypeConversion(self._even_type_of)
        self._patterns: dict[str, Callable[[Operation, list[Value]], None]] = {
            "sdy.all_slice": self._pad_all_slice,
            "sdy.all_gather": self._pad_all_gather,
            "sdy.all_to_all": self._pad_all_to_all,
            "sdy.reduce_scatter": self._pad_all_slice,
            "stablehlo.slice": self._pad_slice,
            "stablehlo.convolution": self._pad_convolution,
            "stablehlo.dynamic_slice": self._pad_whole_slices,
            "stablehlo.gather": self._pad_whole_slices,
            "stablehlo.dot_general": self._pad_dot_general,
            "stablehlo.pad": self._pad_pad,
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

    def _type(self, value: Value) -> Type:
        """Return the type of a value without padding; arguments of blocks are padded in place."""
        return self._before.get(value, value.type)

    def _shape(self, value: Value) -> _Sizes:
        type_ = self._type(value)
        return type_.shape if isinstance(type_, TensorType) else ()

    def _sharding(self, value: Value) -> TensorSharding | None:
        return self._arguments.get(value) or get_sharding(value)

    def _even_type_of(self, value: Value) -> Type:
        return self._even_type(self._type(value), self._sharding(value))

    def _is_done(self, op: Operation) -> bool:
        """Return whether an operation can stay as it is."""
        # Operands of operations that were there before still have their types without padding.
        type_of = (lambda value: value.type) if op in self._made else self._type

        def is_even(value: Value) -> bool:
            return self._even_type_of(value) == type_of(value)

        # What is added up element by element takes padding as an operation of StableHLO does.
        if op.dialect == "stablehlo" or op.name in _LIKE_STABLEHLO:
            return all(map(is_even, op.results)) and all(map(is_even, op.operands))
        if op.name in {"sdy.all_slice", "sdy.reduce_scatter"}:
            type_ = type_of(op.operands[0])
            return self._even_type(type_, get_sharding(op.result)) == type_
        return op.name != "sdy.all_gather" or all(map(is_even, op.operands))

    def check_boundaries(self, func: Operation) -> None:
        """Raise PassFailed if an argument or a result of a function is sharded unevenly."""
        if not func.regions[0].blocks:
            return
        for index, argument in enumerate(func.body().arguments):
            if self._even_type_of(argument) != argument.type:
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
        self._made.add(new)

    def _builder(self, old: Operation, location: Location) -> Builder:
        """Return a builder of operations before the one that is replaced."""
        return Builder(lambda new: self._insert(old, new), location)

    def _add(self, old: Operation, new: Operation) -> Value:
        """Insert an operation with one result, and return that."""
        self._insert(old, new)
        return new.result

    # Kinds of operations

    def _pad_any(self, op: Operation, operands: list[Value]) -> None:
        """Replace an operation by the same one with padded operands, if they stay apart."""
        self._check_factors(op)
        self._pad_like(op, operands)

    def _check_factors(self, op: Operation) -> None:
        """Raise _Unpaddable if elements would be mixed with padding."""
        values = (*op.operands, *op.results)
        uneven = [self._uneven_dims(value) for value in values]
        if op.dialect != "stablehlo" or not op.operands or not any(uneven):
            return
        if not self._fix_wrong_results:
            return
        if op.name == "stablehlo.reshape":
            sharding = self._sharding(op.operands[0])
            mesh = None if sharding is None else find_mesh(self._table, sharding.mesh)
            is_safe = mesh is not None and is_local_reshape(op, mesh)
        else:
            rule = get_or_create(op, set_on_op=False, diagnostics=self._session.diagnostics)
            is_safe = rule is None or rule.is_custom or not unsafe_factors(op, rule, uneven)
        if not is_safe:
            self._session.diagnostics.error(
                op.location,
                "an operation that mixes elements along a dimension cannot be padded there: run "
                "emu-resolve-uneven-shards first",
            )
            raise _Unpaddable

    def _uneven_dims(self, value: Value) -> list[int]:
        even = self._even_type_of(value)
        if not isinstance(even, TensorType):
            return []
        sizes = zip(even.shape, self._shape(value), strict=True)
        return [dim for dim, (new, old) in enumerate(sizes) if new != old]

    def _pad_like(
        self,
        op: Operation,
        operands: list[Value],
        changed: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Replace an operation by the same one with padded operands, and other properties."""
        new = self._like(op, operands, [result.type for result in op.results])
        new.properties.update(changed or {})
        for old, region in zip(op.regions, new.regions, strict=True):
            region.take_body(old)
        if op.name == "stablehlo.while":
            self._pad_arguments(op, new)
        implied = self._implied(new)
        # Padding of the operands may imply larger results than their own shardings do.
        for index, result in enumerate(op.results):
            new.results[index].change_type(_larger(self._even_type_of(result), implied, index))
        self.conversion.replace(op, list(new.results))

    def _pad_arguments(self, op: Operation, new: Operation) -> None:
        """Give the arguments of a loop's regions the types of its padded operands."""
        for region in new.regions:
            for argument in region.blocks[0].arguments if region.blocks else ():
                sharding = get_sharding(op.results[argument.index])
                if sharding is not None:
                    self._arguments[argument] = sharding
                even = self._even_type_of(argument)
                if even != argument.type:
                    self._before[argument] = argument.type
                    argument.type = even

    def _pad_whole_slices(self, op: Operation, operands: list[Value]) -> None:
        """Let slices of whole dimensions take their padding too."""
        self._check_factors(op)
        sizes = list(ints(op.properties["slice_sizes"]))
        old, new = self._shape(op.operands[0]), tensor(operands[0]).shape
        for dim, size in enumerate(sizes):
            padded = new[dim]
            if size == old[dim] and padded is not None:
                sizes[dim] = padded
        self._pad_like(op, operands, {"slice_sizes": array_of_ints(sizes)})

    def _like(self, op: Operation, operands: Sequence[Value], types: Sequence[Type]) -> Operation:
        new = Operation(
            op.name,
            operands,
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

    def _collective(self, op: Operation, value: Value) -> Value:
        """Return the result of a collective whose operand has even shards in its result's sharding."""
        even = self._even_type(value.type, get_sharding(op.result))
        has_zeros = value in self._zero_padded
        if even != value.type and isinstance(even, TensorType):
            # What was padded before with something else stays padded with that.
            has_zeros |= value.type == self._type(op.operands[0])
            build = self._builder(op, location_of(value))
            padded = build.pad_high(value, build.zero(even.element), even.shape)
            self._copy_sharding(value, padded)
            value = padded
        new = Operation(
            op.name,
            [value],
            [even],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
        made = self._add(op, new)
        if has_zeros:
            self._zero_padded.update((value, made))
        return made

    def _pad_all_slice(self, op: Operation, operands: list[Value]) -> None:
        """Pad the operand with zeros."""
        self.conversion.replace(op, [self._collective(op, operands[0])])

    def _pad_all_to_all(self, op: Operation, operands: list[Value]) -> None:
        """Pad the operand with zeros, and remove the padding of dimensions that become whole."""
        made = self._collective(op, operands[0])
        params = op.properties["params"]
        whole = (
            {each.src_dim for each in params.params}
            if isinstance(params, AllToAllParamList)
            else ()
        )
        self.conversion.replace(op, [self._trim(op, made, tensor(op.result).shape, whole)])

    def _pad_all_gather(self, op: Operation, operands: list[Value]) -> None:
        """Remove padding from dimensions that become whole."""
        types = [_larger(self._even_type_of(op.result), [operands[0].type], 0)]
        gathered = self._like(op, operands, types).result
        # A gather keeps the padding of dimensions that are still sharded.
        if operands[0] in self._zero_padded:
            self._zero_padded.add(gathered)
        axes = op.properties["gathering_axes"]
        lists = axes.lists if isinstance(axes, ListOfAxisRefLists) else ()
        whole = [dim for dim, each in enumerate(lists) if each]
        self.conversion.replace(op, [self._trim(op, gathered, tensor(op.result).shape, whole)])

    def _trim(self, op: Operation, value: Value, sizes: _Sizes, dims: Container[int]) -> Value:
        """Return a value without the padding of some dimensions.

        Args:
            op: The operation being replaced.
            value: The value.
            sizes: Sizes of the dimensions without padding.
            dims: The dimensions.
        """
        shape = tensor(value).shape
        limits = [
            size if dim in dims and _exceeds(padded, size) else padded
            for dim, (padded, size) in enumerate(zip(shape, sizes, strict=True))
        ]
        if limits == list(shape):
            return value
        bounds = [-(2**63) if size is None else size for size in limits]
        trimmed = self._builder(op, op.location).slice(value, [0] * len(bounds), bounds)
        self._copy_sharding(value, trimmed)
        if value in self._zero_padded:
            self._zero_padded.add(trimmed)
        return trimmed

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
        stored, mesh = self._sharding(value), get_mesh(self._table, sharding.mesh)
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

    def _pad_pad(self, op: Operation, operands: list[Value]) -> None:
        """Let the padding at the end make the result even."""
        value, filler = operands
        even = self._even_type_of(op.result)
        before = self._type(op.operands[0])
        if not (
            is_static_tensor(even) and is_static_tensor(value.type) and is_static_tensor(before)
        ):
            raise _Unpaddable
        own, padded = before.static_shape, value.type.static_shape
        lows, highs, interiors = (
            ints(op.properties[name])
            for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
        )
        new_highs = [
            size - before - low - max(0, before - 1) * interior
            for size, before, low, interior in zip(
                even.static_shape, padded, lows, interiors, strict=True
            )
        ]
        dims = [
            dim
            for dim, (before, after) in enumerate(zip(own, padded, strict=True))
            if before != after
        ]
        # Shardy overwrites the padding only if less is added at the end now. But it also shows
        # where what is added at the end would begin right after the last element.
        reduced = any(new < old for new, old in zip(new_highs, highs, strict=True))
        shown = any(highs[dim] > interiors[dim] for dim in dims)
        if reduced or (shown and self._fix_wrong_results):
            value = self._overwritten(op, value, own, dims, filler)
        properties = {**op.properties, "edge_padding_high": array_of_ints(new_highs)}
        new = Operation(
            op.name, [value, filler], [even], properties=properties, location=op.location
        )
        made = self._add(op, new)
        self._copy_sharding(op.result, made)
        self.conversion.replace(op, [made])

    def _pad_dot_general(self, op: Operation, operands: list[Value]) -> None:
        """Set the padding to zero along contracted dimensions."""
        numbers = op.properties["dot_dimension_numbers"]
        if isinstance(numbers, DotDimensionNumbers):
            contracted = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)
            operands = [
                self._with_zeros(op, value, self._shape(old), dims)
                for value, old, dims in zip(operands, op.operands, contracted, strict=True)
            ]
        self._pad_like(op, operands)

    def _pad_convolution(self, op: Operation, operands: list[Value]) -> None:
        """Set the padding to zero along features and windows, and remove it from the result."""
        numbers = op.properties["dimension_numbers"]
        if not isinstance(numbers, ConvDimensionNumbers):
            raise _Unpaddable
        self._check_groups(op, numbers, operands)
        summed = (
            (numbers.input_feature_dimension, *numbers.input_spatial_dimensions),
            (numbers.kernel_input_feature_dimension, *numbers.kernel_spatial_dimensions),
        )
        operands = [
            self._with_zeros(op, value, self._shape(old), dims)
            for value, old, dims in zip(operands, op.operands, summed, strict=True)
        ]
        new = self._like(op, operands, [op.result.type])
        shape, even = convolution_shape(new), self._even_type_of(op.result)
        if shape is None or not isinstance(even, TensorType):
            raise _Unpaddable
        spatial = numbers.output_spatial_dimensions
        if any(_exceeds(even.shape[dim], shape[dim]) for dim in spatial):
            self._session.diagnostics.error(
                op.location,
                "a convolution along uneven windows has fewer results than even shards need: "
                "run sdy-resolve-permutation-factors first",
            )
            raise _Unpaddable
        new.result.change_type(TensorType(shape, even.element))
        self.conversion.replace(op, [self._trim(op, new.result, even.shape, spatial)])

    def _check_groups(
        self, op: Operation, numbers: ConvDimensionNumbers, operands: Sequence[Value]
    ) -> None:
        """Raise _Unpaddable if padding would change which elements belong to a group."""
        grouped: list[tuple[Value, Value, int]] = []
        lhs, rhs = ((old, new) for old, new in zip(op.operands, operands, strict=True))
        if integer(op, "feature_group_count") != 1:
            grouped += [
                (*lhs, numbers.input_feature_dimension),
                (*rhs, numbers.kernel_output_feature_dimension),
            ]
        if integer(op, "batch_group_count") != 1:
            grouped += [
                (*lhs, numbers.input_batch_dimension),
                (*rhs, numbers.kernel_output_feature_dimension),
            ]
        reversal = op.properties.get("window_reversal")
        if reversal is not None and any(ints(reversal)):
            grouped += [(*rhs, dim) for dim in numbers.kernel_spatial_dimensions]
        for old, new, dim in grouped:
            if self._shape(old)[dim] != tensor(new).shape[dim]:
                raise _Unpaddable

    def _with_zeros(self, op: Operation, value: Value, sizes: _Sizes, dims: Sequence[int]) -> Value:
        """Return a value with zeros in place of the padding along some dimensions.

        Args:
            op: The operation that uses it.
            value: The value.
            sizes: Sizes of the dimensions without padding.
            dims: The dimensions.
        """
        if sizes == tensor(value).shape or value in self._zero_padded:
            return value
        return self._overwritten(op, value, sizes, dims, None)

    def _overwritten(
        self, op: Operation, value: Value, sizes: _Sizes, dims: Sequence[int], filler: Value | None
    ) -> Value:
        """Return a value with other padding along some dimensions: a scalar, or zero."""
        type_ = tensor(value)
        build = self._builder(op, op.location)
        if self._sharding(value) is not None:
            build = Builder(lambda new: self._insert_like(op, new, value), op.location)
        bounds = {dim: sizes[dim] for dim in sorted(dims) if sizes[dim] != type_.shape[dim]}
        if not bounds:
            return value
        filler = build.zero(type_.element) if filler is None else filler
        indices = TensorType(type_.shape, I32)
        mask: Value | None = None
        for dim, size in bounds.items():
            iota = build.iota(dim, indices)
            limits = build.broadcast(build.scalar(size or 0, I32), indices.shape)
            inside = build.compare(iota, limits, "LT")
            mask = inside if mask is None else build.elementwise("and", mask, inside)
        assert mask is not None
        return build.select(mask, value, build.broadcast(filler, type_.shape))

    def _insert_like(self, old: Operation, new: Operation, value: Value) -> None:
        """Insert an operation whose result, unless it is a scalar, is sharded as a value."""
        self._insert(old, new)
        if tensor(new.result).shape:
            self._copy_sharding(value, new.result)

    def _copy_sharding(self, value: Value, other: Value) -> None:
        sharding = self._sharding(value)
        if sharding is not None:
            set_sharding(other, sharding)


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
