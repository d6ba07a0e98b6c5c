from __future__ import annotations

import pytest

from emu.mlir.diagnostics import MlirError
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.types import FloatType, IntegerType, TensorType
from emu.sdy.rules.gather_scatter import scatter_reduction
from emu.stablehlo.attributes import GatherDimensionNumbers, ScatterDimensionNumbers

F32 = FloatType("f32")
I1 = IntegerType(1)

# Offset, collapsed and batching dimensions, the indices' batching dimensions, what coordinates
# count, and in which dimension they are; then the shapes of input, indices and slices.
WINDOWS = {
    "whole rows": ((1,), (0,), (), (), (0,), 1, "9x4", "6x1", "6x4"),
    "implicit vector": ((1,), (0,), (), (), (0,), 1, "9x4", "6", "6x4"),
    "part of rows": ((1,), (0,), (), (), (0,), 1, "9x4", "6x1", "6x3"),
    "one of a row": ((0, 2), (), (), (), (0, 1), 0, "9x4", "2x6", "9x6x1"),
    "one row": ((1,), (0,), (), (), (0,), 1, "1x4", "6x1", "6x4"),
    "batched": ((2,), (1,), (0,), (1,), (1,), 2, "5x9x4", "6x5x1", "6x5x4"),
    "vector first": ((), (0, 1), (), (), (0, 1), 0, "9x4", "2x6x7", "6x7"),
}

GATHER = {
    "whole rows": "([k, j], [i, l])->([i, j]) {i=6, j=4, k=9, l=1} reduction={k} "
    "need_replication={l}",
    "implicit vector": "([k, j], [i])->([i, j]) {i=6, j=4, k=9} reduction={k}",
    "part of rows": "([k, j], [i, l])->([i, j]) {i=6, j=4, k=9, l=1} reduction={k} "
    "need_replication={j, l} blocked_propagation={j}",
    "one of a row": "([i, k], [m, j])->([i, j, l]) {i=9, j=6, k=4, l=1, m=2} reduction={k} "
    "need_replication={l, m}",
    "one row": "([k, j], [i, l])->([i, j]) {i=6, j=4, k=1, l=1} need_replication={k, l}",
    "batched": "([j, l, k], [i, j, m])->([i, j, k]) {i=6, j=5, k=4, l=9, m=1} reduction={l} "
    "need_replication={m}",
    "vector first": "([k, l], [m, i, j])->([i, j]) {i=6, j=7, k=9, l=4, m=2} reduction={k, l} "
    "need_replication={m}",
}

SCATTER = {
    "whole rows": "([k, j], [i, l], [i, j])->([k, j]) {i=6, j=4, k=9, l=1} reduction={i} "
    "need_replication={l}",
    "implicit vector": "([k, j], [i], [i, j])->([k, j]) {i=6, j=4, k=9} reduction={i}",
    "part of rows": "([l, j], [i, m], [i, k])->([l, j]) {i=6, j=4, k=3, l=9, m=1} reduction={i} "
    "need_replication={j, k, m}",
    "one of a row": "([i, k], [m, j], [i, j, l])->([i, k]) {i=9, j=6, k=4, l=1, m=2} "
    "reduction={j} need_replication={k, l, m}",
    "one row": "([k, j], [i, l], [i, j])->([k, j]) {i=6, j=4, k=1, l=1} reduction={i} "
    "need_replication={l}",
    "batched": "([j, l, k], [i, j, m], [i, j, k])->([j, l, k]) {i=6, j=5, k=4, l=9, m=1} "
    "reduction={i} need_replication={m}",
    "vector first": "([k, l], [m, i, j], [i, j])->([k, l]) {i=6, j=7, k=9, l=4, m=2} "
    "reduction={i, j} need_replication={m}",
}


@pytest.mark.parametrize("name", WINDOWS)
def test_gather(rule, name):
    *numbers, source, indices, slices = WINDOWS[name]
    found = rule(
        "stablehlo.gather",
        [source, indices],
        [slices],
        dimension_numbers=GatherDimensionNumbers(*numbers),
    )
    assert found == GATHER[name]


@pytest.mark.parametrize(
    ("offset_dims", "collapsed_dims", "message"),
    [
        ((1, 2), (0,), "its attributes do not fit its types"),
        ((1,), (0,), "operand 1 has rank 1, but operand_dims names its dimension 2"),
    ],
)
def test_numbers_that_do_not_fit_are_an_error(rule, offset_dims, collapsed_dims, message):
    numbers = GatherDimensionNumbers(offset_dims, collapsed_dims, index_vector_dim=1)
    with pytest.raises(MlirError, match=f"gets no sharding rule: {message}"):
        rule("stablehlo.gather", ["9x4", "6"], ["6x4x4"], dimension_numbers=numbers)


def combination(*ops, element=F32, twice=False, swapped=False):
    """A region that combines as many pairs of scalars, each by its operation."""
    scalar = TensorType((), element)
    count = len(ops)
    block = Block([scalar] * (2 * count))
    values = []
    for index, op in enumerate(ops):
        pair = [block.arguments[index], block.arguments[index + count]]
        if twice:
            pair[1] = pair[0]
        if swapped:
            pair.reverse()
        values.append(block.append(Operation(f"stablehlo.{op}", pair, [scalar])).result)
    block.append(Operation("stablehlo.return", values))
    return Region([block])


@pytest.mark.parametrize("name", WINDOWS)
def test_scatter(rule, name):
    *numbers, source, indices, slices = WINDOWS[name]
    found = rule(
        "stablehlo.scatter",
        [source, indices, slices],
        [source],
        [combination("add")],
        scatter_dimension_numbers=ScatterDimensionNumbers(*numbers),
    )
    assert found == SCATTER[name]


def scatter(make, *regions, count=1):
    *numbers, source, indices, slices = WINDOWS["implicit vector"]
    return make(
        "stablehlo.scatter",
        [*[source] * count, indices, *[slices] * count],
        [source] * count,
        regions,
        scatter_dimension_numbers=ScatterDimensionNumbers(*numbers),
    )


def test_scatter_of_several_tensors(make, text_of):
    assert text_of(scatter(make, combination("add", "add"), count=2)) == (
        "([k, j], [k, j], [i], [i, j], [i, j])->([k, j], [k, j]) {i=6, j=4, k=9} reduction={i}"
    )


def test_updates_that_do_not_combine_need_replication(make, text_of):
    assert text_of(scatter(make, combination("subtract"))) == (
        "([k, j], [i], [i, j])->([k, j]) {i=6, j=4, k=9} need_replication={i}"
    )


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_reductions(make, op):
    assert scatter_reduction(scatter(make, combination(op))).name == f"stablehlo.{op}"
    assert scatter_reduction(scatter(make, combination(op, swapped=True))) is not None


@pytest.mark.parametrize("op", ["and", "or"])
def test_logical_reductions_are_of_booleans(make, op):
    assert scatter_reduction(scatter(make, combination(op, element=I1))) is not None
    assert scatter_reduction(scatter(make, combination(op, element=IntegerType(32)))) is None


def test_what_is_no_reduction(make):
    assert scatter_reduction(scatter(make, combination("add", twice=True))) is None
    assert scatter_reduction(scatter(make, combination("subtract"))) is None
    assert scatter_reduction(scatter(make, combination("xor", element=I1))) is None
    assert scatter_reduction(scatter(make, combination("add", "maximum"), count=2)) is None
    assert scatter_reduction(scatter(make, Region())) is None
    # One pair of scalars for two tensors.
    assert scatter_reduction(scatter(make, combination("add"), count=2)) is None


def test_an_update_that_overwrites_is_no_reduction(make):
    region = combination("add")
    block = region.blocks[0]
    block.terminator.set_operand(0, block.arguments[1])
    assert scatter_reduction(scatter(make, region)) is None
