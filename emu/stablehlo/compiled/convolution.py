"""Convolutions as products: windows become rows of a matrix, a part of the result at a time.

Sums are those of the products: see :mod:`emu.stablehlo.compiled.products`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emu.kernels.matmul import matmul
from emu.mlir.attributes import Attribute, DenseArrayAttr, DenseElementsAttr
from emu.stablehlo.attributes import ConvDimensionNumbers
from emu.stablehlo.checks import integer
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.compiled.products import is_by_numpy, numpy_product
from emu.stablehlo.reference.dtypes import constant_array, result_dtype
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.windows import Window, windows

_ROW_BYTES = 4 << 20
"""Bytes of the matrix of windows: it should stay in the cache."""


@dataclass(frozen=True)
class Geometry:
    """What a convolution's attributes say.

    Attributes:
        inputs: Dimensions of the input: batch, spatial, feature.
        kernel: Dimensions of the kernel: spatial, input feature, output feature.
        outputs: Dimensions of the result: batch, spatial, feature.
        windows: Window per spatial dimension.
        reversal: Whether the window is reversed, per spatial dimension.
        features: Number of groups of features.
        batches: Number of groups of the batch.
        places: Extents of the result's spatial dimensions.
        padded: Extents of the input's, with its padding.
    """

    inputs: tuple[int, ...]
    kernel: tuple[int, ...]
    outputs: tuple[int, ...]
    windows: tuple[Window, ...]
    reversal: tuple[bool, ...]
    features: int
    batches: int
    places: tuple[int, ...]
    padded: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether the input is used as it is, without padding and dilation."""
        return all(w.padding == (0, 0) and w.base_dilation == 1 for w in self.windows)


def _flags(attribute: Attribute | None, count: int) -> tuple[bool, ...]:
    if isinstance(attribute, DenseElementsAttr):
        return tuple(map(bool, constant_array(attribute).reshape(-1)))
    if isinstance(attribute, DenseArrayAttr):
        return tuple(map(bool, attribute.values))
    return (False,) * count


@dataclass(frozen=True)
class Convolution(Form):
    """A convolution.

    Attributes:
        geometry: What its attributes say.
        sizes: Bytes of the padded input, of the matrix of windows and of its product.
        rows: Batch elements and places along the first spatial dimension that are computed at once.
        by_numpy: Whether NumPy multiplies.
    """

    geometry: Geometry
    sizes: tuple[int, int, int]
    rows: tuple[int, int]
    by_numpy: bool

    def bind(self, site: Site) -> Action:
        """Return what convolves."""
        memory = site.scratch
        parts, start = [], 0
        for size in self.sizes:
            parts.append(memory[start : start + size])
            start += -(-size // 64) * 64

        def run(x: Array, kernel: Array, result: Array) -> None:
            self._run(x, kernel, result, parts)

        return site.all(run)

    def _run(self, x: Array, kernel: Array, result: Array, parts: Sequence[Array]) -> None:
        g = self.geometry
        seen = _windows(self._padded(x.transpose(g.inputs), parts[0]), g)
        weights = kernel.transpose(g.kernel)
        flipped = tuple(d for d, is_reversed in enumerate(g.reversal) if is_reversed)
        weights = np.flip(weights, flipped) if flipped else weights
        weights = weights.reshape(-1, weights.shape[-1])
        target = result.transpose(g.outputs)
        groups = max(g.features, g.batches)
        each = weights.shape[1] // groups
        for group in range(groups):
            columns = slice(group * each, (group + 1) * each)
            self._group(
                _share(seen, g, group), weights[:, columns], target[..., columns], parts[1:]
            )

    def _padded(self, x: Array, memory: Array) -> Array:
        """Return the input with its padding: batch, spatial, feature."""
        g = self.geometry
        if g.is_plain:
            return x
        shape = (x.shape[0], *g.padded, x.shape[-1])
        padded = _shaped(memory, shape, x.dtype)
        padded[...] = np.zeros((), x.dtype)
        targets, sources = [slice(None)], [slice(None)]
        for window, size, full in zip(g.windows, x.shape[1:-1], g.padded, strict=True):
            low, step = window.padding[0], window.base_dilation
            first = max(0, -(low // step)) if low < 0 else 0
            last = max(first, min(size, max(0, -(-(full - low) // step))))
            begin = low + first * step
            sources.append(slice(first, last))
            targets.append(slice(begin, begin + (last - first) * step, step))
        source = x[tuple(sources)]
        if source.size:
            padded[tuple(targets)] = source
        return padded

    def _group(self, seen: Array, weights: Array, target: Array, memory: Sequence[Array]) -> None:
        """Multiply the windows of a group by its weights."""
        depth, width = weights.shape
        for part in _chunks(target.shape[:2], self.rows):
            piece, place = seen[part], target[part]
            rows = math.prod(place.shape[:-1])
            matrix = _shaped(memory[0], (rows, depth), seen.dtype)
            np.copyto(matrix.reshape(piece.shape), piece)
            product = _shaped(memory[1], (rows, width), target.dtype)
            if self.by_numpy:
                numpy_product(matrix, weights, product)
            else:
                matmul(matrix, weights, out=product)
            place[...] = product.reshape(place.shape)


def _chunks(extents: Sequence[int], rows: tuple[int, int]) -> Iterator[tuple[slice, slice]]:
    ranges = (range(0, extent, step) for extent, step in zip(extents, rows, strict=True))
    for first, second in itertools.product(*ranges):
        yield slice(first, first + rows[0]), slice(second, second + rows[1])


def _shaped(memory: Array, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Return the first bytes of memory as an array."""
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _windows(x: Array, g: Geometry) -> Array:
    """Return a view of the windows: batch, places, window, feature."""
    batch, *spatial, feature = x.strides
    moves = [s * w.stride for s, w in zip(spatial, g.windows, strict=True)]
    inner = [s * w.dilation for s, w in zip(spatial, g.windows, strict=True)]
    shape = (x.shape[0], *g.places, *(w.size for w in g.windows), x.shape[-1])
    strides = (batch, *moves, *inner, feature)
    bits = np.dtype(f"V{x.dtype.itemsize}")
    return np.lib.stride_tricks.as_strided(x.view(bits), shape, strides).view(x.dtype)


def _share(seen: Array, g: Geometry, group: int) -> Array:
    """Return the windows that a group uses: those of its features or of its part of the batch."""
    if g.features > 1:
        each = seen.shape[-1] // g.features
        return seen[..., group * each : (group + 1) * each]
    each = seen.shape[0] // g.batches
    return seen[group * each : (group + 1) * each]


@plans("stablehlo.convolution")
def _convolution(context: Context) -> Form | None:
    x, kernel = context.operands
    dtype = result_dtype(context.op.result.type)
    by_numpy = is_by_numpy(x.dtype, kernel.dtype, dtype)
    geometry = _geometry(context)
    if by_numpy is None or geometry is None:
        return None
    g = geometry
    batch, *places, _ = (result_shape(context.op)[d] for d in g.outputs)
    width = kernel.shape[g.kernel[-1]]
    if not (batch and math.prod(places) and width and x.size and kernel.size):
        return None
    depth = kernel.size // width
    groups = max(g.features, g.batches)
    line = math.prod(places[1:])
    fitting = max(1, _ROW_BYTES // (depth * x.dtype.itemsize * line))
    rows = (min(batch, max(1, fitting // places[0])), min(places[0], fitting))
    count = rows[0] * rows[1] * line
    padded = 0 if g.is_plain else x.shape[g.inputs[0]] * math.prod(g.padded) * x.shape[g.inputs[-1]]
    sizes = (
        padded * x.dtype.itemsize,
        count * depth * x.dtype.itemsize,
        count * (width // groups) * dtype.itemsize,
    )
    scratch = sum(-(-size // 64) * 64 for size in sizes)
    return Convolution(g, sizes, rows, by_numpy, scratch=scratch)


def _geometry(context: Context) -> Geometry | None:
    op = context.op
    n = op.properties["dimension_numbers"]
    if not isinstance(n, ConvDimensionNumbers) or not n.input_spatial_dimensions:
        return None
    x, kernel = context.operands
    sizes = [kernel.shape[d] for d in n.kernel_spatial_dimensions]
    found = windows(op, sizes, ("lhs_dilation", "rhs_dilation"))
    padded = tuple(
        max(0, sum(w.padding) + (x.shape[d] - 1) * w.base_dilation + 1)
        for w, d in zip(found, n.input_spatial_dimensions, strict=True)
    )
    shape = result_shape(context.op)
    return Geometry(
        (n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension),
        (
            *n.kernel_spatial_dimensions,
            n.kernel_input_feature_dimension,
            n.kernel_output_feature_dimension,
        ),
        (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension),
        tuple(found),
        _flags(op.properties.get("window_reversal"), len(sizes)),
        integer(op, "feature_group_count"),
        integer(op, "batch_group_count"),
        tuple(shape[d] for d in n.output_spatial_dimensions),
        padded,
    )
