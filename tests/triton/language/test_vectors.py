"""Vectors of single threads."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl
from emu.triton.language import distributed as dl
from emu.triton.language.threads import simt_exec_region, thread_index


@triton.jit
def sums_rows(x, out, rows, n, width: tl.constexpr):
    index = thread_index(0)
    for at in range(index * width, n, 32 * width):
        total = dl.zeros_vector(width, tl.float32)
        for row in range(rows):
            if row != 1:
                total = total + dl.ld_vector(x + row * n + at, vec_size=width).to(tl.float32)
        dl.st_vector(out + at, (total * 2 - dl.fill_vector(width, tl.float32, 1)).to(tl.float16))


def test_threads_add_rows_by_vectors() -> None:
    x = np.random.default_rng(1).integers(-8, 8, (4, 512)).astype(np.float16)
    out = np.zeros(512, np.float16)
    sums_rows[(1,)](x, out, 4, 512, 8, num_warps=1)
    assert out.tolist() == (x[[0, 2, 3]].sum(0) * 2 - 1).tolist()


@triton.jit
def recasts(x, out, wide, parts):
    with simt_exec_region() as (index, _size):
        words = dl.ld_vector(x + index * 4, vec_size=4, scope="gpu", semantic="acquire")
        halves = words.recast(tl.uint16)
        dl.st_vector(parts + index * 8, halves, "sys", "release")
        both = halves.recast(tl.uint64)
        tl.store(wide + index * 2, both[0])
        tl.store(wide + index * 2 + 1, both[1])
        dl.st_vector(
            out + index * 4, dl.unpack(dl.pack(words[:2], tl.uint64), tl.uint32).recast(tl.int32)
        )
        dl.st_vector(out + index * 4 + 2, dl.make_vector([words[2], words[-1]]).recast(tl.int32))


def test_bits_are_read_as_other_elements() -> None:
    x = np.random.default_rng(2).integers(0, 1 << 32, 128, np.uint32)
    out, wide = np.zeros(128, np.int32), np.zeros(64, np.uint64)
    parts = np.zeros(256, np.uint16)
    recasts[(1,)](x, out, wide, parts, num_warps=1)
    assert out.view(np.uint32).tolist() == x.tolist()
    assert parts.tolist() == x.view(np.uint16).tolist()
    assert wide.tolist() == x.view(np.uint64).tolist()


def _kernel(text: str) -> Any:
    source = f"def kernel(x):\n    {text}\n"
    space: dict[str, Any] = {"tl": tl, "dl": dl}
    file = f"<vectors: {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space)  # noqa: S102 - the text is ours
    return triton.jit(space["kernel"])


REFUSED = [
    ("dl.zeros_vector(3, tl.int32)", "vec_size must be a power of two, but got 3"),
    ("dl.zeros_vector(0.5, tl.int32)", "vec_size must be an int known at compile time"),
    ("dl.zeros_vector(4, 4)", "dtype must be a dtype, but got 4"),
    ("dl.make_vector([tl.load(x), 1])", "args must be tensors, but got 1"),
    ("dl.make_vector([tl.load(x)] * 3)", "args must be a power of two of elements, but got 3"),
    ("dl.make_vector([tl.load(x), tl.load(x).to(tl.int32)])", "args must have one dtype"),
    ("dl.ld_vector(1, 4)", "ptr of ld_vector must be a pointer, but got 1"),
    ("dl.ld_vector(x, 4, 'cta', 'relaxed')", "scope must be one of 'gpu', 'sys'"),
    ("dl.st_vector(x, 1)", "vec must be a vector, but got 1"),
    ("dl.st_vector(x, dl.zeros_vector(2, tl.int32))", "ptr must point to int32, as vec has"),
    (
        "dl.zeros_vector(2, tl.int32)[2]",
        "index of a vector must be at least -2 and below 2, but got 2",
    ),
    ("dl.zeros_vector(2, tl.int32) + dl.zeros_vector(4, tl.int32)", "must have as many elements"),
    ("dl.zeros_vector(1, tl.int16).recast(tl.int32)", "at most the vector's 16 bits"),
    ("dl.pack(dl.zeros_vector(2, tl.int32), tl.int32)", "dst_type must have 64 bits"),
    ("dl.unpack(1, tl.int32)", "src must be a tensor, but got 1"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_wrong_arguments_are_named(text: str, message: str) -> None:
    with pytest.raises(triton.CompilationError) as caught:
        _kernel(text)[(1,)](np.zeros(4, np.float32))
    assert re.search(message, str(caught.value)), caught.value
