"""Shapes of values, and shardings as plain data."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sdy_dialect_cases import F32, cut

import emu.sdy.dialect.ops
import emu.stablehlo  # noqa: F401  # makes the operations known
from emu.mlir.ir import Value
from emu.mlir.types import IntegerType, TensorType, TupleType, UnrankedTensorType
from emu.sdy.dialect import tensors
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    MeshAxis,
    SubAxisInfo,
    TensorSharding,
)


def test_shapes() -> None:
    matrix = TensorType((8, 6), F32)
    assert tensors.static_shape(matrix) == (8, 6)
    assert tensors.static_shape(TensorType((8, None), F32)) is None
    assert tensors.static_shape(UnrankedTensorType(F32)) is None
    assert tensors.tensor_rank(matrix) == 2
    assert tensors.tensor_rank(TupleType((matrix,))) == 0
    assert tensors.is_scalar(Value(TensorType((), F32)))
    assert not tensors.is_scalar(Value(IntegerType(32)))
    assert not tensors.is_scalar(Value(matrix))


def test_whole_shardings() -> None:
    types = [TensorType((8, 6), F32), TensorType((), F32), IntegerType(1)]
    assert tensors.fully_closed_shardings(types[:1], "m") == (cut("m", "", ""),)
    assert tensors.open_shardings_with(types, 0, cut("m", "x", "")) == (
        cut("m", "x", ""),
        cut("m"),
        cut("m"),
    )


def test_opening_and_closing() -> None:
    closed = cut("m", "x", "y", "")
    sharding = replace(closed, replicated_axes=(AxisRef("z"),))
    assert [dim.is_closed for dim in sharding.opened().dims] == [False, False, False]
    assert sharding.opened().replicated_axes == (AxisRef("z"),)
    assert sharding.opened().opened().closed() == closed
    assert TensorSharding.fully_open(2, "m") == cut("m", "", "", open_=True)


def test_equivalence() -> None:
    assert tensors.is_equivalent(cut("m", "x", ""), cut("m", "x", "", open_=True))
    assert not tensors.is_equivalent(cut("m", "x", ""), cut("n", "x", ""))
    assert not tensors.is_equivalent(cut("m", "x", ""), cut("m", "", "x"))
    assert not tensors.is_equivalent(cut("m", "x"), None)
    assert tensors.is_equivalent(cut("m", ""), None)
    assert tensors.is_equivalent(cut("m", "", ""), cut("n", ""))
    assert not tensors.is_equivalent(cut("m", ""), cut("m", "x"))
    for dims in (["x"], [""]):
        unreduced = cut("m", *dims).with_unreduced([AxisRef("y")])
        for other in (None, cut("m", *dims)):
            assert not tensors.is_equivalent(unreduced, other)
            assert other is None or not tensors.is_equivalent(other, unreduced)
        assert tensors.is_equivalent(unreduced, unreduced.opened())
        assert tensors.is_equivalent(unreduced, cut("m", *dims), ignore_unreduced_axes=True)


def test_local_and_global_types() -> None:
    mesh = Mesh((MeshAxis("x", 2), MeshAxis("y", 4)))
    sharding = TensorSharding(
        "m",
        (DimensionSharding((AxisRef("x"), AxisRef("y", SubAxisInfo(1, 2)))), DimensionSharding()),
    )
    whole = TensorType((8, 6), F32)
    assert tensors.local_type(sharding, whole, mesh) == TensorType((2, 6), F32)
    odd = TensorType((9, None), F32)
    assert tensors.local_type(sharding, odd, mesh) == TensorType((3, None), F32)
    assert tensors.local_type(sharding, odd, mesh, allow_non_divisible=False) is None
    assert tensors.local_type(TensorSharding("m"), whole, mesh) is whole
    assert tensors.local_type(sharding, IntegerType(1), mesh) == IntegerType(1)
    assert tensors.global_type(sharding, TensorType((2, None), F32), mesh) == TensorType(
        (8, None), F32
    )
    assert tensors.global_type(TensorSharding("m"), whole, mesh) is whole


def test_manual_and_free_axes() -> None:
    outer = TensorSharding(
        "m",
        (
            DimensionSharding((AxisRef("x"), AxisRef("y")), False, 2),
            DimensionSharding((AxisRef("z"),)),
        ),
        (AxisRef("u"), AxisRef("w")),
        (AxisRef("v"),),
    )
    manual = ("x", "u", "v")
    assert tensors.first_free_axis(outer.dims[0].axes, manual) == 1
    inner = tensors.erase_manual_axes(outer, manual)
    assert str(inner) == '#sdy.sharding<@m, [{"y", ?}p2, {"z"}], replicated={"w"}>'
    assert tensors.erase_manual_axes(outer, ()) is outer
    new = cut("m", "y t", "")
    back = tensors.add_free_axes(outer, new, manual)
    assert str(back) == (
        '#sdy.sharding<@m, [{"x", "y", "t"}, {}], replicated={"u", "w"}, unreduced={"v"}>'
    )


@pytest.mark.parametrize(
    ("axes", "first"),
    [("", 0), ("m", 1), ("f", 0), ("mf", 1), ("mmf", 2), ("fm", 2), ("ffm", 0)],
)
def test_the_first_free_axis(axes: str, first: int) -> None:
    # The last two are in the wrong order: the answers are those of Shardy's binary search.
    assert tensors.first_free_axis([AxisRef(name) for name in axes], ["m"]) == first
