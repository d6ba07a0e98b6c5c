"""Halo exchange: each device fetches the elements that it needs from its neighbours.

The exchange stands in a manual computation. Along one dimension, a device joins the
shards of the neighbours that it needs with its own, adds padding on both sides, and
slices out what its part of the result is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.forms import I64
from emu.mlir.ir import Block, Operation, Value
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import AxisRef, DimensionSharding, Mesh, TensorSharding
from emu.sdy.dialect.axes import total_size
from emu.sdy.dialect.builders import make_manual_computation, make_return
from emu.sdy.dialect.shardings import set_sharding
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.permutation.positions import divisor, shard_numbers, shifts
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.stablehlo.attributes import ChannelHandle

_DEVICE_TO_DEVICE = 1


@dataclass(slots=True)
class Channels:
    """Numbers of channels.

    Attributes:
        last: The last number in use.
    """

    last: int

    def next(self) -> ChannelHandle:
        """Return an unused channel."""
        self.last += 1
        return ChannelHandle(self.last, _DEVICE_TO_DEVICE)


@dataclass(frozen=True, slots=True)
class Site:
    """An operation that is to work on shards.

    Attributes:
        op: The operation.
        sharding: Sharding of its first operand.
        mesh: The sharding's mesh.
        channels: Gives channels to collectives.
        is_replica: Whether the devices of the mesh are replicas, and not partitions.
    """

    op: Operation
    sharding: TensorSharding
    mesh: Mesh
    channels: Channels
    is_replica: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first operand."""
        return tensor(self.op.operands[0]).static_shape

    def pad_high(self, shape: Sequence[int], filler: Value | None = None) -> Value:
        """Return the first operand padded at its end to a shape, with zeros by default."""
        value = self.op.operands[0]
        if tuple(shape) == self.shape:
            return value
        build = Builder.before(self.op)
        padded = build.pad_high(value, filler or build.zero(tensor(value).element), shape)
        set_sharding(padded, self.sharding)
        return padded

    def replace(self, value: Value, sharding: TensorSharding) -> None:
        """Replace the operation by a value, without the padding that it has at its end."""
        trimmed = trim(self.op, value, tensor(self.op.result), sharding)
        self.op.result.replace_all_uses_with(trimmed)
        self.op.erase()


def trim(op: Operation, value: Value, type_: TensorType, sharding: TensorSharding) -> Value:
    """Return a value without padding at its end.

    Args:
        op: The operation before which a slice is inserted if necessary.
        value: The value.
        type_: The type without padding.
        sharding: Sharding of the value.
    """
    if value.type == type_:
        return value
    shape = type_.static_shape
    trimmed = Builder.before(op).slice(value, [0] * len(shape), shape)
    set_sharding(trimmed, sharding)
    return trimmed


def trim_after(op: Operation, value: Value, type_: TensorType, sharding: TensorSharding) -> None:
    """Replace the other uses of a value, which comes from ``op``, by one without padding."""
    shape = type_.static_shape
    trimmed = Builder.after(op).slice(value, [0] * len(shape), shape)
    set_sharding(trimmed, sharding)
    replace_other_uses(value, trimmed)


@dataclass(frozen=True, slots=True)
class DimExchange:
    """The exchange along one dimension.

    Attributes:
        dim: The dimension.
        axes: The axes that number the shards of the result, major to minor.
        size: Number of elements that a device needs.
        left: Number of shards before its own that a device may need.
        right: Number of shards after its own that a device may need.
        low: Padding before the first element; negative if elements are left out.
        dilation: Distance of elements in the result.
        starts: Position of each result's shard in the operand; None if they follow from
            ``size`` and ``low``.
    """

    dim: int
    axes: tuple[AxisRef, ...]
    size: int
    left: int = 0
    right: int = 0
    low: int = 0
    dilation: int = 1
    starts: tuple[int, ...] | None = None


class ManualBody:
    """The body of a manual computation.

    Args:
        site: The operation that it replaces.
        names: Names of the manual axes.
    """

    def __init__(self, site: Site, names: frozenset[str]) -> None:
        self.site = site
        self.axes = [axis.name for axis in site.mesh.axes if axis.name in names]
        self.block = Block()
        self.plain = Builder(self.block.append, site.op.location)

    def inside(self, sharding: TensorSharding) -> TensorSharding:
        """Return a sharding without the manual axes."""
        dims = [
            DimensionSharding(
                tuple(axis for axis in dim.axes if axis.name not in self.axes),
                dim.is_closed,
                dim.priority,
            )
            for dim in sharding.dims
        ]
        return sharding.with_dims(dims)

    def sharded(self, sharding: TensorSharding) -> Builder:
        """Return a builder of operations in the body whose results have a sharding.

        Args:
            sharding: The sharding outside.
        """
        inside = self.inside(sharding)

        def insert(op: Operation) -> None:
            self.block.append(op)
            set_sharding(op.result, inside)

        return Builder(insert, self.site.op.location)

    def local_shape(self, shape: Sequence[int], sharding: TensorSharding) -> tuple[int, ...]:
        """Return a shape with each dimension divided by the size of its manual axes."""
        counts = [
            total_size([axis for axis in dim.axes if axis.name in self.axes], self.site.mesh)
            for dim in sharding.dims
        ]
        return tuple(size // count for size, count in zip(shape, counts, strict=True))

    def argument(self, value: Value, sharding: TensorSharding) -> Value:
        """Add an argument for an operand."""
        type_ = tensor(value)
        local = TensorType(self.local_shape(type_.static_shape, sharding), type_.element)
        return self.block.add_argument(local, self.site.op.location)

    def close(
        self,
        operands: Sequence[tuple[Value, TensorSharding]],
        result: Value,
        type_: TensorType,
        sharding: TensorSharding,
    ) -> Value:
        """Insert the manual computation before the operation.

        Args:
            operands: The operands, with their shardings.
            result: The value in the body that it returns.
            type_: Type of the result outside.
            sharding: Sharding of the result.
        """
        location = self.site.op.location
        self.block.append(make_return([result], location))
        made = make_manual_computation(
            [value for value, _ in operands],
            [type_],
            [each for _, each in operands],
            [sharding],
            self.axes,
            self.block,
            location,
        )
        return Place.before(self.site.op).insert(made).result

    # Devices

    def send(self, build: Builder, value: Value, axes: Sequence[AxisRef], offset: int) -> Value:
        """Return the shard of the device that is ``offset`` shards before each device.

        Zeros where there is none.

        Args:
            build: Inserts the operation.
            value: The device's own shard.
            axes: The axes of the dimension, major to minor.
            offset: Distance in shards; negative for one that comes after it.
        """
        if offset == 0:
            return value
        pairs = shifts(self.site.mesh, axes, offset)
        if not pairs:
            return build.broadcast(build.zero(tensor(value).element), tensor(value).shape)
        numbers = [device for pair in pairs for device in pair]
        properties: dict[str, Attribute] = {
            "source_target_pairs": DenseElementsAttr.of(numbers, (len(pairs), 2)),
            "channel_handle": self.site.channels.next(),
        }
        return build.op("collective_permute", [value], [value.type], properties).result

    def shard_number(self, axes: Sequence[AxisRef]) -> Value:
        """Return the number of the device's shard along axes, major to minor."""
        build, mesh = self.plain, self.site.mesh
        device = build.device_id(is_replica=self.site.is_replica)
        if mesh.device_ids:
            return build.by_device(shard_numbers(mesh, axes), device)
        number: Value | None = None
        for axis in axes:
            size, by = axis.size(mesh), divisor(mesh, axis)
            digit = device
            if by > 1:
                digit = build.elementwise("divide", digit, build.scalar(by))
            if size < mesh.total_size:
                digit = build.elementwise("remainder", digit, build.scalar(size))
            if number is None:
                number = digit
                continue
            number = build.elementwise("multiply", number, build.scalar(size))
            number = build.elementwise("add", number, digit)
        return build.scalar(0) if number is None else number


@dataclass(slots=True)
class Exchange:
    """An exchange along some dimensions of an operand.

    Attributes:
        body: The manual computation's body.
        sharding: Sharding of the operand.
        filler: Scalar that stands around the elements, in the body.
        has_zeros: Whether the filler is known to be zero.
    """

    body: ManualBody
    sharding: TensorSharding
    filler: Value
    has_zeros: bool = True
    _build: Builder = field(init=False)

    def __post_init__(self) -> None:
        self._build = self.body.sharded(self.sharding)

    def along(self, value: Value, plan: DimExchange) -> Value:
        """Return the elements that the device needs along one dimension."""
        own = tensor(value).static_shape[plan.dim]
        number = None if self.has_zeros else self.body.shard_number(plan.axes)
        joined = self._pad(self._join(value, plan, number), plan)
        if number is None:
            number = self.body.shard_number(plan.axes)
        start, zero = self._start(number, own, plan)
        shape = list(tensor(joined).static_shape)
        shape[plan.dim] = plan.size
        starts = [start if dim == plan.dim else zero for dim in range(len(shape))]
        return self._build.dynamic_slice(joined, starts, shape)

    def _join(self, value: Value, plan: DimExchange, number: Value | None) -> Value:
        """Return the shards of the neighbours and the device's own, in their order."""
        offsets = [*range(plan.left, 0, -1), 0, *range(-1, -plan.right - 1, -1)]
        inside = self.body.inside(self.sharding)
        # Shardy leaves the permuted shards without sharding, which is right without other axes.
        build = self.body.plain if inside.is_fully_replicated else self._build
        parts = []
        for offset in offsets:
            part = self.body.send(build, value, plan.axes, offset)
            if number is not None and offset:
                part = self._filled(part, number, plan, offset)
            parts.append(part)
        shape = list(tensor(value).static_shape)
        shape[plan.dim] *= len(parts)
        return self._build.concatenate(parts, shape, plan.dim)

    def _filled(self, part: Value, number: Value, plan: DimExchange, offset: int) -> Value:
        """Return a neighbour's shard, with the filler where there is no such neighbour.

        A device to which nothing is sent gets zeros.
        """
        count = total_size(plan.axes, self.body.site.mesh)
        plain = self.body.plain
        if offset > 0:
            exists = plain.compare(number, plain.scalar(offset), "GE")
        else:
            exists = plain.compare(number, plain.scalar(count + offset), "LT")
        shape = tensor(part).static_shape
        mask = self._build.broadcast(exists, shape)
        return self._build.select(mask, part, self._build.broadcast(self.filler, shape))

    def _pad(self, value: Value, plan: DimExchange) -> Value:
        """Pad as much on both sides as a device may need, and between the elements."""
        shape = list(tensor(value).static_shape)
        rank, dim = len(shape), plan.dim
        low, interior = [0] * rank, [0] * rank
        low[dim] = plan.size * plan.dilation
        interior[dim] = plan.dilation - 1
        shape[dim] = (shape[dim] - 1) * plan.dilation + 1 + 2 * low[dim]
        return self._build.pad(value, self.filler, low, low, interior, shape)

    def _start(self, number: Value, own: int, plan: DimExchange) -> tuple[Value, Value]:
        """Return where the device's elements begin among the joined ones, and zero."""
        build = self.body.plain
        if plan.starts is not None:
            # The shard t of the joined ones begins at element (t - left) * own.
            starts = [
                plan.size + start - (shard - plan.left) * own
                for shard, start in enumerate(plan.starts)
            ]
            return build.by_device(starts, number), build.scalar(0)
        spread = own * plan.dilation
        step = build.scalar(plan.size - spread)
        base = build.scalar(plan.left * spread + plan.size * plan.dilation - plan.low)
        moved = build.elementwise("multiply", number, step)
        start = build.elementwise("add", moved, base)
        zero = build.scalar(0, I64)
        # What begins before the padding is all padding.
        return build.elementwise("maximum", start, zero), zero


def exchange(
    site: Site,
    plans: Sequence[DimExchange],
    names: frozenset[str],
    operand: Value,
    filler: tuple[Value, bool],
    result: tuple[TensorType, TensorSharding],
    finish: Callable[[ManualBody, Value, Value], Value],
) -> Value:
    """Insert a manual computation in which devices exchange elements.

    Args:
        site: The operation.
        plans: The exchanges, in the order of dimensions.
        names: Names of the manual axes.
        operand: The padded operand.
        filler: Scalar that stands around the elements, and whether it is known to be zero.
        result: The type and the sharding of the result.
        finish: Makes what the body returns of it, of the exchanged elements and of the filler.
    """
    body = ManualBody(site, names)
    scalar = TensorSharding(site.sharding.mesh, ())
    value = body.argument(operand, site.sharding)
    around = body.argument(filler[0], scalar)
    exchanged = Exchange(body, site.sharding, around, has_zeros=filler[1])
    for plan in plans:
        value = exchanged.along(value, plan)
    made = finish(body, value, around)
    operands = [(operand, site.sharding), (filler[0], scalar)]
    return body.close(operands, made, *result)
