"""Tensor descriptors: loads, stores, gathers, scatters and atomic operations against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language_harness import DTYPES, Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl
from emu import triton
from emu.triton.language import descriptors
from emu.triton.language.types import str_to_ty

Array = np.ndarray[Any, Any]
NUMBERS = [name for name in DTYPES if name != "int1"]
BACKENDS = ("cpu", "reference")


def _filled(shape: Any, dtype: np.dtype[Any]) -> Array:
    """Return numbers that every dtype holds; floats begin with NaN, infinities and a negative zero."""
    numbers = (np.arange(int(np.prod(shape))) * 7 % 61).astype(np.float32)
    found = numbers.astype(dtype).reshape(shape)
    if np.issubdtype(dtype, np.floating) and found.size > 4:
        found.flat[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return found


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def _assert_same(found: Array, wanted: Array) -> None:
    """Compare bits, but any NaN equals any other."""
    nan = np.isnan(wanted.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), nan)
    np.testing.assert_array_equal(_bits(found)[~nan], _bits(wanted)[~nan])


def _block(x: Array, starts: Any, shape: Any, padding: Any = 0) -> Array:
    """Return what a load of a block must give, element by element."""
    found = np.full(shape, padding, x.dtype)
    for place in np.ndindex(*shape):
        at = tuple(int(s) + int(p) for s, p in zip(starts, place, strict=True))
        if all(0 <= a < n for a, n in zip(at, x.shape, strict=True)):
            found[place] = x[at]
    return found


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int]:
    rank = draw(st.integers(1, 5))
    small = st.sampled_from([1, 2, 4])
    block = [draw(small) for _ in range(rank - 1)] + [draw(st.sampled_from([16, 32, 64]))]
    shape = [draw(st.integers(1, 7)) for _ in range(rank - 1)] + [draw(st.integers(1, 90))]
    far = st.sampled_from([-(2**31), 2**31 - 1])
    starts = [draw(st.integers(-6, 8) | far) for _ in range(rank - 1)]
    return block, shape, [*starts, draw(st.integers(-70, 95) | far)], draw(st.integers(0, 9))


@settings(deadline=None, max_examples=50)
@given(_cases(), st.sampled_from(NUMBERS), st.booleans())
def test_a_block_is_loaded_and_stored_wherever_it_begins(
    case: tuple[list[int], list[int], list[int], int], name: str, native: bool
) -> None:
    block, shape, starts, gap = case
    # Rows are longer than the tensor's, so that an element outside of it is another one in memory.
    memory = _filled((*shape[:-1], shape[-1] + gap), DTYPES[name])
    x = memory[..., : shape[-1]]
    before, target = memory.copy(), _filled(memory.shape, DTYPES[name])
    wanted_target, rank = target.copy(), len(block)
    strides = [s // x.itemsize for s in x.strides]

    def work(p: Any, q: Any, *numbers: Any) -> Any:
        extents, steps, offsets = (numbers[i * rank : (i + 1) * rank] for i in range(3))
        steps = [*steps[:-1], 1]
        padding = "nan" if p.dtype.element_ty.is_floating() else "zero"
        source = tl.make_tensor_descriptor(p, extents, steps, block, padding_option=padding)
        to = tl.make_tensor_descriptor(q, extents, steps, block)
        found = source.load(offsets)
        to.store(offsets, found)
        return found

    scalars = [Scalar(n, "int32") for n in shape]
    scalars += [Scalar(n, "int64") for n in strides] + [Scalar(n, "int32") for n in starts]
    found = evaluate(work, Pointer(memory), Pointer(target), *scalars, native=native)
    padding = np.nan if tl.dtype(name).is_floating() else 0
    _assert_same(found, _block(x, starts, block, padding))
    np.testing.assert_array_equal(_bits(memory), _bits(before))
    inside = wanted_target[..., : shape[-1]]
    for place in np.ndindex(*block):
        at = tuple(s + p for s, p in zip(starts, place, strict=True))
        if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
            inside[at] = x[at]
    _assert_same(target, wanted_target)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("index", ["int16", "int32"])
def test_rows_are_gathered_and_scattered(index: str, native: bool) -> None:
    x, target = _filled((9, 40), DTYPES["fp32"]), np.zeros((9, 40), np.float32)
    rows = np.array([3, 0, 8, -1, 9, 3, 5, 100], DTYPES[index])

    def work(p: Any, q: Any, at: Any, column: Any) -> Any:
        source = tl.make_tensor_descriptor(p, [9, 40], [40, 1], [1, 16], padding_option="nan")
        to = tl.make_tensor_descriptor(q, [9, 40], [40, 1], [1, 16])
        found = source.gather(at, column)
        to.scatter(found, at, column)
        return found

    for column in (0, 8, 30, -4, 40):
        target[:] = 7
        at = Scalar(column, "int32")
        found = evaluate(work, Pointer(x), Pointer(target), rows, at, native=native)
        wanted, stored = np.full((8, 16), np.nan, np.float32), np.full((9, 40), 7, np.float32)
        for i, row in enumerate(rows.astype(int)):
            for j in range(16):
                if 0 <= row < 9 and 0 <= column + j < 40:
                    wanted[i, j] = stored[row, column + j] = x[row, column + j]
        _assert_same(found, wanted)
        _assert_same(target, stored)


OPERATIONS = {
    "atomic_add": np.add,
    "atomic_min": np.minimum,
    "atomic_max": np.maximum,
    "atomic_and": np.bitwise_and,
    "atomic_or": np.bitwise_or,
    "atomic_xor": np.bitwise_xor,
}
ADDED = ("uint32", "int32", "uint64", "fp32", "fp16", "bf16")
ORDERED = ("uint32", "int32", "uint64", "int64")
PAIRS = [(n, d) for n in OPERATIONS for d in (ADDED if n == "atomic_add" else ORDERED)]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("operation", "name"), PAIRS)
def test_atomic_operations_change_what_is_inside(operation: str, name: str, native: bool) -> None:
    dtype = DTYPES[name]
    x = (np.arange(6 * 20) % 13 + 1).astype(dtype).reshape(6, 20)
    add = (np.arange(4 * 16) % 11).astype(dtype).reshape(4, 16)
    wanted = x.copy()
    combine: Any = OPERATIONS[operation]
    wanted[3:6, 8:20] = combine(wanted[3:6, 8:20], add[:3, :12]).astype(dtype)

    def work(p: Any, v: Any) -> None:
        to = tl.make_tensor_descriptor(p, [6, 20], [20, 1], [4, 16])
        assert getattr(to, operation)([3, 8], v).type.is_void()

    evaluate(work, Pointer(x), add, native=native)
    np.testing.assert_array_equal(_bits(x), _bits(wanted))


def test_loads_round_to_tf32() -> None:
    bits = np.array(
        [0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001, 0x7F800001, 0x7F800000, 0xBF801001, 1]
    )
    x = np.resize(bits.astype(np.uint32).view(np.float32), (1, 16))
    kind = descriptors.parse("tensordesc<fp32[1, 16],tf32>")

    def work(p: Any) -> Any:
        steps = [tl.full((), n, tl.int64) for n in (16, 1)]
        made = kind.make([p, *(tl.full((), n, tl.int32) for n in (1, 16)), *steps])
        return made.load([0, 0])

    wanted = [0x3F800000, 0x3F804000, 0x3F800000, 0x3F802000, 0x7F800001, 0x7F800000, 0xBF802000, 0]
    np.testing.assert_array_equal(_bits(evaluate(work, Pointer(x)))[0, :8], wanted)


# ---- in kernels


@triton.jit
def _make(pointer, m, n, B: tl.constexpr, C: tl.constexpr):
    return tl.make_tensor_descriptor(pointer, [m, n], [n, 1], [B, C])


@triton.jit
def _negate(source, to, at):
    tl.static_assert(isinstance(source, tl.tensor_descriptor))
    value = tl.load_tensor_descriptor(source, at)
    tl.store_tensor_descriptor(to, at, -value)
    return source, to


@triton.jit
def _passed(x_ptr, y_ptr, m, n, B: tl.constexpr, C: tl.constexpr):
    pair = (_make(x_ptr, m, n, B, C), _make(y_ptr, m, n, B, C))
    again = _negate(pair[0], pair[1], [tl.program_id(0) * B, tl.program_id(1) * C])
    tl.static_assert(again[1].block_shape == [B, C])
    tl.static_assert(again[0].dtype == tl.float32)
    tl.static_assert(again[0].block_type == tl.block_type(tl.float32, [B, C]))
    tl.device_assert(again[1].shape[1] == n)
    tl.device_assert((again[1].strides[0] == n) & (again[1].strides[1] == 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_take_and_return_descriptors(backend: str) -> None:
    x, y = np.arange(20 * 50, dtype=np.float32).reshape(20, 50), np.zeros((20, 50), np.float32)
    _passed[(3, 2)](x, y, 20, 50, 8, 32, debug=True, backend=backend)
    np.testing.assert_array_equal(y, -x)


@triton.jit
def _carried(x_ptr, y_ptr, m, n, count, B: tl.constexpr, C: tl.constexpr):
    source, to = _make(x_ptr, m, n, B, C), _make(y_ptr, m, n, B, C)
    for i in range(count):
        if i == count // 2:
            source = _make(x_ptr + m * n, m, n, B, C)
        to.store([0, i * C], source.load([0, i * C]))
    i = 0
    while i < count:
        kept = source if i % 2 == 0 else to
        to.atomic_add([0, i * C], kept.load([0, i * C]))
        source, to = to, source
        i += 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_and_branches_carry_descriptors(backend: str) -> None:
    x = np.arange(2 * 4 * 70, dtype=np.float32).reshape(2, 4, 70)
    y = np.zeros((4, 70), np.float32)
    wanted = np.concatenate([x[0, :, :32], x[1, :, 32:]], axis=1)
    wanted[:, :32] += x[1, :, :32]
    wanted[:, 64:] += x[1, :, 64:]
    doubled = x.copy()
    doubled[1, :, 32:64] *= 2
    _carried[(1,)](x, y, 4, 70, 3, 4, 32, backend=backend)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(x, doubled)


@triton.jit
def _mixed(x_ptr, y_ptr, n, B: tl.constexpr):
    made = tl.make_tensor_descriptor(x_ptr, [n], [1], [B])
    if n > 3:
        made = tl.make_tensor_descriptor(x_ptr, [n], [1], [2 * B], padding_option="nan")
    tl.store(y_ptr + tl.arange(0, B), made.load([0]))


def test_one_variable_cannot_hold_descriptors_of_different_types() -> None:
    with pytest.raises(triton.CompilationError, match="padding=nan"):
        _mixed[(1,)](np.zeros(16, np.float32), np.zeros(16, np.float32), 16, 16)


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total)


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (37, 29, 51), (5, 70, 1)])
def test_a_product_by_descriptors(m: int, n: int, k: int) -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    b = random.standard_normal((n, k)).astype(ml_dtypes.bfloat16)
    c = np.full((m, n), np.nan, np.float32)
    _product[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, 16, 16, 16)
    np.testing.assert_allclose(
        c, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-5
    )


# ---- types and errors


def test_types_have_a_spelling() -> None:
    assert descriptors.spelling("fp16", (4, 8), "zero", False) == "tensordesc<fp16[4, 8]>"
    for text in (
        "tensordesc<fp16[4, 8]>",
        "tensordesc<bf16[16],nan>",
        "tensordesc<fp32[16],nan,tf32>",
    ):
        kind = str_to_ty(text)
        again = descriptors.parse(text)
        assert isinstance(kind, tl.tensor_descriptor_type)
        assert kind == again
        assert hash(kind) == hash(again)
        spelled = descriptors.spelling(
            kind.block_type.element_ty.name, kind.block_type.shape, kind.padding, kind.rounds
        )
        assert spelled == text
    assert str_to_ty("tensordesc<bf16[16],nan>") != str_to_ty("tensordesc<bf16[16]>")
    assert str(str_to_ty("tensordesc<fp16[4, 8]>")) == "tensor_descriptor<<[4, 8], fp16>>"
    with pytest.raises(ValueError, match="type must be spelled"):
        str_to_ty("tensordesc<fp16>")


def _descriptor(element: str = "fp32", block: Any = (4, 8), padding: str = "zero") -> Any:
    shape = [64] * len(block)
    strides = [64**n for n in reversed(range(len(block)))]
    return tl.make_tensor_descriptor(value(f"*{element}"), shape, strides, block, padding)


MAKING: list[tuple[type[Exception], str, Any]] = [
    (TypeError, "base must be a pointer, but got fp32", (value("fp32"), [16], [1], [16])),
    (TypeError, "base must be a pointer, but got None", (None, [16], [1], [16])),
    (TypeError, "base must be a pointer", (value("*fp32", (4,)), [16], [1], [16])),
    (TypeError, "shape must be a list or tuple, but got 16", (value("*fp32"), 16, [1], [16])),
    (ValueError, "shape must have 1 to 5 extents, but got 0", (value("*fp32"), [], [], [])),
    (ValueError, "1 to 5 extents, but got 6", (value("*fp32"), [4] * 6, [1] * 6, [4] * 6)),
    (ValueError, "strides must have 2 items", (value("*fp32"), [4, 4], [1], [4, 4])),
    (ValueError, "block_shape must have 1 items", (value("*fp32"), [4], [1], [4, 4])),
    (ValueError, "last dim must be 1 but got 2", (value("*fp32"), [16], [2], [16])),
    (
        ValueError,
        "last dim must be 1 but got int32",
        (value("*fp32"), [16], [value("int32")], [16]),
    ),
    (ValueError, "must have at least 16 bytes", (value("*fp32"), [16], [1], [2])),
    (ValueError, "must be a power of 2", (value("*fp32"), [16], [1], [12])),
    (TypeError, r"block_shape\[0\] must be an int", (value("*fp32"), [16], [1], [value("int32")])),
    (TypeError, r"shape\[0\] must be an integer", (value("*fp32"), [1.5], [1], [16])),
    (ValueError, r"shape\[0\] must fit into int32", (value("*fp32"), [2**40], [1], [16])),
    (ValueError, "padding_option must be 'zero' or 'nan'", (value("*fp32"), [4], [1], [4], "one")),
    (ValueError, "not supported for integer blocks", (value("*int32"), [4], [1], [4], "nan")),
]


@pytest.mark.parametrize(("error", "said", "arguments"), MAKING)
def test_a_wrong_descriptor_is_named(error: type[Exception], said: str, arguments: Any) -> None:
    with pytest.raises(error, match=said):
        emit(lambda: tl.make_tensor_descriptor(*arguments))


def test_wrong_accesses_are_named() -> None:
    rows = value("int32", (8,))
    three: Any = 3
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "offsets of load must be 2", lambda: _descriptor().load([0])),
        (TypeError, "offsets of load must be a list", lambda: _descriptor().load(0)),
        (
            TypeError,
            r"offsets\[1\] must be a 32-bit",
            lambda: _descriptor().load([0, value("int64")]),
        ),
        (ValueError, r"offsets\[0\] must fit", lambda: _descriptor().load([2**31, 0])),
        (TypeError, r"offsets\[0\] must be an integer", lambda: _descriptor().load([0.5, 0])),
        (
            ValueError,
            r"value of store must have shape \(4, 8\)",
            lambda: _descriptor().store([0, 0], value("fp32", (8, 4))),
        ),
        (ValueError, "value of store must have shape", lambda: _descriptor().store([0, 0], 1.0)),
        (
            TypeError,
            "atomic_min of a descriptor needs",
            lambda: _descriptor().atomic_min([0, 0], value("fp32", (4, 8))),
        ),
        (
            TypeError,
            "atomic_add of a descriptor needs .* got int16",
            lambda: _descriptor("int16").atomic_add([0, 0], value("int16", (4, 8))),
        ),
        (
            ValueError,
            "gather needs a descriptor with blocks of one row",
            lambda: _descriptor().gather(rows, 0),
        ),
        (
            ValueError,
            "at least 16 columns",
            lambda: _descriptor("fp16", (1, 8)).gather(rows, 0),
        ),
        (
            TypeError,
            "x_offsets of gather must have dtype int16 or int32",
            lambda: _descriptor(block=(1, 8)).gather(value("int64", (8,)), 0),
        ),
        (TypeError, "x_offsets of gather", lambda: _descriptor(block=(1, 8)).gather([0] * 8, 0)),
        (
            ValueError,
            "at least 8 elements",
            lambda: _descriptor(block=(1, 8)).gather(value("int32", (4,)), 0),
        ),
        (
            ValueError,
            r"value of scatter must have shape \(8, 8\)",
            lambda: _descriptor(block=(1, 8)).scatter(value("fp32", (8, 4)), rows, 0),
        ),
        (
            TypeError,
            "desc must be a tensor descriptor",
            lambda: tl.load_tensor_descriptor(three, [0]),
        ),
        (
            TypeError,
            "desc must be a tensor descriptor, but got fp32",
            lambda: tl.store_tensor_descriptor(value("fp32"), [0], 0),
        ),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)


def test_nothing_is_stored_through_a_const_pointer() -> None:
    pointer = tl.tensor(value("*fp32").handle, tl.pointer_type(tl.float32, const=True))

    def store() -> None:
        made = tl.make_tensor_descriptor(pointer, [8], [1], [8])
        made.store([0], value("fp32", (8,)))

    with pytest.raises(TypeError, match="Cannot store to a constant pointer"):
        emit(store)


@triton.jit
def either_padding(x_ptr, out_ptr, n, which, HOW: tl.constexpr):
    zeros = tl.make_tensor_descriptor(x_ptr, [n], [1], [16])
    nans = tl.make_tensor_descriptor(x_ptr, [n], [1], [16], padding_option="nan")
    if HOW == "if":
        if which > 0:  # noqa: SIM108 - the branch is what is tested
            d = nans
        else:
            d = zeros
    elif HOW == "ternary":
        d = zeros if which <= 0 else nans
    elif HOW == "call":
        d = chosen(zeros, nans, which)
    else:
        d = zeros
        if which > 0:
            d = nans
            if which > 1:
                d = zeros
    for _ in range(2):
        tl.store(out_ptr + tl.arange(0, 16), d.load([0]))
        if which > 5:
            d = zeros


@triton.jit
def chosen(zeros, nans, which):
    if which > 0:
        return nans
    return zeros


@pytest.mark.parametrize("how", ["if", "ternary", "call", "nested"])
@pytest.mark.parametrize("options", [{}, {"backend": "reference"}, {"interpret": True}])
def test_a_variable_may_be_a_descriptor_of_either_padding(
    how: str, options: dict[str, Any]
) -> None:
    x = np.arange(1, 17, dtype=np.float32)
    for which in (0, 1):
        out = np.zeros(16, np.float32)
        either_padding[(1,)](x, out, 10, which, how, **options)
        np.testing.assert_array_equal(out[:10], x[:10])
        np.testing.assert_array_equal(out[10:], np.full(6, np.nan if which else 0, np.float32))
