"""Inline assembly: packing, results, and texts that kernels in the field have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl

RNG = np.random.default_rng(20)
WORDS = RNG.integers(0, 2**32, 128, dtype=np.uint32)
BYTES = RNG.integers(0, 256, 512, dtype=np.uint8)
SINGLES = (RNG.standard_normal(512) * 10.0 ** RNG.integers(-6, 6, 512)).astype(np.float32)
BF16 = np.dtype(ml_dtypes.bfloat16)


def run(
    text: str, constraints: str, args: Any, dtype: Any, pack: int = 1, native: bool = True
) -> Any:
    return evaluate(
        lambda *a: tl.inline_asm_elementwise(text, constraints, list(a), dtype, True, pack),
        *args,
        native=native,
    )


@pytest.mark.parametrize("native", [False, True])
def test_bytes_share_a_register(native: bool) -> None:
    text = "and.b32 $0, $1, 0x1F1F1F1F; \n shl.b32 $0, $0, 3;"
    got = run(text, "=r,r", [BYTES], tl.int8, 4, native)
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got.view(np.uint8), BYTES << 3)
    got = run(text, "=r,r", [BYTES.reshape(16, 32)], tl.uint8, 4, native)
    np.testing.assert_array_equal(got, BYTES.reshape(16, 32) << 3)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_tensors_may_have_fewer_elements_than_a_run(count: int) -> None:
    x = BYTES[: count or 1] & 0x3F
    given: Any = x if count else Scalar(int(x[0]), "uint8")
    got = run("shl.b32 $0, $1, 1;", "=r,r", [given], tl.uint8, 4)
    np.testing.assert_array_equal(got, x << 1 if count else x[0] << 1)


def test_several_results_of_other_widths() -> None:
    text = """
    {   // bytes become words
        .reg .b8 part<4>;
        mov.b32 {part0, part1, part2, part3}, $8;
        cvt.u32.u8 $0, part0; cvt.u32.u8 $1, part1;
        cvt.u32.u8 $2, part2; cvt.u32.u8 $3, part3;
    }
    cvt.rn.f32.s32 $4, $0; cvt.rn.f32.s32 $5, $1; cvt.rn.f32.s32 $6, $2; cvt.rn.f32.s32 $7, $3;
    max.f32 $4, $4, $9; max.f32 $5, $5, $10; max.f32 $6, $6, $11; max.f32 $7, $7, $12;
    """
    constraints = "=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r"
    whole, largest = run(text, constraints, [BYTES, SINGLES], (tl.int32, tl.float32), 4)
    np.testing.assert_array_equal(whole, BYTES)
    np.testing.assert_array_equal(largest, np.maximum(BYTES.astype(np.float32), SINGLES))


def test_vectors_of_registers() -> None:
    text = """
    {
        .reg .v4 .b32 %v, %w;
        mov.v4.b32 %v, 5;
        mov.b64 {%v.x, %v.y}, $2;
        add.u32 %v.x, %v.x, %v.z;
        mov.v4.b32 %w, %v;
        mov.b64 $0, {%w.x, %w.g};
        mov.b64 $1, {%w.z, %w.w};
    }
    """
    wide = RNG.integers(0, 2**64, 64, dtype=np.uint64)
    got, rest = run(text, "=l,=l,l", [wide], (tl.uint64, tl.uint64))
    low = (wide & np.uint64(0xFFFFFFFF)) + np.uint64(5) & np.uint64(0xFFFFFFFF)
    np.testing.assert_array_equal(got, wide >> np.uint64(32) << np.uint64(32) | low)
    np.testing.assert_array_equal(rest, np.full(64, (5 << 32) + 5, np.uint64))


@pytest.mark.parametrize(
    "move", ["mov.v4.b32 %v, {$1, $1}", "mov.v2.b32 %v, 0", "mov.v4.b32 $0, 0"]
)
def test_vectors_that_do_not_fit_are_refused(move: str) -> None:
    text = f".reg .v4 .b32 %v; {move}; mov.b32 $0, %v.x;"
    with pytest.raises(NotImplementedError, match=r"(source|destination).*instruction 'mov.v"):
        run(text, "=r,r", [WORDS], tl.uint32)


def test_operands_are_broadcast_and_inputs_may_be_tied() -> None:
    got = run("add.u32 $0, $0, $2;", "=r,0,r", [WORDS, 7], tl.uint32)
    np.testing.assert_array_equal(got, WORDS + np.uint32(7))
    x, y = WORDS[:8].reshape(8, 1), WORDS[8:16].reshape(1, 8)
    np.testing.assert_array_equal(run("xor.b32 $0,$1,$2;", "=r,r,r", [x, y], tl.uint32), x ^ y)


def test_memory_behind_pointers() -> None:
    source, target = BYTES[:256].copy(), np.zeros(256, np.uint8)
    text = "ld.global.b8 $0, [$1]; shl.b32 $0, $0, 3; st.global.b8 [$2], $0;"

    def body(p: Any, q: Any) -> Any:
        at = tl.arange(0, 256)
        return tl.inline_asm_elementwise(text, "=r,l,l", [p + at, q + at], tl.int8, False, 1)

    evaluate(body, Pointer(source), Pointer(target), native=True)
    np.testing.assert_array_equal(target, source << 3)


@pytest.mark.parametrize("native", [False, True])
def test_a_loop_repeats_until_every_element_has_left_it(native: bool) -> None:
    text = """
    {
        .reg .u32   %left<1>;
        .reg .pred  %p<1>;
        mov.u32 %left0, $1;
        mov.u32 $0, 0;
        again:
            add.u32 $0, $0, %left0;
            sub.u32 %left0, %left0, 1;
            setp.ne.u32 %p0, %left0, 0;
            @%p0 bra again;
        end:
    }"""
    x = np.arange(1, 33, dtype=np.int32)
    got = run(text, "=r,r", [x], tl.int32, native=native)
    np.testing.assert_array_equal(got, x * (x + 1) // 2)
    assert run(text, "=r,r", [Scalar(10, "int32")], tl.int32, native=native) == 55


@pytest.mark.parametrize("native", [False, True])
def test_a_signal_is_sent_by_compare_and_swap(native: bool) -> None:
    text = """
    {
        .reg .u32   %before<1>;
        .reg .pred  %p<1>;
        send:
            atom.global.release.sys.cas.b32 %before0, [$1], 0, 1;
            setp.eq.u32 %p0, %before0, 0;
            @!%p0 bra send;
    }"""
    flags = np.zeros(8, np.int32)

    def body(p: Any) -> Any:
        at = p + tl.arange(0, 8)
        return tl.inline_asm_elementwise(text, "=r,l", [at], tl.int32, False, 1)

    evaluate(body, Pointer(flags), native=native)
    assert (flags == 1).all()


def test_branches_forward_skip_where_they_are_taken() -> None:
    text = "{.reg .pred p; mov.b32 $0, $1; setp.lt.s32 p, $1, 0; @p bra done; add.s32 $0, $0, 5; done: }"
    x = WORDS.view(np.int32)
    with np.errstate(over="ignore"):
        wanted = np.where(x < 0, x, x + np.int32(5))
    np.testing.assert_array_equal(run(text, "=r,r", [x], tl.int32), wanted)


# ---- texts that kernels in the field have


def test_a_byte_of_two_fp4_becomes_two_fp16() -> None:
    text = """{ .reg .b8 in_8; .reg .f16x2 out;
        cvt.u8.u32 in_8, $1; cvt.rn.f16x2.e2m1x2 out, in_8; mov.b32 $0, out; }"""
    got = run(text, "=r,r", [BYTES], tl.uint32)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float16)
    for shift, place in ((0, 0), (16, 4)):
        nibble = BYTES >> place & 15
        wanted = np.where(nibble & 8, -table[nibble & 7], table[nibble & 7]).astype(np.float16)
        half = (got >> np.uint32(shift) & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16)
        np.testing.assert_array_equal(half, wanted)


def test_pairs_of_fp32_become_fp4() -> None:
    text = """{ .reg .b8 r; cvt.rn.satfinite.e2m1x2.f32 r, $1, $2; mov.b32 $0, {r, r, r, r}; }"""
    x = np.concatenate([np.linspace(-8, 8, 510), [0.25, 2.5]]).astype(np.float32)
    got = run(text, "=r,f,f", [x[::-1].copy(), x], tl.uint8)
    wanted = x.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
    np.testing.assert_array_equal(got & 15, wanted)
    np.testing.assert_array_equal(got >> 4, wanted[::-1])


def test_fp4_is_packed_four_bytes_a_register() -> None:
    text = """{ .reg .b8 byte0, byte1, byte2, byte3;
        cvt.rn.satfinite.e2m1x2.f32 byte0, $5, $1; cvt.rn.satfinite.e2m1x2.f32 byte1, $6, $2;
        cvt.rn.satfinite.e2m1x2.f32 byte2, $7, $3; cvt.rn.satfinite.e2m1x2.f32 byte3, $8, $4;
        mov.b32 $0, {byte0, byte1, byte2, byte3}; }"""
    low, high = SINGLES, SINGLES[::-1].copy()
    got = run(text, "=r,r,r,r,r,r,r,r,r", [low, high], tl.uint8, 4)
    codes = [
        np.clip(v, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15 for v in (low, high)
    ]
    np.testing.assert_array_equal(got, codes[0] | codes[1] << 4)


def test_planes_of_bytes_are_interleaved() -> None:
    text = "prmt.b32 $0, $2, $3, 0x5140; prmt.b32 $1, $2, $3, 0x7362;"
    low, high = BYTES[:256], BYTES[256:]
    got = run(text, "=r,=r,r,r", [low, high], tl.uint16, 4)
    np.testing.assert_array_equal(got, low.astype(np.uint16) | high.astype(np.uint16) << 8)


def test_scales_of_one_byte_become_bf16() -> None:
    text = """{ prmt.b32 $0, $2, 0, 0x5140; shl.b32 $0, $0, 7;
                prmt.b32 $1, $2, 0, 0x7362; shl.b32 $1, $1, 7; }"""
    scale = np.arange(1, 129, dtype=np.uint8)
    got = run(text, "=r,=r,r", [scale], tl.bfloat16, 4)
    np.testing.assert_array_equal(got.astype(np.float64), 2.0 ** (scale.astype(np.float64) - 127))


@pytest.mark.parametrize(
    "text", ["mul.bf16x2 $0, $1, $2;", "{.reg .b32 z; mov.b32 z, 0; fma.rn.bf16x2 $0, $1, $2, z;}"]
)
def test_pairs_of_bf16_are_multiplied(text: str) -> None:
    x, y = SINGLES.astype(BF16), SINGLES[::-1].astype(BF16)
    got = run(text, "=r,r,r", [x, np.ascontiguousarray(y)], tl.bfloat16, 2)
    wanted = (x.astype(np.float32) * y.astype(np.float32)).astype(BF16)
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ["add", "sub", "mul.rn", "fma.rn.ftz"])
def test_pairs_of_fp32_share_a_register(name: str, native: bool) -> None:
    operation = name.split(".", maxsplit=1)[0]
    text = f"""{{ .reg .b64 x, y, z, r;
        mov.b64 x, {{$2, $3}}; mov.b64 y, {{$4, $5}}; mov.b64 z, {{$6, $7}};
        {name}.f32x2 r, x, y{", z" if operation == "fma" else ""}; mov.b64 {{$0, $1}}, r; }}"""
    x, y, z = SINGLES[:128], SINGLES[128:256], SINGLES[256:384]
    got = run(text, "=r,=r,r,r,r,r,r,r", [x, y, z], tl.float32, 2, native)
    exact = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "fma": (x.astype(np.float64) * y + z).astype(np.float32),
    }
    np.testing.assert_array_equal(got, exact[operation])


def test_smaller_size_with_the_product_of_the_signs() -> None:
    x, y = SINGLES.copy(), SINGLES[::-1].copy()
    x[0] = np.nan
    for name, choose in (("min", np.minimum), ("max", np.maximum)):
        got = run(f"{{ {name}.NaN.xorsign.abs.f32 $0, $1, $2; }}", "=r,r,r", [x, y], tl.float32)
        np.testing.assert_array_equal(got, choose(np.abs(x), np.abs(y)) * np.sign(x) * np.sign(y))


def test_tf32_keeps_ten_bits() -> None:
    for mode in ("rn", "rna", "rz"):
        got = run(f"cvt.{mode}.tf32.f32 $0, $1;", "=r, r", [SINGLES], tl.float32)
        assert not (got.view(np.uint32) & 0x1FFF).any()
        bound = 2.0**-10 if mode == "rz" else 2.0**-11
        np.testing.assert_allclose(got, SINGLES, rtol=bound)
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, np.inf, np.nan], np.float32)
    even = run("cvt.rn.tf32.f32 $0, $1;", "=r,r", [ties], tl.float32)
    np.testing.assert_array_equal(even, [1, 1 + 2.0**-9, np.inf, np.nan])
    away = run("cvt.rna.tf32.f32 $0, $1;", "=r,r", [ties], tl.float32)
    np.testing.assert_array_equal(away, [1 + 2.0**-10, 1 + 2.0**-9, np.inf, np.nan])


def test_threads_and_fences() -> None:
    text = "mov.u32 $0, 0x0; fence.sc.sys;"
    assert evaluate(lambda: tl.inline_asm_elementwise(text, "=r", (), (tl.int32,), False, 1)) == 0
    for name, wanted in (("%tid.x", 0), ("%ntid.x", 1), ("%cluster_ctarank", 0), ("%nctaid.y", 1)):
        text = f"mov.u32 $0, {name};"
        assert run(text, "=r", [], tl.int32) == wanted


def test_what_does_not_fit_is_named() -> None:
    x = value("int32", (8,))

    def asm(text: str, constraints: Any = "=r,r", dtype: Any = tl.int32, pack: Any = 1) -> None:
        emit(lambda t: tl.inline_asm_elementwise(text, constraints, [t], dtype, True, pack), x)

    for text, error in (
        ("wgmma.fence.sync.aligned;", "'wgmma' of the instruction 'wgmma.fence.sync.aligned'"),
        ("add.cc.u32 $0, $1, $1;", "the carry of the instruction"),
        ("mov.u64 $0, %globaltimer;", "special register %globaltimer"),
        ("add.u32 $0, $1, nowhere;", "register 'nowhere', which is not declared"),
        ("add.u32 $0, $1;", "the number of operands"),
        ("add $0, $1, $1;", "the type of the instruction"),
        ("ld.shared.b32 $0, [$1];", "state space .shared"),
        ("loop: bra loop;", "a loop with several ends or none"),
        ("v_add_u32 $0, $1, $1", "assembly of an AMD GPU"),
    ):
        with pytest.raises(NotImplementedError, match=error):
            asm(text)
    with pytest.raises(ValueError, match="1 outputs for the results int32"):
        asm("mov.b32 $0, $1;", "=r,=r,r")
    with pytest.raises(ValueError, match="constraints must have 1 inputs"):
        asm("mov.b32 $0, $1;", "=r")
    with pytest.raises(ValueError, match="pack must be a power of two, but got 3"):
        asm("mov.b32 $0, $1;", pack=3)
    with pytest.raises(ValueError, match=r"must have the letters .* but got 'q'"):
        asm("mov.b32 $0, $1;", "=q,r")
    with pytest.raises(TypeError, match="dtype must be a dtype"):
        asm("mov.b32 $0, $1;", dtype="int32")
    with pytest.raises(TypeError, match="constraints must be a text"):
        asm("mov.b32 $0, $1;", 3)
