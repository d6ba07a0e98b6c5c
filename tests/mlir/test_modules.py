"""Modules: read, printed, pickled; names, blocks, locations, symbols."""

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir import parse, to_text
from emu.mlir.attributes import Attribute, DictAttr, IntegerAttr, StringAttr, UnitAttr
from emu.mlir.ir import Block, Operation, Region, Value
from emu.mlir.types import FloatType, IntegerType, TensorType, Type

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
