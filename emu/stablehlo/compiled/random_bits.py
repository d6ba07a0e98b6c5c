"""Random bits by kernels: the generators of the reference, a counter at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from emu.kernels.jit import jit
from emu.stablehlo.attributes import RngAlgorithm
from emu.stablehlo.compiled.forms import Action, Context, Form, Site, plans
from emu.stablehlo.reference.dtypes import result_dtype
from emu.stablehlo.reference.random import split_dimension
from emu.stablehlo.reference.shaping import result_shape
from emu.stablehlo.reference.values import Array


@jit()
def _philox(key, low, high, count, words):  # type: ignore[no-untyped-def]  # of integers and uint32
    """Fill rows of four words, each by 10 rounds of Philox (Salmon et al., 2011)."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for i in range(count):
        counter = low + np.uint64(i)
        carry = high + np.uint64(counter < low)
        a, b = counter & mask, counter >> half
        c, d = carry & mask, carry >> half
        first, second = key & mask, key >> half
        for _ in range(10):
            left = np.uint64(0xD2511F53) * a
            right = np.uint64(0xCD9E8D57) * c
            a, b, c, d = (
                (right >> half) ^ b ^ first,
                right & mask,
                (left >> half) ^ d ^ second,
                left & mask,
            )
            first = (first + np.uint64(0x9E3779B9)) & mask
            second = (second + np.uint64(0xBB67AE85)) & mask
        words[i, 0], words[i, 1] = np.uint32(a), np.uint32(b)
        words[i, 2], words[i, 3] = np.uint32(c), np.uint32(d)


@jit()
def _threefry(key, start, count, x_words, y_words):  # type: ignore[no-untyped-def]
    """Fill two rows, each pair of words by 20 rounds of Threefry (Salmon et al., 2011)."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    first, second = np.uint32(key & mask), np.uint32(key >> half)
    parity = np.uint32(first ^ second ^ np.uint32(0x1BD11BDA))
    schedule = (first, second, parity)
    for i in range(count):
        counter = start + np.uint64(i)
        x = np.uint32(np.uint32(counter & mask) + first)
        y = np.uint32(np.uint32(counter >> half) + second)
        for block in range(5):
            for place in range(4):
                distance = (13, 15, 26, 6)[place] if block % 2 == 0 else (17, 29, 16, 24)[place]
                x = np.uint32(x + y)
                y = np.uint32((y << np.uint32(distance)) | (y >> np.uint32(32 - distance)))
                y = np.uint32(y ^ x)
            x = np.uint32(x + schedule[(block + 1) % 3])
            y = np.uint32(y + schedule[(block + 2) % 3] + np.uint32(block + 1))
        x_words[i], y_words[i] = x, y


_KERNELS: dict[str, Callable[..., None]] = {"philox": _philox, "threefry": _threefry}


@dataclass(frozen=True)
class RandomBits(Form):
    """``rng_bit_generator``, bit for bit as the reference.

    Attributes:
        is_threefry: Whether the generator is Threefry; else Philox.
    """

    is_threefry: bool

    def bind(self, site: Site) -> Action:
        """Return what draws the bits."""
        draw = _draw_threefry if self.is_threefry else _draw_philox

        def run(state: Array, new: Array, result: Array) -> None:
            flat = np.ascontiguousarray(state).reshape(-1)
            words = [int(word) for word in flat.view(np.uint64)]
            width = 64 if result.dtype.itemsize == 8 else 32
            following, bits = draw(words, result.shape, width)
            packed = np.array([word % (1 << 64) for word in following], np.uint64)
            np.copyto(new, packed.view(new.dtype)[: new.size].reshape(new.shape))
            unsigned = np.dtype(f"u{result.dtype.itemsize}")
            # Of wider words the lowest bits are taken.
            np.copyto(result.view(unsigned), bits, casting="unsafe")

        return site.all(run)


def compile_generators() -> None:
    """Compile both generators."""
    for draw in (_draw_philox, _draw_threefry):
        draw([0, 0], (2,), 32)


def _draw_philox(
    state: list[int], shape: tuple[int, ...], width: int
) -> tuple[list[int], np.ndarray]:
    """Return the new state and the bits: four words of 32 of a counter of 128."""
    # XLA takes the key for the counter's high word where the state has no word for it.
    key, low, high = state if len(state) == 3 else (*state, state[0])
    size = math.prod(shape)
    count = -(-size // (2 if width == 64 else 4))
    words = np.empty((count, 4), np.uint32)
    _KERNELS["philox"](np.uint64(key), np.uint64(low), np.uint64(high), count, words)
    counter = (low + (high << 64) + count) % (1 << 128)
    bits = words.view(np.uint64) if width == 64 else words
    following = [key, counter % (1 << 64), counter >> 64]
    return following[: len(state)], bits.reshape(-1)[:size].reshape(shape)


def _draw_threefry(
    state: list[int], shape: tuple[int, ...], width: int
) -> tuple[list[int], np.ndarray]:
    """Return the new state and the bits: two words of 32 of a counter of 64."""
    key, counter = state
    half = list(shape) or [1]
    split = split_dimension(half)
    if width == 32:
        half[split] = -(-half[split] // 2)
    count = math.prod(half)
    words = np.empty((2, count), np.uint32)
    _KERNELS["threefry"](np.uint64(key), np.uint64(counter), count, words[0], words[1])
    following = [key, counter + count]
    if width == 64:
        return following, words.T.copy().view(np.uint64).reshape(shape)
    # The two words of a counter lie next to each other along the dimension that is split.
    both = np.stack([words[0].reshape(half), words[1].reshape(half)], split + 1)
    whole = both.reshape([*half[:split], 2 * half[split], *half[split + 1 :]])
    last = shape[split] if shape else 1
    return following, whole[(*[slice(None)] * split, slice(last))].reshape(shape)


@plans("stablehlo.rng_bit_generator")
def _rng_bit_generator(context: Context) -> Form | None:
    (state,), op = context.operands, context.op
    algorithm, dtype = op.properties["rng_algorithm"], result_dtype(op.results[1].type)
    if not isinstance(algorithm, RngAlgorithm) or dtype.kind not in "iuf":
        return None
    is_threefry = algorithm.value == "THREE_FRY"
    sizes = (16,) if is_threefry else (16, 24)
    if state.nbytes not in sizes or state.dtype.kind != "u" or 0 in result_shape(op, 1):
        return None
    return RandomBits(is_threefry)
