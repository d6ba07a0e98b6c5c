"""Types, constexprs, tuples, and what the code generator asks of them."""

from __future__ import annotations

import operator
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, emit, evaluate, value

import emu.triton.language as tl
from emu.tile import ir
from emu.tile import types as tile
from emu.triton.language.constants import unwrap
from emu.triton.language.context import Context, building, current


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
    with pytest.raises(ValueError, match="must be a power of 2, but got 6"):
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


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
    *(operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
]


@pytest.mark.parametrize("operation", BINARY)
def test_constexprs_compute_as_python_does(operation: Any) -> None:
    wanted = operation(13, 3)
    for a, b in ((tl.constexpr(13), 3), (13, tl.constexpr(3)), (tl.constexpr(13), tl.constexpr(3))):
        got = operation(a, b)
        assert isinstance(got, tl.constexpr)
        assert got.value == wanted
        assert type(got.value) is type(wanted)


def test_constexprs_stand_for_their_values() -> None:
    c = tl.constexpr(tl.constexpr(5))
    assert (c.value, repr(c), str(c), f"{c:03}", hash(c)) == (
        5,
        "constexpr[5]",
        "5",
        "005",
        hash(5),
    )
    assert [1, 2, 3][tl.constexpr(1)] == 2
    assert list(range(c)) == [0, 1, 2, 3, 4]
    assert (-c).value == -5
    assert (~c).value == -6
    assert c.__not__().value is False
    assert c.logical_and(0).value == 0
    assert tl.constexpr(0).logical_or(c).value == 5
    assert not tl.constexpr(0)
    assert tl.constexpr((4, 5))[1] == 5
    assert [*tl.constexpr([1, 2])] == [1, 2]
    assert tl.constexpr(max)(3, 4) == 4
    assert tl.constexpr("ab") + "c" == "abc"
    assert {tl.constexpr(3): "x"}[3] == "x"


def test_a_constexpr_and_a_tensor_give_a_tensor() -> None:
    for operation in BINARY:
        if operation is operator.pow:
            continue
        result, _ = emit(lambda t, o=operation: o(tl.constexpr(3), t), value("int32", (4,)))
        assert isinstance(result, tl.tensor)
        result, _ = emit(lambda t, o=operation: o(t, tl.constexpr(3)), value("int32", (4,)))
        assert isinstance(result, tl.tensor)


def test_tensors_say_what_they_are() -> None:
    x = value("fp16", (4, 8))
    assert (str(x), x.dtype, x.numel.value) == ("fp16[4, 8]", tl.float16, 32)
    assert x.type == tl.block_type(tl.float16, [4, 8])
    assert [s.value for s in x.shape] == [4, 8]
    assert isinstance(x.shape[0], tl.constexpr)
    assert len(x.shape) == 2
    assert [unwrap(s) for s in [*x.shape[:-1], 2]] == [4, 2]
    assert (x.shape == [4, 8]).value
    assert value("int1").shape.values == []


def test_shapes_can_be_built_of_shapes() -> None:
    def double(x: Any) -> Any:
        twice = [2 * x.shape[-1]]
        return tl.zeros(x.shape[:-1] + twice, x.dtype), x.reshape(x.shape[::-1])

    wide, turned = evaluate(double, np.zeros((2, 4), np.float16))
    assert (wide.shape, turned.shape) == ((2, 8), (4, 2))


def test_tuples() -> None:
    x = value("fp32", (4,))
    t = tl.tuple([1, x, tl.constexpr(3)])
    assert len(t) == 3
    assert t[1] is x
    assert t[tl.constexpr(0)] == 1
    assert t[1:][0] is x
    assert [*t[tl.slice(0, 1, None)]] == [1]
    two = (4, 5)
    assert len(t + two) == 5
    assert len(two + t) == 5
    assert len(t * tl.constexpr(2)) == 6
    assert t.type.types == [tl.constexpr_type(1), x.type, tl.constexpr_type(3)]
    assert (tl.tuple([1, 2]) == (1, tl.constexpr(2))).value
    assert (tl.tuple([1, 2]) != [1, 3]).value
    with pytest.raises(TypeError, match="index of a tuple must be an int"):
        _ = t[value("int32")]


Pair = namedtuple("Pair", ["first", "second"])


def test_named_tuples_keep_their_fields() -> None:
    t = tl.tuple([1, 2], tl.tuple_type([tl.int32, tl.int32], ["left", "right"]))
    assert (t.left, t.right) == (1, 2)
    named = tl.tuple(Pair(3, tl.constexpr(4)))
    assert (named.first, named.second.value) == (3, 4)
    assert named.type.fields == ["first", "second"]
    with pytest.raises(AttributeError, match="no attribute 'middle'"):
        _ = t.middle


def test_values_are_flattened_and_put_together_again() -> None:
    x, y, z = value("fp32", (4,)), value("int32"), value("*fp16")
    void, _ = emit(lambda p: tl.store(p, 1), value("*int32"))
    nested = (x, tl.constexpr(3), tl.tuple([y, (z, None), [x]]), Pair(y, 5), void)
    flat = tl.flatten(nested)
    assert flat == [x.handle, y.handle, z.handle, x.handle, y.handle]
    others = [value("fp32", (4,)).handle, *(value("int32").handle for _ in range(4))]
    again = tl.unflatten(nested, others)
    assert tl.flatten(again) == others
    assert isinstance(again, tuple)
    assert again[1].value == 3
    assert isinstance(again[2], tl.tuple)
    assert again[2][1][1] is None
    assert again[3].first.handle is others[4]
    assert again[0].type == x.type
    with pytest.raises(ValueError, match="values must be"):
        tl.unflatten(nested, others[:-1])
    with pytest.raises(ValueError, match="values must be 5, but got 6"):
        tl.unflatten(nested, [*others, others[0]])
    assert tl.flatten(tl.constexpr(3)) == []


def test_nothing_can_be_called_outside_of_a_program() -> None:
    for function in (lambda: tl.program_id(0), lambda: value("int32") + 1, current):
        with pytest.raises(RuntimeError, match=r"decorated with @triton\.jit"):
            function()


def test_contexts_nest() -> None:
    outer, inner = (Context(ir.Builder(), ir.Module()) for _ in range(2))
    with building(outer):
        assert current() is outer
        with building(inner):
            assert current() is inner
            tl.program_id(0)
        assert current() is outer
    assert len(inner.builder.region.operations) == 1
    assert not outer.builder.region.operations


def test_every_public_function_is_marked_as_the_languages_own() -> None:
    for name in tl.__all__:
        assert hasattr(tl, name)
        found = getattr(tl, name)
        if callable(found) and not isinstance(found, type):
            assert tl.core.is_builtin(found), name
    assert not tl.core.is_builtin(emit)


def test_modules_have_tritons_names() -> None:
    assert tl.core.constexpr is tl.constexpr
    assert tl.core.dtype is tl.dtype
    assert tl.core.tensor is tl.tensor
    assert tl.standard.sum is tl.sum
    assert tl.math.exp is tl.exp
    assert tl.random.philox is tl.philox
    assert tl.core._unwrap_if_constexpr(tl.constexpr(3)) == 3
    assert tl.TRITON_MAX_TENSOR_NUMEL == 2**20
    assert not tl.target_info.is_cuda()
    assert not tl.target_info.cuda_capability_geq(9, 0)
    assert not tl.target_info.is_hip()
    assert tl.target_info.current_target().value is None
    for name in ("range", "static_range", "condition"):
        assert isinstance(getattr(tl, name), type)


def test_pythons_min_and_max_in_programs() -> None:
    assert tl.core.builtin_max(tl.constexpr(3), 5).value == 5
    assert tl.core.builtin_min(tl.constexpr((3, 1, 2))[0], 5).value == 3
    x = np.array(7, np.int32)
    assert evaluate(lambda t: tl.core.builtin_max(t, 3, tl.constexpr(9)), x) == 9
    assert evaluate(lambda t: tl.core.builtin_min(t, 3), x) == 3


def test_loops_keep_their_bounds() -> None:
    r = tl.static_range(10)
    assert (r.start.value, r.end.value, r.step.value) == (0, 10, 1)
    r = tl.static_range(tl.constexpr(2), 10, 4)
    assert (r.start.value, r.end.value, r.step.value) == (2, 10, 4)
    n = value("int32")
    loop = tl.range(1, n, num_stages=tl.constexpr(3), warp_specialize=True)
    assert loop.start == 1
    assert loop.end is n
    assert (loop.step.value, loop.num_stages, loop.warp_specialize) == (1, 3, True)
    assert tl.condition(n).condition is n
    with pytest.raises(TypeError, match="arg1 of static_range must be known at compile time"):
        tl.static_range(n)
    for made in (r, loop):
        with pytest.raises(RuntimeError, match="can only be looped over in functions decorated"):
            iter(made)
