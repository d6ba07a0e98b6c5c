"""Dtypes, pointer types, block types, and their texts in signatures."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from language_harness import DTYPES

import emu.triton.language as tl
from emu import triton
from emu.tile import types as tile


def test_dtypes_have_tritons_names() -> None:
    for name in DTYPES:
        dtype = getattr(tl, tl.dtype(name).codegen_name())
        assert dtype == tl.dtype(name)
        assert (dtype.name, str(dtype), repr(dtype)) == (
            name,
            name,
            f"triton.language.{dtype.codegen_name()}",
        )
        assert dtype.to_ir().numpy == DTYPES[name]
        width = 1 if name == "int1" else 8 * DTYPES[name].itemsize
        assert dtype.primitive_bitwidth == width
        assert hash(dtype) == hash(tl.dtype(name))
        assert getattr(dtype, f"is_{name}")()
    assert tl.float32 == tl.constexpr(tl.float32)
    assert tl.float32 != tl.float16
    assert tl.float32 != 3


@pytest.mark.parametrize("name", list(DTYPES))
def test_questions_to_dtypes(name: str) -> None:
    dtype, kind = tl.dtype(name), DTYPES[name].kind
    assert dtype.is_int() == (kind in "biu")
    assert dtype.is_int_signed() == (kind == "i")
    assert dtype.is_int_unsigned() == (kind in "bu")
    assert dtype.is_floating() == (kind not in "biu")
    assert dtype.is_fp8() == (name in ("fp8e4nv", "fp8e5"))
    assert dtype.is_bool() == (name == "int1")
    assert not dtype.is_ptr()
    assert not dtype.is_block()
    if kind in "iu":
        limits = np.iinfo(DTYPES[name])
        assert (dtype.get_int_min_value(), dtype.get_int_max_value()) == (limits.min, limits.max)
        assert tl.get_int_dtype(dtype.int_bitwidth, kind == "i") == dtype


def test_pointers_and_blocks() -> None:
    p = tl.pointer_type(tl.float16)
    assert (str(p), p.is_ptr(), p.scalar, p.element_ty) == ("pointer<fp16>", True, p, tl.float16)
    assert p.to_ir() == tile.Pointer(tile.F16)
    assert p != tl.pointer_type(tl.float16, const=True)
    assert p == tl.pointer_type(tl.constexpr(tl.float16))
    assert tl.pi32_t == tl.pointer_type(tl.int32)
    block = tl.block_type(p, [4, tl.constexpr(8)])
    assert (block.shape, block.numel, block.scalar) == ((4, 8), 32, p)
    assert block.to_ir() == tile.Tile((4, 8), tile.Pointer(tile.F16))
    assert block.with_element_ty(tl.int8) == tl.block_type(tl.int8, (4, 8))
    with pytest.raises(TypeError, match="element_ty must be a dtype"):
        tl.pointer_type("fp16")
    with pytest.raises(ValueError, match="Shape element 0 must be a power of 2"):
        tl.block_type(tl.int8, [6])
    with pytest.raises(ValueError, match="name must be that of a dtype, but got 'float32'"):
        tl.dtype("float32")


def test_texts_of_signatures() -> None:
    assert tl.str_to_ty("fp32") == tl.float32
    assert tl.str_to_ty("*i64") == tl.pointer_type(tl.int64)
    assert tl.str_to_ty("*kbf16") == tl.pointer_type(tl.bfloat16, const=True)
    assert tl.str_to_ty("**i8") == tl.pointer_type(tl.pointer_type(tl.int8))
    assert tl.str_to_ty("u1") == tl.int1
    assert tl.str_to_ty("constexpr", 5) == tl.constexpr_type(5)
    assert tl.str_to_ty(("i32", "*fp32")).types == [tl.int32, tl.pointer_type(tl.float32)]
    with pytest.raises(ValueError, match="type of a signature, but got 'i33'"):
        tl.str_to_ty("i33")


@triton.jit
def which(dtype):
    if dtype is tl.float32:
        return 32
    elif dtype is tl.float16:
        return 16
    else:
        return 0


@triton.jit
def widths(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, which(x_ptr.dtype.element_ty))
    tl.store(out_ptr + 1, which(x.dtype))
    tl.store(out_ptr + 2, which(x.to(tl.float32).dtype))
    tl.store(out_ptr + 3, which((x[None] + x[None]).dtype))


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("name", "width"), [("float32", 32), ("float16", 16), ("int32", 0)])
def test_kernels_compare_dtypes_with_is(name, width, interpret):
    out = np.zeros(4, np.int32)
    kernel = triton.jit(widths.fn, interpret=interpret)
    kernel[(1,)](np.ones(1, name), out)
    assert out.tolist() == [width, width, 32, width]


def test_there_is_one_object_for_each_dtype():
    for one in (tl.float32, tl.int1, tl.bfloat16, tl.void):
        assert tl.dtype(one.name) is tl.dtype(tl.constexpr(one.name)) is one
        assert copy.deepcopy(one) is copy.copy(one) is one
        assert pickle.loads(pickle.dumps(one)) is one
    pointer = tl.pointer_type(tl.float32)
    assert pointer is not tl.pointer_type(tl.float32)
    assert pointer == tl.pointer_type(tl.float32) == copy.deepcopy(pointer)
    assert copy.deepcopy(pointer).element_ty is tl.float32
    with pytest.raises(ValueError, match="name must be that of a dtype"):
        tl.dtype("fp33")
