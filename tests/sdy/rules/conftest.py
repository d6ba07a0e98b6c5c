"""Operations in one line each, and their rules as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from emu.mlir.attributes import Attribute, BoolAttr, DenseArrayAttr, IntegerAttr, StringAttr
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.types import FloatType, IntegerType, TensorType, Type
from emu.sdy.rules import sharding_rule

I64 = IntegerType(64)


def type_of(text: str) -> Type:
    """``"4x8"`` and ``""`` are tensors of f32, ``"4xi1"`` one of booleans."""
    *sizes, last = text.split("x") if text else [""]
    if last.isdigit() or last == "?":
        sizes.append(last)
        last = ""
    element = IntegerType(int(last[1:])) if last else FloatType("f32")
    return TensorType(tuple(None if s == "?" else int(s) for s in sizes), element)


def attribute_of(value: object) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr(value)
    if isinstance(value, int):
        return IntegerAttr(value, I64)
    if isinstance(value, str):
        return StringAttr(value)
    assert isinstance(value, Iterable)
    return DenseArrayAttr(I64, tuple(value))


def make(
    name: str,
    operands: Sequence[str | Value],
    results: Sequence[str],
    regions: Sequence[Region] = (),
    **attributes: object,
) -> Operation:
    """An operation; operands given by their types are arguments of a block."""
    values = [v if isinstance(v, Value) else Block([type_of(v)]).arguments[0] for v in operands]
    return Operation(
        name,
        values,
        [type_of(r) for r in results],
        properties={key: attribute_of(value) for key, value in attributes.items()},
        regions=regions,
    )


def text_of(op: Operation, *, conservative: bool = False) -> str | None:
    """The rule without the name of the attribute, None without a rule."""
    rule = sharding_rule(op, conservative=conservative)
    if rule is None:
        return None
    return str(rule).removeprefix("#sdy.op_sharding_rule<").removesuffix(">")


@pytest.fixture(name="make")
def _make() -> Callable[..., Operation]:
    return make


@pytest.fixture(name="text_of")
def _text_of() -> Callable[..., str | None]:
    return text_of


@pytest.fixture
def rule() -> Callable[..., str | None]:
    """The rule of an operation that is made of the same arguments."""

    def rule_of(*args: object, conservative: bool = False, **attributes: object) -> str | None:
        return text_of(make(*args, **attributes), conservative=conservative)  # type: ignore[arg-type]

    return rule_of
