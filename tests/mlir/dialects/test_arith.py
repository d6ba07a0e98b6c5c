"""``arith.constant`` is read and written."""

from __future__ import annotations

import pytest

from emu.mlir import parse, to_text
from emu.mlir.diagnostics import MlirError

TEXT = """\
module {
  func.func @f() -> (i32, index, i1, f32, tensor<2xi8>) {
    %c4_i32 = arith.constant 4 : i32
    %c-7 = arith.constant {some.mark} -7 : index
    %true = arith.constant true
    %cst = arith.constant 1.500000e+00 : f32
    %cst_0 = arith.constant dense<[1, 2]> : tensor<2xi8>
    return %c4_i32, %c-7, %true, %cst, %cst_0 : i32, index, i1, f32, tensor<2xi8>
  }
}
"""


def test_constants_read_are_written_as_they_were():
    assert to_text(parse(TEXT)) == TEXT


def test_others_of_the_dialect_pass_in_generic_form():
    text = TEXT.replace("arith.constant 4 : i32", '"arith.other"() : () -> i32')
    assert '"arith.other"() : () -> i32' in to_text(parse(text))


def test_a_constant_is_a_number_or_elements():
    with pytest.raises(MlirError, match="expected a number or elements"):
        parse(TEXT.replace("arith.constant true", 'arith.constant "text"'))
