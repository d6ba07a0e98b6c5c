"""Constants in registers."""

import pytest

from emu.tile.cpu.numeric import vector_builder
from emu.tile.types import (
    BF16,
    F16,
    I1,
    I8,
    I32,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_constants_are_rounded_or_wrap():
    assert vector_builder.constant(F16, 65520.0).constant == "0xH7C00"
    assert vector_builder.constant(BF16, 1.00390625).constant == "16256"
    assert vector_builder.constant(I8, 255).constant == "255"
    assert vector_builder.constant(I8, -1).constant == "255"
    assert vector_builder.constant(I1, 2).constant == "true"
    assert str(vector_builder.iota(I32, 3)).endswith("<i32 0, i32 1, i32 2>")
