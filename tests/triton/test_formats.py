"""The table of formats: it agrees with the kernels' descriptor and with ml_dtypes, and all tables are views."""

import ml_dtypes
import numpy as np
import pytest

import emu.triton.language as tl
from emu.kernels.core import dtype_table as dtypes
from emu.triton import formats
from emu.triton.runtime.arguments import DTYPES, bounds
from emu.triton.source import canonical_type

COMPUTED = [f for f in formats.FORMATS if f.element is not None]


def test_a_format_has_what_the_kernels_descriptor_says():
    by_name = {d.triton: d for d in dtypes.ALL}
    assert by_name.keys() == {f.name for f in COMPUTED}
    for found in COMPUTED:
        descriptor = by_name[found.name]
        assert found.element.numpy == descriptor.numpy
        assert (found.mantissa, found.bias) == (descriptor.mantissa, descriptor.bias)
        assert found.is_float == descriptor.is_float
        assert found.bits == (1 if found.name == "int1" else descriptor.bits)


def test_the_descriptor_has_the_facts_of_ml_dtypes():
    for found in COMPUTED:
        if found.is_float:
            facts = ml_dtypes.finfo(found.element.numpy)
            assert (found.mantissa, found.bias) == (facts.nmant, 1 - facts.minexp)


@pytest.mark.parametrize(
    ("name", "same"),
    [("fp8e4b8", ml_dtypes.float8_e4m3fnuz), ("fp8e5b16", ml_dtypes.float8_e5m2fnuz)],
)
def test_a_format_that_is_held_as_bytes_has_the_facts_of_its_other_name(name, same):
    facts = ml_dtypes.finfo(same)
    found = formats.BY_NAME[name]
    assert found.numpy == np.dtype(same)
    assert found.stored.name == "u8"
    assert (found.mantissa, found.bias) == (facts.nmant, 1 - facts.minexp)


@pytest.mark.parametrize("found", formats.FORMATS, ids=lambda f: f.name)
def test_the_language_has_a_dtype_for_each_format(found):
    dtype = getattr(tl, found.language_name)
    assert (dtype.name, dtype.primitive_bitwidth) == (found.name, found.bits)
    assert dtype.is_floating() == found.is_float
    assert tl.str_to_ty(found.spelling) == dtype
    assert canonical_type(found.language_name) == canonical_type(dtype)
    if found.is_float:
        assert (dtype.fp_mantissa_width, dtype.exponent_bias) == (found.mantissa, found.bias)
    else:
        low, high = dtype.get_int_min_value(), dtype.get_int_max_value()
        assert (low, high) == bounds(found.spelling)
        assert high - low == 2**found.bits - 1


def test_launches_know_each_format_of_an_array():
    arrays = {key: name for key, name in DTYPES.items() if isinstance(key, np.dtype)}
    assert arrays == {f.numpy: f.spelling for f in formats.FORMATS if f.numpy is not None}
    assert {f.name for f in formats.FORMATS if f.numpy is None} == {"fp8e4b15"}


def test_int1_has_other_spellings():
    assert formats.BY_SPELLING["u1"] == formats.BY_SPELLING["B"] == formats.BY_NAME["int1"]
