"""Philox against published vectors and a model in Python's integers; distributions of what is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import Scalar, emit, evaluate, value

import emu.triton.language as tl

# Counter, key and result of ten rounds, from the test vectors of the Random123 distribution.
VECTORS_32 = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]
VECTORS_64 = [
    (
        "0000000000000000 0000000000000000 0000000000000000 0000000000000000",
        "0000000000000000 0000000000000000",
        "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b",
    ),
    (
        "ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff",
        "ffffffffffffffff ffffffffffffffff",
        "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
    ),
    (
        "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
        "452821e638d01377 be5466cf34e90c6c",
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]


def words(text: str) -> list[int]:
    return [int(w, 16) for w in text.split()]


@pytest.mark.parametrize(("counter", "key", "wanted"), [*VECTORS_32, *VECTORS_64])
def test_published_vectors(counter: str, key: str, wanted: str) -> None:
    dtype = "uint32" if len(counter) < 40 else "uint64"
    given = [Scalar(w, dtype) for w in words(counter) + words(key)]
    assert [int(w) for w in evaluate(tl.philox_impl, *given)] == words(wanted)


def model(counter: list[int], key: list[int], bits: int = 32, rounds: int = 10) -> list[int]:
    """Philox as its paper has it, in Python's integers."""
    mask = 2**bits - 1
    m0, m1, w0, w1 = {
        32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
        64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
    }[bits]
    (a, b, c, d), (k, l) = counter, key
    for _ in range(rounds):
        p, q = m0 * a, m1 * c
        a, b, c, d = (q >> bits) ^ b ^ k, q & mask, (p >> bits) ^ d ^ l, p & mask
        k, l = (k + w0) & mask, (l + w1) & mask
    return [a, b, c, d]


SEEDS = [0, 1, 0xDEADBEEF, 2**31, 2**32 + 5, 2**63 + 9, -1]


@pytest.mark.parametrize("seed", SEEDS)
def test_randint4x_is_philox_of_offset_and_seed(seed: int) -> None:
    offsets = np.array([0, 1, 2, 1000, 2**31 - 1, 5, 77, 12345], np.int32)
    key = [seed % 2**64 % 2**32, seed % 2**64 >> 32]
    wanted = np.array([model([int(o), 0, 0, 0], key) for o in offsets], np.uint32).T
    for given in (seed, tl.constexpr(seed), Scalar(seed, "int64" if seed < 2**63 else "uint64")):
        got = evaluate(tl.randint4x, given, offsets)
        assert all(g.dtype == np.uint32 for g in got)
        np.testing.assert_array_equal(np.stack(got), wanted)
    np.testing.assert_array_equal(evaluate(tl.randint, seed, offsets), wanted[0])


def test_offsets_of_64_bits_fill_two_words() -> None:
    offsets = np.array([3, 2**32 + 4, 2**40, 2**62 + 1], np.int64)
    wanted = [model([int(o) % 2**32, int(o) >> 32, 0, 0], [7, 0])[0] for o in offsets]
    np.testing.assert_array_equal(evaluate(tl.randint, 7, offsets), wanted)


@pytest.mark.parametrize("rounds", [1, 6, 10])
def test_fewer_rounds(rounds: int) -> None:
    offsets = np.arange(4, dtype=np.int32)
    wanted = [model([i, 0, 0, 0], [7, 0], rounds=rounds)[0] for i in range(4)]
    for given in (rounds, tl.constexpr(rounds)):
        got = evaluate(lambda o, r=given: tl.randint(7, o, n_rounds=r), offsets)
        np.testing.assert_array_equal(got, wanted)


def test_philox_of_wide_counters() -> None:
    counter = [np.array([c, c + 9], np.int64) for c in (1, 2**40, 3, 2**62)]
    got = evaluate(tl.philox, 2**63 + 5, *counter)
    for lane in range(2):
        wanted = model([int(c[lane]) for c in counter], [2**63 + 5, 0], 64)
        assert [int(g[lane]) for g in got] == wanted


def test_uniform_floats_are_in_range_and_as_triton_scales_them() -> None:
    bits = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 123456789, 2**30, 7], np.uint32)
    folded = np.where(bits.view(np.int32) < 0, ~bits.view(np.int32), bits.view(np.int32))
    wanted = folded.astype(np.float32) * np.float32(4.6566127342e-10)
    got = evaluate(tl.uint_to_uniform_float, bits)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, wanted)
    assert got.min() >= 0
    assert got.max() < 1
    wide = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    got = evaluate(tl.uint_to_uniform_float, wide)
    assert got.dtype == np.float32
    assert got.max() < 1
    with pytest.raises(TypeError, match="x must be integers of 32 or 64 bits"):
        emit(tl.uint_to_uniform_float, value("int16"))


def test_rand_is_uniform() -> None:
    offsets = np.arange(2**14, dtype=np.int32)
    x = evaluate(tl.rand, 42, offsets)
    np.testing.assert_array_equal(
        x, evaluate(tl.uint_to_uniform_float, evaluate(tl.randint, 42, offsets))
    )
    counts, _ = np.histogram(x, 16, (0, 1))
    assert abs(counts - 1024).max() < 5 * 32
    four = evaluate(tl.rand4x, 42, offsets)
    np.testing.assert_array_equal(four[0], x)
    assert abs(np.corrcoef(np.stack(four)) - np.eye(4)).max() < 0.05


def test_randn_is_normal() -> None:
    offsets = np.arange(2**14, dtype=np.int32)
    x = evaluate(tl.randn, 42, offsets)
    assert x.dtype == np.float32
    assert abs(x.mean()) < 0.04
    assert abs(x.std() - 1) < 0.04
    assert abs((abs(x) < 1).mean() - 0.6827) < 0.02
    four = evaluate(tl.randn4x, 42, offsets)
    np.testing.assert_array_equal(four[0], x)
    assert abs(np.corrcoef(np.stack(four)) - np.eye(4)).max() < 0.05
    u, v, *_ = (t.astype(np.float64) for t in evaluate(tl.rand4x, 42, offsets))
    wanted = np.sqrt(-2 * np.log(np.maximum(u, 1e-7))) * np.cos(2 * np.pi * v)
    np.testing.assert_allclose(x, wanted, atol=2e-5)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="seed must be an integer, but got fp32"):
        emit(tl.randint, 1.5, value("int32", (4,)))
    with pytest.raises(TypeError, match="the counter of philox must have 32 or 64 bits"):
        emit(tl.philox, 1, *[value("int16", (4,))] * 4)
    with pytest.raises(TypeError, match="must be uint32 or uint64"):
        emit(tl.philox_impl, *[value("int32")] * 6)


def test_the_model_gives_the_published_vectors() -> None:
    for bits, vectors in ((32, VECTORS_32), (64, VECTORS_64)):
        for counter, key, wanted in vectors:
            assert model(words(counter), words(key), bits) == words(wanted)


def check_types(result: Any) -> None:
    assert isinstance(result, tl.tuple)
    assert [str(t) for t in result] == ["uint32[4]"] * 4


def test_several_results_are_tuples() -> None:
    check_types(emit(tl.randint4x, 1, value("int32", (4,)))[0])
