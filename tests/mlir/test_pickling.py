"""Pickled operations."""

import pickle

import pytest
from mlir_reading import PRETTY

from emu.mlir import parse, to_text


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
