"""Modules: read, printed, pickled; names, blocks, locations, symbols."""

import pickle
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir import parse, to_text
from emu.mlir.attributes import Attribute, DictAttr, IntegerAttr, StringAttr, UnitAttr
from emu.mlir.diagnostics import UNKNOWN, FileLoc, NameLoc
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.symbols import SymbolTable, indexed, lookup
from emu.mlir.types import FloatType, IntegerType, TensorType, Type

PRETTY = """\
module @net attributes {net.version = 2 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {net.role = "input"}, %arg1: i1) -> (tensor<4xf32> {net.role = "output"}, f32) attributes {net.entry} {
    %0:2 = "net.split"(%arg0) ({
    ^bb0(%arg2: i32):
      "net.branch"(%arg2)[^bb1, ^bb2] : (i32) -> ()
    ^bb1:  // pred: ^bb0
      "net.jump"()[^bb2] : () -> ()
    ^bb2:  // 2 preds: ^bb0, ^bb1
      %2 = "net.inner"(%arg1) : (i1) -> f32
      "net.end"(%2) : (f32) -> ()
    ^bb3(%3: i8):  // no predecessors
      "net.end"() : () -> ()
    }, {
    }) {net.note = "two"} : (tensor<4xf32>) -> (tensor<4xf32>, f32)
    %1 = call @helper(%0#0) {net.hot} : (tensor<4xf32>) -> f32
    return %0#0, %1 : tensor<4xf32>, f32
  }
  func.func private @helper(tensor<4xf32>) -> f32
  func.func nested @"odd name"() -> (() -> ()) {
    %f = constant @"odd name" : () -> (() -> ())
    %f_0 = constant @other : () -> ()
    %0 = call_indirect %f() : () -> (() -> ())
    return %f_0 : () -> ()
  }
  func.func @other() {
    return
  }
  module {
  }
}
"""

GENERIC = """\
"builtin.module"() <{sym_name = "net"}> ({
  "func.func"() <{arg_attrs = [{net.role = "input"}, {}], function_type = (tensor<4xf32>, i1) -> (tensor<4xf32>, f32), res_attrs = [{net.role = "output"}, {}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: i1):
    %3:2 = "net.split"(%arg0) ({
    ^bb0(%arg2: i32):
      "net.branch"(%arg2)[^bb1, ^bb2] : (i32) -> ()
    ^bb1:  // pred: ^bb0
      "net.jump"()[^bb2] : () -> ()
    ^bb2:  // 2 preds: ^bb0, ^bb1
      %5 = "net.inner"(%arg1) : (i1) -> f32
      "net.end"(%5) : (f32) -> ()
    ^bb3(%6: i8):  // no predecessors
      "net.end"() : () -> ()
    }, {
    }) {net.note = "two"} : (tensor<4xf32>) -> (tensor<4xf32>, f32)
    %4 = "func.call"(%3#0) <{callee = @helper}> {net.hot} : (tensor<4xf32>) -> f32
    "func.return"(%3#0, %4) : (tensor<4xf32>, f32) -> ()
  }) {net.entry} : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>) -> f32, sym_name = "helper", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{function_type = () -> (() -> ()), sym_name = "odd name", sym_visibility = "nested"}> ({
    %0 = "func.constant"() <{value = @"odd name"}> : () -> (() -> (() -> ()))
    %1 = "func.constant"() <{value = @other}> : () -> (() -> ())
    %2 = "func.call_indirect"(%0) : (() -> (() -> ())) -> (() -> ())
    "func.return"(%1) : (() -> ()) -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "other"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
  "builtin.module"() ({
  ^bb0:
  }) : () -> ()
}) {net.version = 2 : i32} : () -> ()
"""


def test_both_forms_of_a_module() -> None:
    module = parse(PRETTY)
    assert to_text(module) == PRETTY == str(module)
    assert to_text(module, generic=True) == GENERIC
    again = parse(GENERIC)
    assert to_text(again) == PRETTY
    assert to_text(again, generic=True) == GENERIC


def test_casts_between_any_types() -> None:
    text = """\
module {
  func.func @f(%arg0: tensor<8xf32>, %arg1: i32) -> i8 {
    %0 = builtin.unrealized_conversion_cast %arg0 : tensor<8xf32> to tensor<7xf32>
    %1:2 = builtin.unrealized_conversion_cast %0, %arg1 : tensor<7xf32>, i32 to i8, i16 {note = 1 : i32}
    %2 = builtin.unrealized_conversion_cast to index
    return %1#0 : i8
  }
}
"""
    module = parse(text)
    assert to_text(module) == text
    assert to_text(parse(to_text(module, generic=True))) == text


def test_what_is_no_module_is_put_in_one() -> None:
    module = parse('"t.a"() : () -> ()\n// no more', file="f.mlir")
    assert to_text(module) == 'module {\n  "t.a"() : () -> ()\n}\n'
    first = module.body().first
    assert first is not None
    assert first.location == FileLoc("f.mlir", 1, 1)
    assert to_text(parse("module {}")) == "module {\n}\n"
    assert to_text(parse("")) == "module {\n}\n"


def test_an_operation_by_itself() -> None:
    module = parse(PRETTY)
    func = lookup(module, "other")
    assert func is not None
    assert to_text(func) == "func.func @other() {\n  return\n}"
    last = func.body().terminator
    assert to_text(last) == "func.return"
    assert to_text(func, generic=True).startswith('"func.func"() <{function_type = () -> ()')


def test_inherent_attributes_of_the_older_generic_form() -> None:
    text = '"func.func"() ({}) {function_type = () -> (), sym_name = "f", sym_visibility = "private"} : () -> ()'
    assert to_text(parse(text)) == "module {\n  func.func private @f()\n}\n"


def test_a_value_may_be_used_before_its_block() -> None:
    text = """\
module {
  func.func @f() {
    "t.go"()[^bb2] : () -> ()
  ^bb1:  // pred: ^bb2
    %0 = "t.use"(%1#1, %1#0) : (i32, i8) -> i32
    return
  ^bb2:  // pred: ^bb0
    %1:2 = "t.make"() : () -> (i8, i32)
    "t.go"(%1#1)[^bb1] : (i32) -> ()
  }
}
"""
    module = parse(text)
    assert to_text(module) == text
    func = module.body().first
    assert func is not None
    made = next(op for op in func.walk() if op.name == "t.make")
    assert [op.name for op in made.results[1].users] == ["t.go", "t.use"]


def test_values_know_their_newest_use_first() -> None:
    module = parse(
        '%0 = "t.a"() : () -> i32\n"t.b"(%0) : (i32) -> ()\n'
        '"t.c"(%0, %0) ({"t.d"(%0) : (i32) -> ()}) : (i32, i32) -> ()'
    )
    first = module.body().first
    assert first is not None
    uses = [(op.name, index) for op, index in first.result.uses]
    assert uses == [("t.c", 1), ("t.c", 0), ("t.d", 0), ("t.b", 0)]


DEBUG = """\
#loc2 = loc("x")
#loc3 = loc("d.py":4:1)
#loc4 = loc("y"(#loc3))
module {
  func.func @f(%arg0: i32 loc("x"), %arg1: i32 loc("y"(#loc3))) {
    "t.a"(%arg0) : (i32) -> () loc(#loc6)
    "t.b"(%arg1) : (i32) -> () loc(#loc3)
    "t.c"() ({
    ^bb0(%arg2: f32 loc("x")):
      "t.d"() : () -> () loc(#loc2)
    }) : () -> () loc(#loc5)
    return loc(#loc)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("d.py":3:0 to :7)
#loc5 = loc(fused<"k">[#loc2, #loc1])
#loc6 = loc(callsite(#loc4 at #loc1))
"""


def test_locations() -> None:
    module = parse(DEBUG)
    assert to_text(module, locations=True) == DEBUG
    func = module.body().first
    assert func is not None
    assert func.location == FileLoc("d.py", 3, 0, 3, 7)
    assert [a.location for a in func.body().arguments] == [
        NameLoc("x", UNKNOWN),
        NameLoc("y", FileLoc("d.py", 4, 1)),
    ]


def test_locations_of_a_text_without_them() -> None:
    text = 'func.func @f(%arg0: i32) {\n  "t.a"(%arg0) : (i32) -> ()\n  return\n}\n'
    assert to_text(parse(text, file="f"), locations=True) == (
        '#loc2 = loc("f":1:14)\n'
        "module {\n"
        '  func.func @f(%arg0: i32 loc("f":1:14)) {\n'
        '    "t.a"(%arg0) : (i32) -> () loc(#loc3)\n'
        "    return loc(#loc4)\n"
        "  } loc(#loc1)\n"
        "} loc(#loc)\n"
        '#loc = loc("f":0:0)\n'
        '#loc1 = loc("f":1:1)\n'
        '#loc3 = loc("f":2:3)\n'
        '#loc4 = loc("f":3:3)\n'
    )


# Pickles


def test_pickles_keep_text_uses_and_locations() -> None:
    module = parse(PRETTY, file="p.mlir")
    copy = pickle.loads(pickle.dumps(module))
    assert to_text(copy, locations=True) == to_text(module, locations=True)
    for old, new in zip(module.walk(), copy.walk(), strict=True):
        for a, b in zip(old.results, new.results, strict=True):
            assert [(o.name, i) for o, i in a.uses] == [(o.name, i) for o, i in b.uses]


def test_an_operation_that_needs_others_is_not_pickled() -> None:
    module = parse('%0 = "t.a"() : () -> i32\n"t.b"(%0) : (i32) -> ()')
    last = module.body().last
    with pytest.raises(ValueError, match=r"t\.b uses a value or a block from outside"):
        pickle.dumps(last)


def test_a_long_chain_does_not_recurse() -> None:
    lines = ['%0 = "t.a"() : () -> i32']
    lines += [f'%{i + 1} = "t.b"(%{i}) {{n = {i} : i64}} : (i32) -> i32' for i in range(3000)]
    expected = "module {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    module = parse("\n".join(lines))
    assert to_text(module) == expected
    assert to_text(pickle.loads(pickle.dumps(module))) == expected


# Symbols


def test_symbol_tables() -> None:
    module = parse(PRETTY)
    table = SymbolTable(module)
    assert table.names == ["main", "helper", "odd name", "other"]
    assert table.lookup("helper") is lookup(module, "helper") is not None
    other = table.lookup("other")
    assert other is not None
    copy = other.clone()
    assert table.insert(copy) == "other_0"
    assert table.insert(other.clone(), before=other) == "other_1"
    assert table.names == ["main", "helper", "odd name", "other_1", "other", "other_0"]
    assert "other_0" in table
    table.erase(copy)
    assert table.lookup("other_0") is None
    with pytest.raises(ValueError, match="has no symbol name"):
        table.insert(Operation("t.a"))
    with pytest.raises(ValueError, match="holds no symbols"):
        SymbolTable(other)


def test_symbols_are_found_from_inside() -> None:
    module = parse(PRETTY)
    main = lookup(module, "main")
    assert main is not None
    assert lookup(main.body().terminator, "other") is lookup(module, "other")
    assert lookup(main.body().terminator, "nobody") is None


# Any module

NAMES = st.sampled_from(["t.a", "t.b", "u.c", "v"])
TYPES: st.SearchStrategy[Type] = st.sampled_from(
    [IntegerType(32), FloatType("f32"), TensorType((2, None), FloatType("bf16"))]
)
ATTRIBUTES: st.SearchStrategy[Attribute] = st.recursive(
    st.integers(-99, 99).map(lambda i: IntegerAttr(i, IntegerType(64)))
    | st.text(max_size=4).map(StringAttr)
    | st.just(UnitAttr()),
    lambda inner: st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3).map(
        DictAttr.of
    ),
    max_leaves=4,
)


@st.composite
def modules(draw: st.DrawFn) -> Operation:
    def fill(block: Block, visible: list[Value], depth: int) -> None:
        visible = [*visible, *block.arguments]
        for _ in range(draw(st.integers(0, 4))):
            chosen = st.lists(st.sampled_from(visible), max_size=3) if visible else st.just([])
            op = Operation(
                draw(NAMES),
                draw(chosen),
                draw(st.lists(TYPES, max_size=3)),
                attributes=draw(
                    st.dictionaries(st.text(min_size=1, max_size=3), ATTRIBUTES, max_size=2)
                ),
            )
            if depth < 3:
                for _ in range(draw(st.integers(0, 2))):
                    region = op.add_region(Region())
                    if draw(st.booleans()):
                        fill(
                            region.add_block(Block(draw(st.lists(TYPES, max_size=2)))),
                            visible,
                            depth + 1,
                        )
            block.append(op)
            visible = [*visible, *op.results]

    module = Operation("builtin.module", regions=[Region([Block()])])
    fill(module.body(), [], 0)
    return module


@given(modules())
@settings(max_examples=30, deadline=None)
def test_any_module_reads_back(module: Operation) -> None:
    for generic in (False, True):
        text = to_text(module, generic=generic)
        again = parse(text, verify=False)
        assert to_text(again, generic=generic) == text
        assert to_text(again.clone(), generic=generic) == text
        assert to_text(pickle.loads(pickle.dumps(again)), generic=generic) == text


RESOURCES = """\
module {
  "t.a"() {a = dense_resource<blob> : tensor<2xf32>} : () -> ()
}

{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000803F00000040"
    }
  }
#-}
"""


def test_resources_are_kept() -> None:
    module = parse(RESOURCES)
    assert to_text(module) == RESOURCES
    assert module.resources == RESOURCES[RESOURCES.index("{-#") :].rstrip()
    assert not module.properties
    assert to_text(pickle.loads(pickle.dumps(module))) == RESOURCES
    assert to_text(module.clone(), generic=True).endswith(
        "}) : () -> ()\n" + RESOURCES[RESOURCES.index("\n{-#") :]
    )


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=120))
def test_operations_of_a_block_are_in_order(places: list[tuple[int, bool]]) -> None:
    # Far more at one place than the numbers between two operations allow.
    block, expected = Block(), []
    for place, is_detached in [*places, *[(1, False)] * 80]:
        index = min(place, len(expected))
        before = expected[index] if index < len(expected) else None
        op = block.insert_before(before, Operation("test.op"))
        expected.insert(index, op)
        if is_detached:
            expected.pop(index // 2).detach()
    assert block.operations == expected
    for one, other in pairwise(expected):
        assert one.is_before(other)
        assert not other.is_before(one)


def test_an_index_of_symbols_follows_the_table() -> None:
    module = parse(PRETTY, verify=False)
    helper = lookup(module, "helper")
    with indexed(module):
        assert lookup(module.body().operations[0].body().operations[0], "helper") is helper
        assert lookup(module, "nobody") is None
        copy = helper.clone()
        name = SymbolTable(module).insert(copy)
        assert (lookup(module, name), lookup(module, "helper")) == (copy, helper)
        with indexed(module):
            pass
        assert lookup(module, name) is copy
    copy.erase()
    assert lookup(module, name) is None


def test_users_one_by_one_are_newest_first() -> None:
    block = Block([IntegerType(1)])
    (argument,) = block.arguments
    users = [block.append(Operation("test.use", [argument])) for _ in range(3)]
    assert list(argument.walk_users()) == users[::-1] == argument.users
