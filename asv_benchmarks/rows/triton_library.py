"""triton: kernels of the kinds that libraries hold, one thread, beside torch.

Each pair of contenders writes what it computes into tensors of its own and is compared once before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rows.local import clock
from rows.measure import Bench, Goal, Outcome, Settings, duel
from rows.single import torch_or_none
from rows.team import TeamError
from rows.triton import NO_TORCH, Call, matrix, torch_threads

_GENERATOR_SEED = 0


@dataclass(frozen=True)
class Pair:
    """Two calls of one meaning, and where each leaves its result.

    Attributes:
        ours: Launch of the kernel.
        theirs: torch's.
        results: What to compare after one call of each: pairs of tensors, or nothing.
        tolerance: Largest difference, relative and absolute.
    """

    ours: Call
    theirs: Call
    results: Callable[[], tuple[Any, Any]] | None = None
    tolerance: float = 1e-3


def _generator() -> Any:
    import torch

    return torch.Generator().manual_seed(_GENERATOR_SEED)


def _block(extent: int) -> int:
    """Return the least power of two that holds an extent."""
    return 1 << (extent - 1).bit_length()


# ---- a row of a matrix at a time


def cross_entropy(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    rows, classes = (256 if quick else 4096), 32_000
    logits = matrix(rows, classes)
    labels = torch.randint(classes, (rows,), generator=_generator())
    losses, theirs = torch.empty(rows), torch.empty(rows)

    def peer() -> None:
        theirs[:] = torch.nn.functional.cross_entropy(logits, labels, reduction="none")

    return Pair(
        lambda: kernels.cross_entropy[(rows,)](
            logits, labels, losses, classes, classes, BLOCK=4096, num_threads=1
        ),
        peer,
        lambda: (losses, theirs),
    )


def rms_norm(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    rows, columns = (256 if quick else 4096), 4096
    x, w = matrix(rows, columns), torch.rand(columns)
    out, kept = torch.empty_like(x), []

    def peer() -> None:
        kept[:] = [torch.nn.functional.rms_norm(x, (columns,), w, 1e-6)]

    return Pair(
        lambda: kernels.rms_norm[(rows,)](
            x, w, out, columns, columns, 1e-6, BLOCK=_block(columns), num_threads=1
        ),
        peer,
        lambda: (out, kept[0]),
    )


def rope(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    length, heads, width = (128 if quick else 2048), 32, 128
    x = matrix(length, heads * width).view(length, heads, width)
    turns = torch.outer(torch.arange(length), 1e4 ** -(torch.arange(width // 2) / (width // 2)))
    cos, sin = turns.cos(), turns.sin()
    cos_twice, sin_twice = (torch.cat([v, v], -1)[:, None] for v in (cos, sin))
    out, kept = torch.empty_like(x), []

    def peer() -> None:
        left, right = x.chunk(2, -1)
        kept[:] = [x * cos_twice + torch.cat([-right, left], -1) * sin_twice]

    return Pair(
        lambda: kernels.rope[(length,)](
            x, cos, sin, out, length, HEADS=heads, D=width, num_threads=1
        ),
        peer,
        lambda: (out, kept[0]),
    )


def softmax(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    rows, columns = (256 if quick else 4096), 4096
    x = matrix(rows, columns)
    out, theirs = torch.empty_like(x), torch.empty_like(x)
    return Pair(
        lambda: kernels.softmax_row[(rows,)](
            out, x, columns, columns, BLOCK=_block(columns), num_threads=1
        ),
        lambda: torch.softmax(x, -1, out=theirs),
        lambda: (out, theirs),
    )


def quantize_fp8(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    rows, columns, group = (256 if quick else 4096), 4096, 128
    x = matrix(rows, columns)
    out = torch.empty(rows, columns, dtype=torch.float8_e4m3fn)
    scales = torch.empty(rows, columns // group)
    kept: list[Any] = []

    def peer() -> None:
        groups = x.view(rows, -1, group)
        scale = groups.abs().amax(-1, keepdim=True) / 448.0
        kept[:] = [(groups / scale).to(torch.float8_e4m3fn).view(rows, columns), scale]

    return Pair(
        lambda: kernels.quantize_fp8[(x.numel() // group,)](
            x, out, scales, BLOCK=group, num_threads=1
        ),
        peer,
        lambda: (out.float(), kept[0].float()),
    )


def gemv(quick: bool, dtype: str) -> Pair:
    import kernels_triton_library as kernels
    import torch

    size = 512 if quick else 4096
    kind = getattr(torch, dtype)
    a = matrix(size, size).to(kind)
    x = torch.randn(size, generator=_generator()).to(kind)
    out, theirs = torch.empty(size, dtype=kind), torch.empty(size, dtype=kind)
    return Pair(
        lambda: kernels.gemv[(size // 16,)](
            a, x, out, size, size, BLOCK_M=16, BLOCK_K=256, num_threads=1
        ),
        lambda: torch.mv(a, x, out=theirs),
        lambda: (out.float(), theirs.float()),
        1e-1 if dtype == "bfloat16" else 1e-2,
    )


def int8(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    size = 256 if quick else 1024
    a, b = (
        # Seven bits: without VNNI torch adds pairs of products in 16 bits, which saturate beyond.
        torch.randint(-64, 64, (size, size), generator=_generator(), dtype=torch.int8)
        for _ in range(2)
    )
    out, theirs = (torch.empty(size, size, dtype=torch.int32) for _ in range(2))
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
    return Pair(
        lambda: kernels.matmul_int8[(size // 128, size // 128)](
            a, b, out, size, size, size, **blocks, num_threads=1
        ),
        lambda: torch._int_mm(a, b, out=theirs),
        lambda: (out, theirs),
        0.0,
    )


# ---- order and places


def embedding(quick: bool, blocks: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    count, columns = (512 if quick else 8192), 1024
    table = matrix(32_000, columns)
    ids = torch.randint(len(table), (count,), generator=_generator())
    out, theirs = (torch.empty(count, columns) for _ in range(2))

    def a_row() -> None:
        kernels.embedding[(count,)](table, ids, out, columns, BLOCK=_block(columns), num_threads=1)

    def a_block() -> None:
        kernels.embedding_block[(count // 16, columns // 256)](
            table, ids, out, count, columns, BLOCK_M=16, BLOCK_N=256, num_threads=1
        )

    return Pair(
        a_block if blocks else a_row,
        lambda: torch.index_select(table, 0, ids, out=theirs),
        lambda: (out, theirs),
        0.0,
    )


def topk(quick: bool) -> Pair:
    import kernels_triton_library as kernels
    import torch

    rows, columns, k = (64 if quick else 1024), 1024, 16
    x = matrix(rows, columns)
    out, theirs = (torch.empty(rows, k) for _ in range(2))
    places = torch.empty(rows, k, dtype=torch.int64)
    return Pair(
        lambda: kernels.topk_row[(rows,)](x, out, N=columns, K=k, num_threads=1),
        lambda: torch.topk(x, k, out=(theirs, places)),
        lambda: (out, theirs),
        0.0,
    )


def sort(quick: bool, rows: int, columns: int) -> Pair:
    import kernels_triton_library as kernels
    import torch

    if quick:
        rows, columns = -(-rows // 64), min(columns, 1 << 14)
    x = matrix(rows, columns)
    out, theirs = (torch.empty(rows, columns) for _ in range(2))
    places = torch.empty(rows, columns, dtype=torch.int64)
    return Pair(
        lambda: kernels.sort_row[(rows,)](x, out, N=columns, num_threads=1),
        lambda: torch.sort(x, out=(theirs, places)),
        lambda: (out, theirs),
        0.0,
    )


def cumsum(quick: bool, rows: int, blocks: bool = False) -> Pair:
    import kernels_triton_library as kernels
    import torch

    columns = (1 << (16 if quick else 20)) // rows
    x = torch.rand(rows, columns, generator=_generator())
    out, theirs = (torch.empty(rows, columns) for _ in range(2))
    if blocks:
        ours = partial(kernels.cumsum_blocks[(1,)], x, out, columns, BLOCK=2048, num_threads=1)
    else:
        ours = partial(kernels.cumsum_row[(rows,)], x, out, N=columns, num_threads=1)
    return Pair(ours, lambda: torch.cumsum(x, 1, out=theirs), lambda: (out, theirs))


def scatter_add(quick: bool, dtype: str, theirs_name: str = "scatter_add_") -> Pair:
    import kernels_triton_library as kernels
    import torch

    count, size, kind = 1 << (14 if quick else 20), 4096, getattr(torch, dtype)
    places = torch.randint(size, (count,), generator=_generator())
    values = torch.ones(count, dtype=kind)
    out, theirs = (torch.zeros(size, dtype=kind) for _ in range(2))
    return Pair(
        lambda: kernels.scatter_add[(-(-count // 1024),)](
            values, places, out, count, BLOCK=1024, num_threads=1
        ),
        lambda: getattr(theirs, theirs_name)(0, places, values),
        lambda: (out, theirs),
        0.0,
    )


def histogram(quick: bool, against: str) -> Pair:
    import kernels_triton_library as kernels
    import torch

    count, bins = 1 << (14 if quick else 20), 256
    x = torch.randint(bins, (count,), generator=_generator(), dtype=torch.int32)
    out = torch.zeros(bins, dtype=torch.int32)
    real, kept = x.float(), []

    def bincount() -> None:
        kept[:] = [torch.bincount(x, minlength=bins)]

    def histc() -> None:
        kept[:] = [torch.histc(real, bins, 0, bins)]

    return Pair(
        lambda: kernels.histogram[(-(-count // 4096),)](
            x, out, count, BINS=bins, BLOCK=4096, num_threads=1
        ),
        bincount if against == "bincount" else histc,
        lambda: (out, kept[0].to(torch.int32)),
        0.0,
    )


# ---- rows


def _beside_torch(settings: Settings, make: Callable[[bool], Pair]) -> Outcome:
    if not torch_or_none():
        return Outcome(note=NO_TORCH)
    import torch

    pair = make(settings.quick)
    with torch_threads(1):
        pair.ours()
        pair.theirs()
        if pair.results is not None:
            mine, peers = pair.results()
            if not torch.allclose(mine, peers, pair.tolerance, pair.tolerance):
                raise TeamError("the results differ from torch's")
        return duel(settings, clock(pair.ours), clock(pair.theirs))


def _bench(name: str, peer: str, goal: float, make: Callable[[bool], Pair]) -> Bench:
    return Bench(
        f"triton/{name}, 1 thread", peer, "ms", Goal(goal), partial(_beside_torch, make=make)
    )


ROWS = [
    _bench("cross entropy 4096x32000", "torch", 4.0, cross_entropy),
    _bench("RMS norm 4096x4096", "torch", 1.0, rms_norm),
    _bench("rope 2048x32x128", "torch", 1.0, rope),
    _bench("softmax 4096x4096", "torch", 0.95, softmax),
    _bench("quantise 4096x4096 to fp8 per 128", "torch", 1.0, quantize_fp8),
    _bench(
        "embedding of 8192 rows of 1024",
        "torch.index_select",
        1.0,
        partial(embedding, blocks=False),
    ),
    _bench(
        "embedding of 8192 rows of 1024, 16x256",
        "torch.index_select",
        1.0,
        partial(embedding, blocks=True),
    ),
    _bench("topk 16 of 1024x1024", "torch.topk", 1.0, topk),
    _bench("sort 1024x1024", "torch.sort", 1.0, partial(sort, rows=1024, columns=1024)),
    _bench("sort 2^20 in one program", "torch.sort", 1.0, partial(sort, rows=1, columns=1 << 20)),
    _bench("int8 dot 1024", "torch._int_mm", 0.95, int8),
    _bench(
        "scatter-add fp32 2^20 to 4096", "scatter_add_", 1.0, partial(scatter_add, dtype="float32")
    ),
    _bench(
        "scatter-add fp32 2^20 to 4096",
        "index_add_",
        1.0,
        partial(scatter_add, dtype="float32", theirs_name="index_add_"),
    ),
    _bench(
        "scatter-add int32 2^20 to 4096", "scatter_add_", 1.0, partial(scatter_add, dtype="int32")
    ),
    _bench(
        "histogram of 2^20, 256 bins", "torch.bincount", 1.0, partial(histogram, against="bincount")
    ),
    _bench("histogram of 2^20, 256 bins", "torch.histc", 1.0, partial(histogram, against="histc")),
    _bench("cumsum 2^20 in one program", "torch.cumsum", 1.0, partial(cumsum, rows=1)),
    _bench(
        "cumsum 2^20 in blocks of 2048", "torch.cumsum", 1.0, partial(cumsum, rows=1, blocks=True)
    ),
    _bench("cumsum 1024x1024", "torch.cumsum", 1.0, partial(cumsum, rows=1024)),
    _bench("GEMV 4096 fp32", "torch.mv", 0.95, partial(gemv, dtype="float32")),
    _bench("GEMV 4096 bf16", "torch.mv", 2.0, partial(gemv, dtype="bfloat16")),
]
