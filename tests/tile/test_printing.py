"""Text of printed values: Triton's form, which programs parse."""

import math

import numpy as np
import pytest

from emu.tile import printing


def lines(prefix, array, name, as_hex=False):
    return list(printing.lines((1, 2, 3), prefix, as_hex, [(np.asarray(array), name)]))


def test_an_element_has_a_line_with_its_index():
    found = lines(" x: ", np.arange(32, dtype=np.int32).reshape(2, 16), "i32")
    assert found[0] == "pid (1, 2, 3) idx (0,  0) x: 0"
    assert found[-1] == "pid (1, 2, 3) idx (1, 15) x: 31"
    assert len(found) == 32


def test_a_number_has_no_index():
    assert lines(": ", np.float32(1.5), "f32") == ["pid (1, 2, 3) idx (): 1.500000"]
    assert list(printing.lines((0, 0, 0), " done", False, [])) == ["pid (0, 0, 0) done"]


def test_several_values_are_numbered():
    values = [(np.array([7], np.int8), "i8"), (np.array(8), "i64")]
    assert list(printing.lines((0, 0, 0), " p: ", False, values)) == [
        "pid (0, 0, 0) idx (0) p: (operand 0) 7",
        "pid (0, 0, 0) idx () p: (operand 1) 8",
    ]


@pytest.mark.parametrize(
    ("x", "name", "expected"),
    [
        (np.int16(-2), "i16", "0xfffe"),
        (np.uint8(7), "u8", "0x07"),
        (np.uint64(4096), printing.POINTER, "0x0000000000001000"),
        (np.float32(1.5), "f32", "0x1.8p+0"),
        (np.float16(0.1), "f16", "0x1.998p-4"),
        (np.float64(-0.0), "f64", "-0x0p+0"),
        (np.float32(-math.inf), "f32", "-inf"),
        (np.float32(math.nan), "f32", "nan"),
        (np.float64(1 / 3), "f64", "0x1.5555555555555p-2"),
    ],
)
def test_base_16_is_that_of_c(x, name, expected):
    assert lines("", x, name, as_hex=True) == [f"pid (1, 2, 3) idx (){expected}"]
    if "inf" not in expected and "nan" not in expected and "p" in expected:
        assert float.fromhex(expected) == float(x)
