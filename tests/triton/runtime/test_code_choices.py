"""Choices of code generation change no bit: stores past the caches or plain, narrow vectors or wide."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.tile.cpu import native
from emu.tile.cpu.tuning import choices


def scaled(x_at, out_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    x = tl.load(x_at + at, mask=mask, other=0)
    tl.store(out_at + at, x + x, mask=mask)


def in_place(x_at, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_at + at, tl.load(x_at + at) * 3)


def shifted(x_at, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_at + 16 + at, tl.load(x_at + at))


def block(x_at, out_at, rows, columns, stride, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(x_at + row[:, None] * columns + column[None, :], mask=mask)
    tl.store(out_at + row[:, None] * stride + column[None, :], -x, mask=mask)


def two_results(x_at, sum_at, difference_at, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_at + at)
    tl.store(sum_at + at, x + 1)
    tl.store(difference_at + at, x - 1)


def row_sums(x_at, out_at, columns, M: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    total = tl.zeros([M], dtype=tl.float32)
    for start in range(0, columns, N):
        at = start + tl.arange(0, N)
        mask = (at < columns)[None, :]
        total += tl.sum(
            tl.load(x_at + row[:, None] * columns + at[None, :], mask=mask, other=0.0), axis=1
        )
    tl.store(out_at + row, total)


def chunks(x_at, out_at, count, BLOCK: tl.constexpr):
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out_at + at, tl.load(x_at + at, mask=at < count) * 2, mask=at < count)


def chunks_in_place(x_at, out_at, count, BLOCK: tl.constexpr):
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out_at + at, tl.load(x_at + at, mask=at < count) * 2, mask=at < count)
        tl.store(x_at + at, at.to(tl.float32), mask=at < count)


def one_place(x_at, out_at, count, BLOCK: tl.constexpr):
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_at + at, mask=at < count, other=0.0)
        tl.store(out_at + tl.arange(0, BLOCK), x * 2)


def read_again(x_at, out_at, count, BLOCK: tl.constexpr):
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out_at + at, tl.load(x_at + at, mask=at < count) * 2, mask=at < count)
    at = tl.arange(0, BLOCK)
    tl.store(x_at, tl.sum(tl.load(out_at + at), axis=0))


def carried(x_at, out_at, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for start in range(0, count, BLOCK):
        x = tl.load(x_at + at, mask=at + start < count, other=0.0)
        tl.store(out_at + at, x * 2, mask=at + start < count)
        x_at += BLOCK
        out_at += BLOCK


def softmax(x_at, out_at, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_at + tl.program_id(0) * columns + at, mask=mask, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_at + tl.program_id(0) * columns + at, powers / tl.sum(powers, axis=0), mask=mask)


CHOICES = [
    *("stream=never,width=512", "stream=never,width=256", "stream=65536"),
    *("stream=always,width=512", "width=256,stream=always"),
    *("rows=8192/2", "rows=0/1,stream=never"),
]


def of_each(monkeypatch, kernel, run):
    """Return what ``run(kernel)`` gives with each choice."""
    found = []
    for choice in CHOICES:
        monkeypatch.setenv("EMU_CPU_CODE", choice)
        found.append(run(triton.jit(kernel)))
    return found


def aligned(shape, dtype, offset=0):
    """Return an array of zeros whose address is so many elements behind a cache line."""
    size = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    whole = np.zeros(count * size + 64 * 64, np.uint8)
    start = -whole.ctypes.data % 64 + offset * size
    return whole[start : start + count * size].view(dtype).reshape(shape)


@pytest.mark.parametrize("offset", [0, 1, 4, 8])
@pytest.mark.parametrize("count", [1, 1023, 1024, 5000, 40_000])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "i8", "f8"])
def test_vectors(monkeypatch, dtype, count, offset):
    generator = np.random.default_rng(count)
    x = generator.integers(-50, 50, count).astype(dtype)
    if dtype[0] == "f":
        x[:: max(1, count // 7)] = np.array([np.nan, np.inf, -0.0, -np.inf], dtype).repeat(2)[
            : len(x[:: max(1, count // 7)])
        ]

    def run(kernel):
        out = aligned((count + 64,), dtype, offset)
        for threads in (1, 2):
            kernel[(-(-count // 1024),)](x, out, count, BLOCK=1024, num_threads=threads)
        return out

    with np.errstate(all="ignore"):
        expected = (x + x).tobytes() + bytes(64 * x.itemsize)
    for result in of_each(monkeypatch, scaled, run):
        assert result.tobytes() == expected


def test_in_place(monkeypatch):
    def run(kernel):
        x = aligned((16 * 1024,), "f4")
        x[:] = np.arange(len(x))
        kernel[(16,)](x, BLOCK=1024)
        return x

    for result in of_each(monkeypatch, in_place, run):
        np.testing.assert_array_equal(result, 3 * np.arange(16 * 1024, dtype=np.float32))


def test_a_store_that_overlaps_its_load(monkeypatch):
    def run(kernel):
        x = aligned((2048 + 64,), "f4")
        x[:] = np.arange(len(x))
        kernel[(1,)](x, BLOCK=2048)
        return x

    plain = np.arange(2048 + 64, dtype=np.float32)
    plain[16 : 2048 + 16] = np.arange(2048)
    for result in of_each(monkeypatch, shifted, run):
        np.testing.assert_array_equal(result, plain)


@pytest.mark.parametrize(
    ("rows", "columns", "stride"), [(32, 512, 512), (33, 500, 512), (32, 512, 519)]
)
def test_blocks(monkeypatch, rows, columns, stride):
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)

    def run(kernel):
        out = aligned((rows, stride), "f4")
        kernel[(-(-rows // 16), -(-columns // 256))](x, out, rows, columns, stride, M=16, N=256)
        return out

    expected = np.zeros((rows, stride), np.float32)
    expected[:, :columns] = -x
    for result in of_each(monkeypatch, block, run):
        assert result.tobytes() == expected.tobytes()


def test_two_results_of_which_one_is_not_aligned(monkeypatch):
    x = np.arange(8192, dtype=np.float32)

    def run(kernel):
        results = aligned((8192,), "f4"), aligned((8192,), "f4", 3)
        kernel[(8,)](x, *results, BLOCK=1024)
        return np.stack(results)

    for result in of_each(monkeypatch, two_results, run):
        np.testing.assert_array_equal(result, [x + 1, x - 1])


@pytest.mark.parametrize("columns", [781, 1024, 2048])
def test_a_row_that_is_reduced(monkeypatch, columns):
    x = np.random.default_rng(1).standard_normal((19, columns)).astype(np.float32)
    x[3, 5] = np.nan
    x[4] = -np.inf

    def run(kernel):
        out = aligned(x.shape, "f4")
        kernel[(19,)](x, out, columns, BLOCK=1 << (columns - 1).bit_length())
        return out.tobytes()

    assert len(set(of_each(monkeypatch, softmax, run))) == 1


@pytest.mark.parametrize(
    ("kernel", "streams"),
    [
        (chunks, True),
        (carried, None),
        (chunks_in_place, False),
        (one_place, False),
        (read_again, False),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
@pytest.mark.parametrize("count", [512, 5000])
def test_stores_of_a_loop(monkeypatch, kernel, streams, count):
    texts = []

    def run(kernel):
        x, out = aligned((count,), "f4"), aligned((count + 1024,), "f4")
        x[:] = np.random.default_rng(6).standard_normal(count)
        out[:] = 7
        texts.append(kernel[(1,)](x, out, count, BLOCK=512).asm["llir"])
        return x.tobytes() + out.tobytes()

    assert len(set(of_each(monkeypatch, kernel, run))) == 1
    if streams is not None and native.host_is_x86():
        assert any("nontemporal" in text for text in texts) == streams


def test_rows_that_are_reduced_in_a_loop(monkeypatch):
    x = np.random.default_rng(4).standard_normal((32, 700)).astype("f4")

    def run(kernel):
        out = np.zeros(32, "f4")
        kernel[(2,)](x, out, 700, M=16, N=128)
        return out.tobytes()

    assert len(set(of_each(monkeypatch, row_sums, run))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "stream",
        "stream=",
        "stream=-1",
        "stream=soon",
        "wide=1",
        "width=128",
        "never",
        "rows=1",
        "rows=8/4",
    ],
)
def test_what_is_no_choice_is_refused(monkeypatch, text):
    monkeypatch.setenv("EMU_CPU_CODE", text)
    with pytest.raises(ValueError, match="EMU_CPU_CODE must be stream=never, ") as caught:
        choices()
    assert repr(text) in str(caught.value)


def test_a_choice_is_read_when_it_is_needed(monkeypatch):
    monkeypatch.setenv("EMU_CPU_CODE", "stream=4096")
    assert choices().stream_bytes == 4096
    monkeypatch.setenv("EMU_CPU_CODE", "width=256,stream=never")
    assert (choices().stream_bytes, choices().width) == (None, 256)
    monkeypatch.setenv("EMU_CPU_CODE", "rows=4096/2")
    assert (choices().rows_ahead, choices().rows_level) == (4096, 2)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("znver4", (True, 256, 8192, 2)),
        ("znver5", (True, 512, 8192, 2)),
        ("x86-64-v3", (True, 512, 8192, 2)),
        ("sapphirerapids", (False, 512, 2048, 1)),
        ("skylake-avx512", (False, 512, 2048, 1)),
        ("unheard-of", (False, 512, 2048, 1)),
    ],
)
def test_the_table_by_names(monkeypatch, name, wanted):
    monkeypatch.setattr(native, "default_target", lambda: native.Target(name, ""))
    monkeypatch.delenv("EMU_CPU_CODE", raising=False)
    found = choices()
    streams = found.stream_bytes is not None
    expected = (wanted[0] and native.host_is_x86(), *wanted[1:])
    assert (streams, found.width, found.rows_ahead, found.rows_level) == expected
