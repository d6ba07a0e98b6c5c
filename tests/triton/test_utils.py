"""``triton._utils``: spellings of dtypes, nested tuples, shapes."""

import collections

import pytest

from emu.triton import _utils as utils
from emu.triton import language as tl


def test_names_of_dtypes_have_one_spelling():
    for name, spelled in {
        "float32": "fp32",
        "torch.bfloat16": "bf16",
        tl.int64: "i64",
        "bool": "u1",
        "uint1": "u1",
        "torch.float8_e5m2": "fp8e5",
    }.items():
        assert utils.canonicalize_dtype(name) == spelled
        assert utils.canonicalize_ptr_dtype(name, False) == f"*{spelled}"
        assert utils.canonicalize_ptr_dtype(name, True) == f"*k{spelled}"
    assert all(utils.canonicalize_dtype(s) == s for s in utils.type_canonicalisation_dict.values())
    with pytest.raises(KeyError, match="complex64"):
        utils.canonicalize_dtype("complex64")


def test_widths_are_known_by_each_name():
    assert {
        n: utils.get_primitive_bitwidth(n) for n in ("u1", "fp8e4nv", "bf16", "float", "i64")
    } == {
        "u1": 1,
        "fp8e4nv": 8,
        "bf16": 16,
        "float": 32,
        "i64": 64,
    }
    assert set(utils.type_canonicalisation_dict) <= set(utils.BITWIDTH_DICT)


def test_items_of_nested_tuples_have_paths():
    nested = (1, (2, [3, "x"]), tl.tuple([4]))
    assert utils.find_paths_if(nested, lambda path, value: value != 3) == [
        (0,),
        (1, 0),
        (1, 1, 1),
        (2, 0),
    ]
    assert utils.get_iterable_path(nested, (1, 1, 0)) == 3
    assert utils.get_iterable_path(nested, ()) is nested
    seen = []
    utils.apply_with_path(nested, lambda path, value: seen.append((path, value)))
    assert seen[3] == ((1, 1, 1), "x")
    utils.set_iterable_path(nested, (2, 0), 5)
    assert nested[2][0] == 5
    with pytest.raises(TypeError, match="iterable must be a tuple of the language, but got list"):
        utils.set_iterable_path(nested, (1, 1, 0), 9)
    with pytest.raises(ValueError, match="path must have an index"):
        utils.set_iterable_path(nested, (), 9)


def test_classes_of_named_tuples_are_known():
    assert utils.is_namedtuple(collections.namedtuple("Pair", "a b"))
    assert not utils.is_namedtuple(tuple)
    assert not utils.is_namedtuple((1, 2))


@pytest.mark.parametrize(
    ("x", "expected"), [(-4, False), (0, False), (1, True), (6, False), (64, True)]
)
def test_powers_of_two(x, expected):
    assert utils.is_power_of_two(x) is expected


def test_shapes_are_checked():
    assert utils.validate_block_shape([4, 8]) == 32
    assert utils.validate_block_shape([]) == 1
    with pytest.raises(TypeError, match="Shape element 1 must have type"):
        utils.validate_block_shape([2, 2.0])
    with pytest.raises(ValueError, match="Shape element 0 must be a power of 2, but got 3"):
        utils.validate_block_shape([3])
    with pytest.raises(ValueError, match="exceeds triton maximum tensor numel"):
        utils.validate_block_shape([1 << 20, 2])
