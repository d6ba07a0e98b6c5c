"""Ops as counts: what a program asks for, whatever a backend makes of it.

An op counts where it is submitted, once, whether it is computed alone, with others or piece by piece. What is not valid of a tensor
does not count.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emu.pypto.node import find_origin, place_of
from emu.pypto.operation import Attributes, LocalOp, Operation, Rectangle
from emu.pypto.symbolic import Shape
from emu.tile.counting import operators
from emu.tile.counting.counts import Counts
from emu.tile.counting.operators import OperatorCounts, Product
from emu.tile.counting.state import Counting
from emu.tile.counting.work import CAST, SELECT, Work
from emu.tile.types import FROM_NUMPY


class Operand(NamedTuple):
    """What counts of an operand or a result.

    Attributes:
        dtype: Name of its dtype.
        itemsize: Bytes of an element.
        valid: Extents of its valid part; None of a number.
        result: Number of the result that it is, too; -1: none.
    """

    dtype: str
    itemsize: int
    valid: Shape | None
    result: int = -1

    @property
    def elements(self) -> int:
        """Elements in memory."""
        return 0 if self.valid is None else math.prod(self.valid)

    @property
    def nbytes(self) -> int:
        """Bytes of them."""
        return self.elements * self.itemsize


class Described(NamedTuple):
    """An op as what counts of it, which holds no tensor alive."""

    operation: Operation
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: Attributes


_ATEN = {
    "assemble": "copy",
    "scalar write": "fill",
    "broadcast_to": "expand",
    "transpose": "permute",
    "concat": "cat",
    "gelu_tanh": "gelu",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "layer_norm": "native_layer_norm",
    "rms_norm": "_fused_rms_norm",
    "cast by a mode": "cast",
    "matmul and add": "matmul",
    **{f"{name} over axes": name for name in ("sum", "amax", "amin", "mean", "var")},
}
"""What the table calls operations that have other names here."""

_OPERANDS: dict[str, tuple[str, ...]] = {
    "assemble": ("src",),
    "cast": ("a",),
    "clip": ("a", "min", "max"),
    "dequantize": ("a", "scale", "zero_point"),
    "quantize": ("a", "scale", "zero_point"),
    "gather": ("a", "index"),
    "index_add": ("a", "index", "src"),
    "index_select": ("a", "index"),
    "layer_norm": ("a", "weight", "bias"),
    "rms_norm": ("a", "weight"),
    "scatter": ("a", "index", "src"),
    "scatter_add": ("a", "index", "src"),
    "where": ("condition", "a", "b"),
}
"""Names of operands; else ``a`` and ``b``."""

_CASTS = frozenset({"quantize", "dequantize", "dynamic_quantize"})
"""Operations that convert each element of their first result, too."""

_GATHERS = frozenset({"gather", "index_select"})
"""Operations that read as much of their first operand as they give."""


def note(op: LocalOp) -> None:
    """Count an op that the program submits now."""
    if Counting.sink is None:
        return
    origin = find_origin()
    Counting.sink(counts_of(described(op), ("", 0) if origin is None else place_of(*origin)))


def described(op: LocalOp) -> Described:
    """Return an op as what counts of it."""
    operation, inputs, outputs, attributes = op
    given = tuple([_operand(x, outputs) for x in inputs])
    return Described(operation, given, tuple([_operand(t, ()) for t in outputs]), attributes)


def _operand(x: Rectangle | np.generic, outputs: Sequence[Rectangle]) -> Operand:
    if isinstance(x, np.generic):
        return Operand(FROM_NUMPY[x.dtype].name, x.dtype.itemsize, None)
    result = next((n for n, t in enumerate(outputs) if t is x), -1)
    return Operand(FROM_NUMPY[x.dtype.np_dtype].name, x.dtype.itemsize, x.valid_shape, result)


def add_work(found: OperatorCounts, op: Described) -> None:
    """Add what an op computes."""
    operation, inputs, outputs, attributes = op
    name = _ATEN.get(operation.name, operation.name)
    if name == "matmul":
        product = _product(inputs, outputs[0], attributes)
        found.multiply(product, inputs[0].dtype, inputs[1].dtype, "f32")
    else:
        found.work += _work(name, operation, inputs, outputs, attributes)


@functools.lru_cache(4096)
def counts_of(op: Described, place: tuple[str, int]) -> Counts:
    """Return the counts of an op by itself.

    Args:
        op: The op.
        place: File and line of it.
    """
    found = OperatorCounts()
    found.operators = 1
    add_work(found, op)
    operation, inputs, outputs, attributes = op
    name = _ATEN.get(operation.name, operation.name)
    for operand, label in zip(inputs, _labels(name, operation, inputs, attributes), strict=True):
        loaded = operand.nbytes
        if name in _GATHERS and label == "a":
            loaded = min(loaded, outputs[0].nbytes)
        stored = operand.nbytes if operand.result >= 0 else 0
        found.move(label, operand.dtype, loaded=loaded, stored=stored)
    for number, result in enumerate(outputs):
        if all(x.result != number for x in inputs):
            found.move("result", result.dtype, stored=result.nbytes)
    return found.counts(operation.name, place)


def _labels(
    name: str, operation: Operation, inputs: Sequence[Operand], attributes: Attributes
) -> Sequence[str]:
    """Return what tables call the operands."""
    if name in ("cat", "stack"):
        return ["tensors"] * len(inputs)
    if name == "matmul":
        added = ["accumulate" if x.result >= 0 else "bias" for x in inputs[2:]]
        return ["a", "b", *added]
    names = _OPERANDS.get(operation.name, ("a", "b"))
    if name == "native_layer_norm" and not attributes[2]:  # without a weight
        names = ("a", "bias")
    return names[: len(inputs)]


def _product(inputs: Sequence[Operand], out: Operand, attributes: Attributes) -> Product:
    """Return the extents of a product: those of the valid result, and k as far as one of the operands is valid."""
    a, b = inputs[0].valid, inputs[1].valid
    assert out.valid is not None
    assert a is not None
    assert b is not None
    *batch, m, n = out.valid
    k = max(a[-2] if attributes[0] else a[-1], b[-1] if attributes[1] else b[-2])
    return Product(math.prod(batch), m, n, k)


def _work(
    name: str,
    operation: Operation,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    attributes: Attributes,
) -> Work:
    """Return what an op does that is no product."""
    found: Work = Counter()
    result = outputs[0]
    if name == "where":
        found[SELECT, result.dtype] += result.elements
    elif (name in ("cast", "copy") and inputs[0].dtype != result.dtype) or name in _CASTS:
        found[CAST, result.dtype] += result.elements
    if name in ("where", "cast", "copy") or name in operators.MOVES:
        return found
    first = next(x for x in inputs if x.valid is not None)
    if name in operators.FUSED:
        dtype = result.dtype if name == "dequantize" else first.dtype
        found += operators.fused(operators.FUSED[name], dtype, first.elements)
    elif name in operators.SORTS:
        extent = (first.valid or (1,))[attributes[0]]
        found += operators.sorted_rows(first.dtype, extent, first.elements)
    elif name in operators.TESTS:
        found += operators.tested(first.dtype, first.elements)
    elif name in operators.ADDED:
        found += operators.added(inputs[2].dtype, inputs[2].elements)
    elif operation.kind == "map":
        found += operators.element_wise(name, first.dtype, result.dtype, result.elements)
    return found
