"""Names of the compiler, where programs look for them."""

import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton import compiler
from emu.triton.compiler import compiler as module


@triton.jit
def kernel(x_ptr, n: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, n), 1)


def test_texts_of_other_representations_are_refused():
    with pytest.raises(
        NotImplementedError, match=r"x\.ttir: emu has no MLIR and cannot compile it"
    ):
        compiler.IRSource("x.ttir", None, None)
    with pytest.raises(TypeError, match="src must be an ASTSource, but got str"):
        compiler.compile("x.ttir")


def test_a_kernel_is_compiled_from_its_types():
    source = compiler.ASTSource(kernel, {"x_ptr": "*i32", "n": "constexpr"}, {"n": 8})
    made = compiler.compile(source, target=compiler.GPUTarget("cuda", 90, 32))
    assert made.metadata.name == "kernel"
    assert "tile<8xi32>" in made.asm["ttir"]


def test_names_are_the_same_in_both_modules():
    assert all(
        getattr(module, name) is getattr(compiler, name)
        for name in compiler.__all__
        if hasattr(module, name)
    )
    assert compiler.max_shared_mem(0) > 0
