"""``triton.experimental``: Gluon can be imported, and says that it does not run."""

import re

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.experimental import gluon
from emu.triton.experimental.gluon import language as gl


@gluon.jit
def adds_one(x, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, N, layout=layout)
    gl.store(x + i, gl.load(x + i) + 1)


@gluon.jit(noinline=True)
def of_gluon(x):
    return x + 1


@triton.jit
def calls_gluon(x):
    tl.store(x, of_gluon(tl.load(x)))


@gluon.constexpr_function
def twice(n):
    return 2 * n


@pytest.mark.parametrize(
    "use",
    [
        lambda x: adds_one[(1,)](x, N=4),
        lambda x: adds_one.run(x, N=4, grid=(1,), warmup=False),
        lambda x: adds_one.warmup(x, N=4, grid=(1,)),
        lambda x: adds_one(x, 4),
    ],
    ids=["launch", "run", "warmup", "call"],
)
def test_a_kernel_of_gluon_is_refused_by_name_when_it_is_used(use):
    said = re.escape(f"{__name__}.adds_one is a kernel of triton.experimental.gluon, which is not")
    with pytest.raises(gluon.GluonError, match=said):
        use(np.zeros(4, np.float32))
    assert adds_one.is_gluon()
    assert adds_one.arg_names == ["x", "N"]


def test_a_kernel_of_triton_that_calls_one_of_gluon_is_refused():
    with pytest.raises(gluon.GluonError, match="of_gluon is a kernel of triton"):
        calls_gluon[(1,)](np.zeros(1, np.float32))


def test_functions_of_constants_and_types_are_tritons():
    assert twice(gl.constexpr(3)) == 6
    assert gl.constexpr is tl.constexpr
    assert gl.float16 is tl.float16


def test_what_is_not_there_says_so():
    with pytest.raises(AttributeError, match=r"gluon\.language\.SliceLayout is not in emu: Gluon"):
        _ = gl.SliceLayout
    for vendor in ("nvidia", "amd"):
        said = rf"gluon\.language\.{vendor} is not in emu: Gluon"
        with pytest.raises(ModuleNotFoundError, match=said):
            __import__(f"emu.triton.experimental.gluon.language.{vendor}.something")
    with pytest.raises(TypeError, match="fn must be a function written with def, but got int"):
        gluon.jit(3)
