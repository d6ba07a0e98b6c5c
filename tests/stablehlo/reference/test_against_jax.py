"""The reference computes what XLA computes of programs that JAX writes."""

from __future__ import annotations

import numpy as np
import pytest
from variants import thorough

import emu.sdy
from emu.stablehlo.reference import evaluate

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32")


def values(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Return numbers of several magnitudes; integers over the whole range, with its ends."""
    rng = np.random.default_rng(seed)
    kind = jnp.dtype(dtype)
    if kind == bool:
        return rng.random(shape) < 0.5
    if jnp.issubdtype(kind, jnp.integer):
        info = jnp.iinfo(kind)
        found = rng.integers(info.min, info.max, shape, endpoint=True)
        return np.where(rng.random(shape) < 0.3, rng.integers(0, 4, shape), found).astype(kind)
    found = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 2, shape)
    if jnp.issubdtype(kind, jnp.complexfloating):
        found = found + 1j * rng.normal(size=shape)
    return found.astype(kind)


def check(function, *arguments, ulps: float = 4.0) -> None:
    """Compare the reference with what XLA compiles of a function."""
    lowered = jax.jit(function).lower(*arguments)
    found = evaluate(emu.sdy.parse(lowered.as_text()), *map(np.asarray, arguments))
    expected = jax.tree.leaves(lowered.compile()(*arguments))
    assert len(found) == len(expected)
    for got, wanted in zip(found, map(np.asarray, expected), strict=True):
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        if jnp.issubdtype(got.dtype, jnp.inexact):
            wide = np.complex128 if jnp.issubdtype(got.dtype, jnp.complexfloating) else np.float64
            a, b = got.astype(wide), wanted.astype(wide)
            eps = float(jnp.finfo(got.dtype).eps)
            scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            np.testing.assert_allclose(a, b, rtol=ulps * eps, atol=ulps * eps * scale)
        else:
            np.testing.assert_array_equal(got, wanted)


UNARY = {
    **dict.fromkeys(("ceil", "cos", "exp", "exp2", "expm1", "floor", "is_finite", "log1p"), FLOATS),
    **dict.fromkeys(("cbrt", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh", "erf", "erfc"), FLOATS),
    **dict.fromkeys(("lgamma", "digamma", "asinh", "atan", "sinh", "cosh", "square"), FLOATS),
    **dict.fromkeys(("abs", "neg", "sign", "bitwise_not", "population_count", "clz"), (*FLOATS, *INTEGERS)),
}  # fmt: skip
SIGNED = ("abs", "neg", "sign")
ONLY_INTEGERS = ("bitwise_not", "population_count", "clz")


@pytest.mark.parametrize("name", thorough(list(UNARY), *list(UNARY)[::2]))
def test_functions_of_one_array(name: str) -> None:
    for seed, dtype in enumerate(UNARY[name]):
        if (dtype in FLOATS and name in ONLY_INTEGERS) or (name in SIGNED and "uint" in dtype):
            continue
        x = values((3, 17), dtype, seed)
        if name in ("log1p", "sqrt", "rsqrt", "lgamma", "digamma"):
            x = np.abs(x)
        if name in ("sinh", "cosh", "exp", "exp2", "expm1"):
            x = (x / 8).astype(x.dtype)
        check(getattr(lax, name), x, ulps=64 if name in ("lgamma", "digamma") else 8)


BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "max", "min", "div", "rem"), (*FLOATS, *INTEGERS)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left"), INTEGERS),
    **dict.fromkeys(("shift_right_arithmetic", "shift_right_logical"), INTEGERS),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (*FLOATS, *INTEGERS, "bool")),
    "atan2": FLOATS,
    "nextafter": ("float32",),
    "pow": ("float32",),
}


@pytest.mark.parametrize("name", thorough(list(BINARY), *list(BINARY)[::2]))
def test_functions_of_two_arrays(name: str) -> None:
    for seed, dtype in enumerate(BINARY[name]):
        x, y = values((3, 40), dtype, seed), values((3, 40), dtype, seed + 100)
        if name.startswith("shift"):
            y = (y % 40).astype(y.dtype)
        if name == "pow":
            x = np.abs(x)
        check(getattr(lax, name), x, y, ulps=8)


def test_division_of_integers_by_zero_and_of_the_smallest_by_minus_one() -> None:
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        numbers = np.array([info.min, info.max, 0, 1, 7, info.min + 1], dtype)
        x, y = (
            a.reshape(-1) for a in np.meshgrid(numbers, np.array([0, 1, info.max, info.min], dtype))
        )
        if info.min < 0:
            y = np.where(y == 1, -1, y).astype(dtype)
        check(lax.div, x, y)
        check(lax.rem, x, y)


def test_nan_infinity_and_signed_zeros() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], np.float32)
    a, b = (each.reshape(-1) for each in np.meshgrid(x, x))
    for function in (lax.max, lax.min, lax.add, lax.mul, lax.div, lax.rem, lax.eq, lax.lt):
        check(function, a, b)
    for function in (lax.sign, lax.abs, lax.round, lax.floor, lax.is_finite):
        check(function, x)
    check(lambda v: lax.sort(v), x)


@pytest.mark.parametrize(
    "source",
    thorough(
        [*FLOATS, *INTEGERS, "bool", "complex64", "float8_e4m3fn"], "float32", "int32", "bool"
    ),
)
def test_conversion(source: str) -> None:
    x = values((50,), source, 1)
    if source in FLOATS:
        x[:6] = np.array([np.nan, np.inf, -np.inf, 3e4, -3e4, 0.49], x.dtype)
    for target in (*FLOATS, *INTEGERS, "bool", "float8_e4m3fn", "complex64"):
        if source == "complex64" and target != "complex64":
            continue
        check(lambda v, target=target: lax.convert_element_type(v, target), x, ulps=2)


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("float32", "int32", (5,)),
        ("float32", "uint8", (5,)),
        ("uint16", "uint32", (3, 2)),
        ("bfloat16", "int16", (2, 2)),
    ],
)
def test_bits_as_another_type(source: str, target: str, shape: tuple[int, ...]) -> None:
    check(lambda v: lax.bitcast_convert_type(v, target), values(shape, source, 3))


@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 7), (5, 10), (4, 3), (8, 23), (2, 1)])
def test_reduced_precision(exponent: int, mantissa: int) -> None:
    x = np.concatenate(
        [values((200,), "float32", 5), [np.inf, -np.inf, np.nan, 65504, 65520, 1e-8]]
    )
    check(lambda v: lax.reduce_precision(v, exponent, mantissa), x.astype(np.float32), ulps=0)


MOVES = {
    "transpose": lambda x: jnp.transpose(x, (2, 0, 1)),
    "reverse": lambda x: lax.rev(x, (0, 2)),
    "pad": lambda x: lax.pad(x, jnp.float32(7), [(1, 2, 1), (-1, -1, 0), (0, -2, 2)]),
    "slice": lambda x: x[1:, ::2, 1:-1],
    "concatenate": lambda x: jnp.concatenate([x, x[:, :2]], 1),
    "broadcast": lambda x: lax.broadcast_in_dim(x[0, 0], (3, 5, 2), (1,)),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (2, 9, -1), (2, 2, 3)),
    "dynamic update": lambda x: lax.dynamic_update_slice(x, x[:1, :2] * 2, (7, 1, 0)),
    "iota": lambda x: x + lax.broadcasted_iota(jnp.float32, x.shape, 1),
    "roll": lambda x: jnp.roll(x, 2, 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_moving_elements(name: str) -> None:
    check(MOVES[name], values((3, 4, 5), "float32", 2), ulps=0)


REDUCTIONS = {
    "sum": lambda x: x.sum((0, 2)),
    "max": lambda x: x.max(1),
    "prod": lambda x: x.prod(0),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(2),
    "any": lambda x: (x > 1).any(1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, 2),
    "max pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 3), (1, 2, 1), "SAME"),
    "dilated window": lambda x: lax.reduce_window(
        x, 0.0, lax.add, (1, 2, 2), (1, 1, 2), ((0, 0), (1, 0), (2, 1)), (1, 2, 1), (1, 1, 2)
    ),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "cumprod": lambda x: jnp.cumprod(x, 2),
    "gradient of a max pool": jax.grad(
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID") ** 2
        ).sum()
    ),
    "sort": lambda x: lax.sort(x, dimension=1),
    "sort of keys and values": lambda x: lax.sort((jnp.round(x), x, -x), dimension=2, num_keys=1),
    "argsort": lambda x: jnp.argsort(x, 2),
    "top_k": lambda x: lax.top_k(x, 3),
    "own reduction": lambda x: lax.reduce(
        x, jnp.float32(-jnp.inf), lambda a, b: jnp.where(a > b, a, b + 0.0), (1,)
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_and_sorts(name: str) -> None:
    x = values((3, 4, 6), "float32", 4)
    check(REDUCTIONS[name], x, ulps=16)


PRODUCTS = {
    "batched": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)),
    "transposed": (lambda a, b: jnp.einsum("ij,kj->ki", a, b), (3, 4), (5, 4)),
    "two contracted": (lambda a, b: jnp.einsum("ijk,kjl->li", a, b), (3, 4, 2), (2, 4, 5)),
    "outer": (lambda a, b: jnp.einsum("i,j->ij", a, b), (3,), (4,)),
    "convolution": (
        lambda a, b: lax.conv_general_dilated(a, b, (2, 1), "SAME", rhs_dilation=(1, 2)),
        (2, 3, 7, 8),
        (4, 3, 3, 2),
    ),
    "grouped convolution": (
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), ((1, 1), (0, 2)), feature_group_count=3),
        (2, 3, 5, 5),
        (6, 1, 3, 3),
    ),
    "transposed convolution": (
        lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (1, 4, 4, 3),
        (3, 3, 3, 2),
    ),
    "gradient of a convolution": (
        jax.grad(lambda b, a: (lax.conv(a, b, (1, 1), "VALID") ** 2).sum()),
        (4, 3, 2, 2),
        (2, 3, 5, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    function, left, right = PRODUCTS[name]
    for dtype in ("float32", "bfloat16", "int32", "complex64"):
        if "onvolution" in name and dtype not in ("float32",):
            continue
        a, b = values(left, dtype, 1), values(right, dtype, 2)
        check(function, a, b, ulps=32)


INDEXING = {
    "take": lambda x, i: x[i],
    "take of columns": lambda x, i: x[:, i],
    "out of range": lambda x, i: x.at[i + 3].get(mode="clip"),
    "fill": lambda x, i: x.at[i + 3].get(mode="fill", fill_value=-1),
    "along": lambda x, i: jnp.take_along_axis(x, i[:, None] % 5, 1),
    "scatter": lambda x, i: x.at[i].set(9.0),
    "scatter add": lambda x, i: x.at[i].add(x[:3]),
    "scatter max": lambda x, i: x.at[:, i].max(1.0),
    "scatter outside": lambda x, i: x.at[i + 4].add(1.0),
    "scatter multiply": lambda x, i: x.at[i, i].multiply(2.0),
    "gradient": jax.grad(lambda x, i: (x[i, :] ** 2).sum()),
    "batched": jax.vmap(lambda row, j: row[j], (0, None)),
    "segment sum": lambda x, i: jax.ops.segment_sum(x[:3], i, 3),
}


@pytest.mark.parametrize("name", INDEXING)
def test_gathers_and_scatters(name: str) -> None:
    x, i = values((5, 5), "float32", 6), np.array([0, 2, 2], np.int32)
    if name == "along":
        i = np.array([0, 4, 1, 3, 2], np.int32)
    check(INDEXING[name], x, i)


def scanned(x):
    return lax.scan(lambda c, a: (c * 0.5 + a.sum(), jnp.sin(a) + c), 0.0, x)


CONTROL = {
    "scan": scanned,
    "while": lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, x)),
    "fori": lambda x: lax.fori_loop(0, 4, lambda i, s: s.at[i].add(i), x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "switch": lambda x: lax.switch(jnp.int32(7), [jnp.sin, jnp.cos, jnp.tan], x),
    "gradient of a scan": jax.grad(lambda x: scanned(x)[1].sum()),
    "jit in jit": lambda x: jax.jit(jnp.sin)(x) + jax.jit(jax.nn.relu)(x),
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "gelu": jax.nn.gelu,
    "layer norm": lambda x: (
        (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    ),
    "associative scan": lambda x: lax.associative_scan(jnp.add, x),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow_and_functions(name: str) -> None:
    check(CONTROL[name], values((5, 6), "float32", 8), ulps=32)


def rarely(*shapes: tuple[int, ...]) -> list[object]:
    """Return shapes as parameters of thorough tests."""
    return [pytest.param(shape, marks=pytest.mark.slow) for shape in shapes]


@pytest.mark.parametrize(
    "implementation", thorough(["threefry2x32", "rbg", "unsafe_rbg"], "threefry2x32", "rbg")
)
@pytest.mark.parametrize("shape", [(7,), *rarely((), (1,), (4, 3), (3, 5), (2, 3, 4))])
def test_random_bits_are_those_of_xla(implementation: str, shape: tuple[int, ...]) -> None:
    def draw(seed):
        key = jax.random.key(seed, impl=implementation)
        first, second = jax.random.split(key)
        return (
            jax.random.bits(first, shape, "uint32"),
            jax.random.bits(second, shape, "uint8"),
            jax.random.normal(jax.random.fold_in(key, 3), shape),
            jax.random.permutation(key, 9),
        )

    check(draw, np.uint32(11), ulps=8)


@pytest.mark.parametrize("algorithm", [1, 2])
@pytest.mark.parametrize("dtype", ["uint32", "uint64", *thorough(["uint16"])])
@pytest.mark.parametrize("shape", [(5,), (3, 4), *rarely((), (1,), (6,), (3, 5))])
def test_bit_generators(algorithm: int, dtype: str, shape: tuple[int, ...]) -> None:
    with jax.enable_x64(True):
        state = np.array([0x9E3779B97F4A7C15, 2**64 - 2], np.uint64)  # the counter carries
        kind = (lax.RandomAlgorithm.RNG_THREE_FRY, lax.RandomAlgorithm.RNG_PHILOX)[algorithm - 1]
        check(lambda s: lax.rng_bit_generator(s, shape, dtype, algorithm=kind), state)


def test_fourier_transforms() -> None:
    a = values((2, 4, 4), "float32", 3)
    check(lambda x: jnp.fft.fft2(x), a, ulps=64)
    check(lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), a, ulps=64)
