"""Fingerprints: equal for equal modules, and different after any change that there is a way to make."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

from emu.mlir import parse
from emu.mlir.attributes import IntegerAttr, StringAttr, UnitAttr
from emu.mlir.diagnostics import CallSiteLoc, FileLoc, FusedLoc, NameLoc, UnknownLoc
from emu.mlir.fingerprint import fingerprint
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.types import FloatType, IntegerType, TensorType

TEXT = """
module @m attributes {x.a = 1 : i64, x.b = "x"} {
  func.func @main(%x: tensor<4xf32> {x.k = 1 : i64}, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    %1 = stablehlo.multiply %0, %x : tensor<4xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<4xf32>
    %c = stablehlo.constant dense<[0.0, -0.0, 1.0, 2.0]> : tensor<4xf32>
    %3 = "stablehlo.custom_call"(%2, %c) <{call_target_name = "f"}> {p, q} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}
{-# dialect_resources: { builtin: { blob: "0x0800000001" } } #-}
"""
F16 = TensorType((4,), FloatType("f16"))


def module() -> Operation:
    return parse(TEXT, file="f.mlir")


def main(root: Operation) -> Block:
    return root.body().operations[0].body()


def op(root: Operation, index: int) -> Operation:
    return main(root).operations[index]


def test_equal_modules_have_one_fingerprint() -> None:
    root = module()
    found = fingerprint(root)
    assert len(found) == 64
    assert fingerprint(root) == found
    for equal in (module(), root.clone(), pickle.loads(pickle.dumps(root))):
        assert fingerprint(equal) == found


@pytest.mark.parametrize("seed", ["0", "1"])
def test_other_processes_find_the_same(seed) -> None:
    # Other objects are shared there, since other texts were read before, and strings have other hashes.
    code = (
        "import sys, emu.sdy.dialect; from emu.mlir import parse; from emu.mlir.fingerprint import fingerprint; t = sys.stdin.read();"
        "parse(t.replace('add', 'divide')); print(fingerprint(parse(t, file='f.mlir')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=TEXT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fingerprint(module())


def new_op() -> Operation:
    return Operation("test.op", attributes={"n": UnitAttr()})


def swap_attributes(root: Operation) -> None:
    root.attributes["x.a"] = root.attributes.pop("x.a")


def pass_over(root: Operation) -> None:
    """Set an operand to what it is, which makes it the newest use."""
    value = main(root).arguments[0]
    operation, index = value.uses[-1]
    operation.set_operand(index, value)


def clear_sign(root: Operation) -> None:
    other = parse(TEXT.replace("-0.0", "0.0"))
    op(root, 3).properties["value"] = op(other, 3).properties["value"]


CHANGES: dict[str, Callable[[Operation], object]] = {
    "set_operand": lambda m: op(m, 1).set_operand(0, main(m).arguments[1]),
    "exchanged operands": lambda m: (
        op(m, 0).set_operand(0, main(m).arguments[1]),
        op(m, 0).set_operand(1, main(m).arguments[0]),
    ),
    "order of uses": pass_over,
    "erase_operands": lambda m: op(m, 4).erase_operands([1]),
    "drop_operands": lambda m: op(m, 5).drop_operands(),
    "replace_all_uses_with": lambda m: op(m, 0).result.replace_all_uses_with(main(m).arguments[1]),
    "change_type": lambda m: op(m, 0).result.change_type(F16),
    "type": lambda m: setattr(op(m, 0).result, "type", F16),
    "type of an argument": lambda m: main(m).arguments[0].change_type(F16),
    "location of an argument": lambda m: setattr(
        main(m).arguments[0], "location", FileLoc("f.mlir", 9, 9)
    ),
    "add_argument": lambda m: main(m).add_argument(F16),
    "erase_argument": lambda m: (
        op(m, 0).set_operand(1, main(m).arguments[0]),
        main(m).erase_argument(1),
    ),
    "name": lambda m: setattr(op(m, 0), "name", "stablehlo.subtract"),
    "location": lambda m: setattr(op(m, 0), "location", FileLoc("f.mlir", 9, 9)),
    "unknown location": lambda m: setattr(op(m, 0), "location", UnknownLoc()),
    "name around a location": lambda m: setattr(
        op(m, 0), "location", NameLoc("n", op(m, 0).location)
    ),
    "fused location": lambda m: setattr(op(m, 0), "location", FusedLoc((op(m, 0).location,))),
    "location of a call": lambda m: setattr(
        op(m, 0), "location", CallSiteLoc(op(m, 0).location, op(m, 0).location)
    ),
    "attribute": lambda m: m.attributes.__setitem__("x.a", IntegerAttr(2, IntegerType(64))),
    "type of an attribute": lambda m: m.attributes.__setitem__(
        "x.a", IntegerAttr(1, IntegerType(8))
    ),
    "new attribute": lambda m: op(m, 0).attributes.__setitem__("n", UnitAttr()),
    "name of an attribute": lambda m: op(m, 4).attributes.__setitem__(
        "r", op(m, 4).attributes.pop("q")
    ),
    "order of attributes": swap_attributes,
    "attributes.update": lambda m: op(m, 0).attributes.update(n=UnitAttr()),
    "attributes.setdefault": lambda m: op(m, 0).attributes.setdefault("n", UnitAttr()),
    "attributes |=": lambda m: op(m, 0).attributes.__ior__({"n": UnitAttr()}),
    "attributes.popitem": lambda m: m.attributes.popitem(),
    "attributes.clear": lambda m: m.attributes.clear(),
    "del attribute": lambda m: m.attributes.__delitem__("x.a"),
    "dictionary of attributes": lambda m: setattr(op(m, 0), "attributes", {"n": UnitAttr()}),
    "property": lambda m: op(m, 4).properties.__setitem__("call_target_name", StringAttr("g")),
    "property to attribute": lambda m: op(m, 4).attributes.__setitem__(
        "call_target_name", op(m, 4).properties.pop("call_target_name")
    ),
    "sign of a zero": clear_sign,
    "append": lambda m: main(m).insert_before(None, new_op()),
    "insert_before": lambda m: main(m).insert_before(op(m, 0), new_op()),
    "erase": lambda m: op(m, 5).erase(),
    "moved": lambda m: main(m).insert_before(op(m, 0), op(m, 3).detach()),
    "add_region": lambda m: op(m, 0).add_region(),
    "add_block": lambda m: m.body().operations[0].regions[0].add_block(),
    "block with an argument": lambda m: op(m, 0).add_region(Region([Block([F16])])),
    "take_body": lambda m: op(m, 4).add_region().take_body(m.body().operations[0].regions[0]),
    "successors": lambda m: setattr(op(m, 5), "successors", (main(m),)),
    "results": lambda m: op(m, 5).results.append(
        Operation("test.op", result_types=[F16]).results[0]
    ),
    "resources": lambda m: setattr(m, "resources", None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_changes_it(name) -> None:
    root = module()
    before = fingerprint(root)
    CHANGES[name](root)
    assert fingerprint(root) != before


def test_changes_differ_from_each_other() -> None:
    found: dict[str, str] = {}
    for name, change in CHANGES.items():
        root = module()
        change(root)
        found.setdefault(fingerprint(root), name)
    # Several names stand for one change.
    same = {"attributes.update", "attributes.setdefault", "attributes |=", "type"}
    same |= {"dictionary of attributes", "replace_all_uses_with"}
    assert set(CHANGES) - set(found.values()) == same


def test_where_an_operation_ends_a_block_matters() -> None:
    def nested(outside: bool) -> Operation:
        inner, outer = Block(), Block()
        outer.append(Operation("test.a", regions=[Region([inner])]))
        inner.append(Operation("test.b"))
        (outer if outside else inner).append(Operation("test.c"))
        return Operation("builtin.module", regions=[Region([outer])])

    assert fingerprint(nested(True)) != fingerprint(nested(False))


def test_a_value_from_outside_is_refused() -> None:
    root = module()
    with pytest.raises(
        ValueError, match=r"stablehlo\.multiply uses a value or a block from outside"
    ):
        fingerprint(op(root, 1))
