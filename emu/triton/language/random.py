"""Random numbers: Philox counters, uniform and normal floats."""

from __future__ import annotations

from emu.kernels.core.messages import shown
from emu.triton.language.arithmetic import maximum, mul, where
from emu.triton.language.constants import ConstexprLike, constexpr, unwrap
from emu.triton.language.conversion import cast, cast_to, to_tensor
from emu.triton.language.creation import full
from emu.triton.language.mathematics import cos, log, sin, sqrt, umulhi
from emu.triton.language.types import dtype, int32, int64, uint32, uint64
from emu.triton.language.values import TensorLike, tensor, tuple

N_ROUNDS_DEFAULT = constexpr(10)
"""Default number of rounds of Philox."""

# By the width of a word: increments of the two keys, multipliers of the two products.
_CONSTANTS = {
    "uint32": (0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    "uint64": (
        0x9E3779B97F4A7C15,
        0xBB67AE8584CAA73B,
        0xD2E7470EE14C6C93,
        0xCA5A826395121157,
    ),
}


def philox_impl(
    c0: TensorLike,
    c1: TensorLike,
    c2: TensorLike,
    c3: TensorLike,
    k0: TensorLike,
    k1: TensorLike,
    n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT,
) -> tuple:
    """Run rounds of Philox 4x32 or 4x64.

    Args:
        c0: First word of the counter, uint32 or uint64; the others have its dtype.
        c1: Second word.
        c2: Third word.
        c3: Fourth word.
        k0: First word of the key.
        k1: Second word of the key.
        n_rounds: Number of rounds, known at compile time.

    Returns:
        Four words.

    Raises:
        TypeError: The dtype is neither uint32 nor uint64, or ``n_rounds`` is not an int.
    """
    counter = [to_tensor(c) for c in (c0, c1, c2, c3)]
    if counter[0].dtype.name not in _CONSTANTS:
        raise TypeError(f"the counter of philox must be uint32 or uint64, but got {counter[0]}")
    key_a, key_b, round_a, round_b = _CONSTANTS[counter[0].dtype.name]
    w0, w1, w2, w3 = counter
    rounds = unwrap(n_rounds)
    if not isinstance(rounds, int):
        raise TypeError(f"n_rounds must be an int known at compile time, but got {shown(rounds)}")
    for _ in range(rounds):
        even, odd = w0, w2
        w0 = umulhi(round_b, odd) ^ w1 ^ k0
        w2 = umulhi(round_a, even) ^ w3 ^ k1
        w1, w3 = mul(round_b, odd), mul(round_a, even)
        k0, k1 = k0 + key_a, k1 + key_b
    return tuple([w0, w1, w2, w3])


def philox(
    seed: TensorLike,
    c0: TensorLike,
    c1: TensorLike,
    c2: TensorLike,
    c3: TensorLike,
    n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT,
) -> tuple:
    """Run Philox with a seed as its key.

    Args:
        seed: An integer.
        c0: First word of the counter, of 32 or 64 bits; the others have its width.
        c1: Second word.
        c2: Third word.
        c3: Fourth word.
        n_rounds: Number of rounds, known at compile time.

    Returns:
        Four words, uint32 or uint64.

    Raises:
        TypeError: The seed is not an integer, or the counter's width is not 32 or 64 bits.
    """
    key = to_tensor(seed)
    if not key.dtype.is_int():
        raise TypeError(f"seed must be an integer, but got {key}")
    key = cast_to(key, uint64)
    counter = [to_tensor(c) for c in (c0, c1, c2, c3)]
    bits = counter[0].dtype.primitive_bitwidth
    if bits not in (32, 64):
        raise TypeError(f"the counter of philox must have 32 or 64 bits, but got {counter[0]}")
    word: dtype = uint32 if bits == 32 else uint64
    low, high = key, full((1,), 0, uint64)
    if bits == 32:
        low, high = cast_to(key & 0xFFFFFFFF, uint32), cast_to((key >> 32) & 0xFFFFFFFF, uint32)
    w0, w1, w2, w3 = (cast(c, word, bitcast=True) for c in counter)
    return philox_impl(w0, w1, w2, w3, low, high, n_rounds)


def randint4x(
    seed: TensorLike, offset: TensorLike, n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT
) -> tuple:
    """Return four tensors of random uint32.

    Args:
        seed: An integer.
        offset: A tensor of integers: the position in the sequence for each element.
        n_rounds: Rounds of Philox, known at compile time.
    """
    places = to_tensor(offset)
    low = cast_to(places, uint32)
    zero = low * 0
    high = zero
    if places.dtype.primitive_bitwidth > 32:
        high = cast_to(places >> 32, uint32)
    return philox(seed, low, high, zero, zero, n_rounds)


def randint(
    seed: TensorLike, offset: TensorLike, n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT
) -> tensor:
    """Return random uint32; arguments as of :func:`randint4x`."""
    result: tensor = randint4x(seed, offset, n_rounds).values[0]
    return result


def uint_to_uniform_float(x: TensorLike) -> tensor:
    """Turn random integers of 32 or 64 bits into fp32 in [0, 1).

    Raises:
        TypeError: The integers have another width.
    """
    bits = to_tensor(x)
    if bits.dtype.name not in ("int32", "uint32", "int64", "uint64"):
        raise TypeError(f"x must be integers of 32 or 64 bits, but got {bits}")
    wide = bits.dtype.primitive_bitwidth == 64
    signed = cast(bits, int64 if wide else int32, bitcast=True)
    # A little less than 2**-31 or 2**-63: the largest product is still below 1.
    scale = 1.0842020432385337e-19 if wide else 4.6566127342e-10
    return where(signed < 0, ~signed, signed) * scale


def rand(
    seed: TensorLike, offset: TensorLike, n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT
) -> tensor:
    """Return random fp32, uniform in [0, 1); arguments as of :func:`randint4x`."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(
    seed: TensorLike, offsets: TensorLike, n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT
) -> tuple:
    """Return four tensors of random fp32, uniform in [0, 1); arguments as of :func:`randint4x`."""
    return tuple([uint_to_uniform_float(i) for i in randint4x(seed, offsets, n_rounds)])


def pair_uniform_to_normal(u1: TensorLike, u2: TensorLike) -> tuple:
    """Turn two uniform tensors into two normal ones (Box and Muller)."""
    angle = 6.283185307179586 * to_tensor(u2)
    radius = sqrt(-2.0 * log(maximum(1.0e-7, to_tensor(u1))))
    return tuple([radius * cos(angle), radius * sin(angle)])


def randn(
    seed: TensorLike, offset: TensorLike, n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT
) -> tensor:
    """Return random fp32 of the standard normal distribution; arguments as of :func:`randint4x`."""
    first, second, *_ = randint4x(seed, offset, n_rounds)
    uniform = uint_to_uniform_float(first), uint_to_uniform_float(second)
    result: tensor = pair_uniform_to_normal(*uniform).values[0]
    return result


def randn4x(
    seed: TensorLike, offset: TensorLike, n_rounds: ConstexprLike[int] = N_ROUNDS_DEFAULT
) -> tuple:
    """Return four tensors of fp32 of the standard normal distribution; arguments as of :func:`randint4x`."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(u1, u2) + pair_uniform_to_normal(u3, u4)


__all__ = [
    "pair_uniform_to_normal",
    "philox",
    "philox_impl",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "uint_to_uniform_float",
]
