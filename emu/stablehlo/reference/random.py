"""Generators of random bits, bit for bit those of XLA."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.mlir.ir import Operation
from emu.stablehlo.attributes import RngAlgorithm, RngDistribution
from emu.stablehlo.reference.dtypes import is_float, result_dtype
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array

Words = np.ndarray
"""Array of uint32 or uint64."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(keys: tuple[Words, Words], x: Words, y: Words) -> tuple[Words, Words]:
    """Encrypt pairs of 32-bit words: 20 rounds of Threefry (Salmon et al., 2011)."""
    parity = keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA)
    schedule = (keys[0], keys[1], parity)
    x, y = x + schedule[0], y + schedule[1]
    for block in range(5):
        for distance in _ROTATIONS[block % 2]:
            x = x + y
            y = (y << np.uint32(distance)) | (y >> np.uint32(32 - distance))
            y = y ^ x
        x = x + schedule[(block + 1) % 3]
        y = y + schedule[(block + 2) % 3] + np.uint32(block + 1)
    return x, y


def _halves(word: Words) -> tuple[Words, Words]:
    """Return the low and the high 32 bits."""
    return (word & _LOW).astype(np.uint32), (word >> _HALF).astype(np.uint32)


def _joined(low: Words, high: Words) -> Words:
    return low.astype(np.uint64) | (high.astype(np.uint64) << _HALF)


def split_dimension(shape: Sequence[int]) -> int:
    """Return the dimension that XLA divides between the two words: the first even, else the longest one."""
    even = [d for d, size in enumerate(shape) if size % 2 == 0]
    return even[0] if even else int(np.argmax(shape))


def _threefry_bits(state: Words, shape: tuple[int, ...], width: int) -> tuple[Words, Words]:
    """Return the new state and the bits, each in a word of at least ``width`` bits."""
    key, counter = _halves(state[0]), state[1]
    if width == 64:
        count = int(np.prod(shape, dtype=int))
        numbers = (counter + np.arange(count, dtype=np.uint64)).reshape(shape)
        low, high = threefry2x32(key, *_halves(numbers))
        return np.array([state[0], counter + np.uint64(count)], np.uint64), _joined(low, high)
    if not shape:
        new, bits = _threefry_bits(state, (1,), width)
        return new, bits.reshape(())
    split = split_dimension(shape)
    half = list(shape)
    half[split] = -(-shape[split] // 2)
    count = int(np.prod(half, dtype=int))
    numbers = (counter + np.arange(count, dtype=np.uint64)).reshape(half)
    words = threefry2x32(key, *_halves(numbers))
    both = np.stack(words, split + 1)
    whole = [*shape[:split], 2 * half[split], *shape[split + 1 :]]
    bits = both.reshape(whole).take(range(shape[split]), split)
    return np.array([state[0], counter + np.uint64(count)], np.uint64), bits


# Philox


_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


def philox4x32(counters: Sequence[Words], keys: tuple[Words, Words]) -> list[Words]:
    """Encrypt four 32-bit words: 10 rounds of Philox (Salmon et al., 2011)."""
    a, b, c, d = counters
    first, second = keys
    for _ in range(10):
        left = _MULTIPLIERS[0] * a.astype(np.uint64)
        right = _MULTIPLIERS[1] * c.astype(np.uint64)
        (low, high), (other_low, other_high) = _halves(left), _halves(right)
        a, b, c, d = other_high ^ b ^ first, other_low, high ^ d ^ second, low
        first, second = first + _WEYL[0], second + _WEYL[1]
    return [a, b, c, d]


def _philox_bits(state: Words, shape: tuple[int, ...], width: int) -> tuple[Words, Words]:
    """Return the new state and the bits; a counter of 128 bits gives four words of 32."""
    size = int(np.prod(shape, dtype=int))
    per_counter = 2 if width == 64 else 4
    count = -(-size // per_counter)
    low = state[1] + np.arange(count, dtype=np.uint64)
    high = state[2] + (low < state[1]).astype(np.uint64)
    words = philox4x32([*_halves(low), *_halves(high)], _halves(state[0]))
    if width == 64:
        words = [_joined(words[0], words[1]), _joined(words[2], words[3])]
    bits = np.stack(words, -1).reshape(-1)[:size].reshape(shape)
    new_low = state[1] + np.uint64(count)
    new_high = state[2] + np.uint64(new_low < state[1])
    return np.array([state[0], new_low, new_high], np.uint64), bits


@handles("stablehlo.rng_bit_generator")
def _rng_bit_generator(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    algorithm = op.properties["rng_algorithm"]
    assert isinstance(algorithm, RngAlgorithm)
    dtype, shape = result_dtype(op.results[1].type), result_shape(op, 1)
    state = args[0].reshape(-1)
    words = state.astype(np.uint64) if state.dtype.itemsize == 8 else _packed(state)
    width = 64 if dtype.itemsize == 8 else 32
    is_threefry = algorithm.value == "THREE_FRY"
    if words.size != (2 if is_threefry else 3) and (is_threefry or words.size != 2):
        raise EvaluationError(f"a state of {words.size} words of 64 bits is not evaluated")
    if is_threefry:
        new, bits = _threefry_bits(words, shape, width)
    else:
        # XLA takes the key for the counter's high word where the state has no word for it.
        full = words if words.size == 3 else np.append(words, words[0])
        new, bits = _philox_bits(full, shape, width)
        new = new[: words.size]
    unsigned = np.dtype(f"u{dtype.itemsize}")
    found = np.ascontiguousarray(new).view(args[0].dtype)[: args[0].size].reshape(args[0].shape)
    return found, bits.astype(unsigned).view(dtype)


def _packed(state: Words) -> Words:
    return np.ascontiguousarray(state).view(np.uint64)


# Numbers of no certain generator


@handles("stablehlo.rng")
def _rng(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    distribution = op.properties["rng_distribution"]
    assert isinstance(distribution, RngDistribution)
    dtype, shape = result_dtype(op.result.type), result_shape(op)
    generator = scope.program.streams.generator
    if distribution.value == "NORMAL":
        mean, deviation = (float(each) for each in args[:2])
        return (np.asarray(generator.normal(mean, deviation, shape)).astype(dtype),)
    if is_float(dtype):
        low, high = (float(each) for each in args[:2])
        found = np.asarray(low + (high - low) * generator.random(shape)).astype(dtype)
        # Rounding to few bits may reach the upper end, which is not in the interval.
        return (np.where(found < args[1], found, args[0]).astype(dtype),)
    first, last = (int(each) for each in args[:2])
    if dtype.kind == "b":
        last += 1
    if first >= last:
        raise EvaluationError(f"the interval from {first} to {last} has no number")
    wide = np.uint64 if dtype.kind == "u" else np.int64
    found = np.asarray(generator.integers(first, last, shape, dtype=wide))
    return (found.astype(dtype),)
