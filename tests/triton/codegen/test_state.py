"""Names that kernels take from outside."""

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.source import JITCallable as jit


def make(offset):
    @jit
    def closure(out):
        tl.store(out, offset + 1)

    return closure


def test_variables_of_enclosing_functions_must_be_constexprs_too(launch):
    out = ints(0)
    launch(make(tl.constexpr(4)), out)
    assert out[0] == 5
    with pytest.raises(Exception, match="Cannot access global variable offset"):
        launch(make(4), out)
