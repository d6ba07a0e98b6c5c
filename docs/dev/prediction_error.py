"""Predicted times beside published ones: prints the tables of docs/prediction.md.

    python docs/dev/prediction_error.py

Each measurement has its source. ``fitted`` are those that efficiencies of a device file were chosen by; all others are held out. The work of each kernel follows
from its shape: nothing is run.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from emu.kernels.core.figures import seconds_text
from emu.trace.prediction.devices import files
from emu.trace.prediction.kernels import kernel_time
from emu.trace.prediction.links import collective_time
from emu.trace.prediction.products import fastest_product
from emu.trace.prediction.work import Traffic, Work

load_device = functools.cache(files.load_device)


class Point(NamedTuple):
    """A published time."""

    what: str
    seconds: float
    predicted: Callable[[], float]
    fitted: bool = False


@dataclass(frozen=True)
class Published:
    """Measurements of one source.

    Attributes:
        kind: Class of kernels: ``"products"``, ``"memory-bound"``, ``"attention"``, ``"all-reduce"``.
        title: What was measured, on what.
        source: Where it was published, and when.
        points: The times.
    """

    kind: str
    title: str
    source: str
    points: tuple[Point, ...]


def products(
    device: str, dtype: str, rates: dict[tuple[int, int, int], float], fitted: tuple[int, ...] = ()
) -> Iterator[Point]:
    """Yield products from their TFLOP/s; of cubes whose edge is in ``fitted`` the device's efficiency was chosen."""
    for (m, n, k), tflops in rates.items():
        yield Point(
            f"{m} x {n} x {k} {dtype}",
            2.0 * m * n * k / (tflops * 1e12),
            lambda m=m, n=n, k=k: fastest_product(m, n, k, dtype, load_device(device)).seconds,
            m == n == k and m in fitted,
        )


def cubes(rates: dict[int, float]) -> dict[tuple[int, int, int], float]:
    """Return extents of products of square matrices."""
    return {(n, n, n): rate for n, rate in rates.items()}


def warps_of(columns: int) -> int:
    """Return the warps that Liger's kernels take for a row."""
    block = 1 << (columns - 1).bit_length()
    return 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


def rows_work(rows: int, columns: int, size: int, reads: int, special: float, weights: int) -> Work:
    """Return the work of a kernel whose programs each take a row: ``reads`` tensors in, one out."""
    elements = float(rows) * columns
    nbytes, weight_bytes = elements * size, float(weights) * columns * size
    return Work(
        programs=rows,
        vector={"f32": 5 * elements},
        special=special * elements,
        tensors=(
            Traffic(nbytes * (reads + 1), nbytes * (reads + 1)),
            Traffic(rows * weight_bytes, weight_bytes),
        ),
        warps=warps_of(columns),
    )


def memory_bound(
    times: dict[int, float], name: str, make: Callable[[int], Work], fitted: bool = False
) -> Iterator[Point]:
    """Yield kernels from their milliseconds by number of columns."""
    for columns, ms in times.items():
        yield Point(
            f"{name} {columns}",
            ms * 1e-3,
            lambda c=columns: kernel_time(make(c), load_device("h100")).seconds,
            fitted,
        )


def attention_work(batch: int, heads: int, length: int, depth: int) -> Work:
    """Return the work of attention forward, 128 rows of queries a program: scale, maximum, difference, sum and a conversion for each score."""
    scores = float(batch) * heads * length * length
    programs = batch * heads * -(-length // 128)
    tensor = 2.0 * batch * heads * length * depth
    return Work(
        programs=programs,
        dot={"f16": 4 * scores * depth},
        vector={"f32": 5 * scores},
        special=scores,
        tensors=(
            Traffic(2 * tensor, 2 * tensor),
            Traffic(max(2 * tensor, programs * 4.0 * length * depth), 2 * tensor),
        ),
    )


def attention(rates: dict[tuple[int, int, int, int], float]) -> Iterator[Point]:
    """Yield attention from TFLOP/s."""
    for shape, tflops in rates.items():
        batch, heads, length, depth = shape
        flops = 4.0 * batch * heads * length * length * depth
        yield Point(
            f"{shape}",
            flops / (tflops * 1e12),
            lambda s=shape: kernel_time(attention_work(*s), load_device("h100")).seconds,
        )


def all_reduces(times: dict[int, float]) -> Iterator[Point]:
    """Yield all-reduces of 8 GPUs from microseconds by bytes: what NCCL takes, and a launch."""
    for nbytes, us in times.items():
        yield Point(
            f"{nbytes} B",
            us * 1e-6,
            lambda b=nbytes: (
                collective_time("all_reduce", b, 8, load_device("h100")).seconds
                + load_device("h100")["launch.latency"]
            ),
        )


LIGER = "[linkedin/Liger-Kernel, benchmark/data/all_benchmark_data.csv](https://github.com/linkedin/Liger-Kernel/blob/main/benchmark/data/all_benchmark_data.csv), NVIDIA H100 80GB HBM3"
PUBLISHED = (
    Published(
        "products",
        "torch.matmul on an H100 SXM",
        "[zzc0721/torch-performance-test-data#79](https://github.com/zzc0721/torch-performance-test-data/issues/79), 2025-10-18",
        (
            *products("h100", "f16", cubes({1024: 179.13, 2048: 645.12, 4096: 760.04, 8192: 736.19, 10240: 668.42}), (4096,)),
            *products("h100", "bf16", cubes({1024: 176.62, 2048: 676.59, 4096: 788.72, 8192: 797.51, 10240: 719.72}), (4096,)),
            *products("h100", "tf32", cubes({1024: 119.60, 2048: 334.99, 4096: 402.15, 8192: 372.05, 10240: 376.66})),
        ),
    ),
    Published(
        "products",
        "cuBLAS fp16 on an H100",
        "[triton-lang/triton#2339, Matmul performance on H100](https://github.com/triton-lang/triton/issues/2339), 2023-09-19",
        tuple(
            products(
                "h100",
                "f16",
                {(2048, 512, 512): 102.61, (2048, 1024, 1024): 243.15, (2048, 2048, 2048): 515.23, (2048, 4096, 4096): 613.74, (2048, 8192, 8192): 721.60},
            )
        ),
    ),
    Published(
        "products",
        "torch.matmul on an Ascend 910B2 (A2)",
        "[zzc0721/torch-performance-test-data#109](https://github.com/zzc0721/torch-performance-test-data/issues/109), 2026-01-05",
        (
            *products("a2", "f16", cubes({1024: 98.08, 2048: 251.01, 4096: 314.52, 8192: 305.46, 10240: 274.76}), (4096,)),
            *products("a2", "bf16", cubes({1024: 99.86, 2048: 248.30, 4096: 315.36, 8192: 301.23, 10240: 300.94}), (4096,)),
        ),
    ),
    Published(
        "memory-bound",
        "RMS norm of 4096 rows in bf16, Liger's Triton kernel, by columns",
        f"{LIGER}, 2026-06-10",
        tuple(
            memory_bound(
                {1024: 0.012160, 2048: 0.017568, 4096: 0.029184, 8192: 0.050912, 16384: 0.095008},
                "rms_norm",
                lambda c: rows_work(4096, c, 2, 1, 0.0, 1),
                fitted=True,
            )
        ),
    ),
    Published(
        "memory-bound",
        "Layer norm of 4096 rows in fp32, Liger's Triton kernel, by columns",
        f"{LIGER}, 2025-07-17",
        tuple(
            memory_bound(
                {1024: 0.018848, 2048: 0.029152, 4096: 0.051040, 8192: 0.094752, 16384: 0.184768},
                "layer_norm",
                lambda c: rows_work(4096, c, 4, 1, 0.0, 2),
            )
        ),
    ),
    Published(
        "memory-bound",
        "SwiGLU of 8192 rows in bf16, Liger's Triton kernel, by columns",
        f"{LIGER}, 2026-07-26",
        tuple(
            memory_bound(
                {1024: 0.023328, 2048: 0.039584, 4096: 0.072512, 8192: 0.137088, 16384: 0.267008, 32768: 0.527504},
                "swiglu",
                lambda c: rows_work(8192, c, 2, 2, 2.0, 0),
            )
        ),
    ),
    Published(
        "memory-bound",
        "Softmax of 16384 x 131072 in fp32, QuACK, each element read once",
        "[Dao-AILab/quack, Getting Memory-bound Kernels to Speed-of-Light](https://github.com/Dao-AILab/quack/blob/main/media/2025-07-10-membound-sol.md): 3.01 TB/s, 2025-07-10",
        (
            Point(
                "softmax",
                2 * 4.0 * 16384 * 131072 / 3.01e12,
                lambda: kernel_time(rows_work(16384, 131072, 4, 1, 1.0, 0), load_device("h100")).seconds,
            ),
        ),
    ),
    Published(
        "attention",
        "Attention forward in fp16, Triton's tutorial on an H100 (by inference): batch, heads, length, depth",
        "[pytorch/benchmark#2391, Fix dimension order for FlashAttention-3](https://github.com/pytorch/benchmark/pull/2391), 2024; it names no GPU, but FlashAttention-3, measured beside it, needs a Hopper",
        tuple(
            attention(
                {
                    (32, 16, 512, 128): 328.882,
                    (16, 16, 1024, 128): 389.723,
                    (8, 16, 2048, 128): 433.721,
                    (4, 16, 4096, 128): 458.359,
                    (2, 16, 8192, 128): 470.732,
                    (1, 16, 16384, 128): 476.753,
                }
            )
        ),
    ),
    Published(
        "all-reduce",
        "NCCL on 8 H100 of one node, called from torch",
        "[ByteDance-Seed/Triton-distributed#57, Expected AllReduce speeds](https://github.com/ByteDance-Seed/Triton-distributed/issues/57), 2025-07-14; its 2 MB (290.73 us) lies beside all others, and is left out",
        tuple(
            all_reduces(
                {
                    128: 19.19, 1024: 19.50, 16384: 20.71, 32768: 22.65, 65536: 23.05, 131072: 23.71, 262144: 24.76,
                    524288: 25.24, 1 << 20: 32.42, 4 << 20: 59.43, 8 << 20: 90.51, 16 << 20: 135.68,
                }
            )
        ),
    ),
)  # fmt: skip


def error(point: Point) -> float:
    """Return the relative error of a prediction."""
    return point.predicted() / point.seconds - 1.0


def mean_error(points: list[Point]) -> float:
    """Return the mean absolute relative error."""
    return sum(abs(error(point)) for point in points) / len(points)


def summary_lines() -> Iterator[str]:
    """Yield the table of errors by source, held-out ones apart, as Markdown."""
    yield "| Class | Measured | Held out | Error | Fitted | Error |"
    yield "|---|---|---|---|---|---|"
    for each in PUBLISHED:
        held = [point for point in each.points if not point.fitted]
        fitted = [point for point in each.points if point.fitted]
        cells = [
            (str(len(some)), f"{mean_error(some):.0%}") if some else ("", "")
            for some in (held, fitted)
        ]
        yield f"| {each.kind} | {each.title} ({each.source}) | {cells[0][0]} | {cells[0][1]} | {cells[1][0]} | {cells[1][1]} |"


def class_lines() -> Iterator[str]:
    """Yield the error of each class of kernels over all that is held out."""
    for kind in dict.fromkeys(each.kind for each in PUBLISHED):
        held = [
            point
            for each in PUBLISHED
            if each.kind == kind
            for point in each.points
            if not point.fitted
        ]
        yield f"| {kind} | {len(held)} | {mean_error(held):.0%} |"


def detail_lines() -> Iterator[str]:
    """Yield a row for each measurement."""
    for each in PUBLISHED:
        for point in each.points:
            mark = " (fitted)" if point.fitted else ""
            yield f"| {point.what}{mark} | {seconds_text(point.seconds)} | {seconds_text(point.predicted())} | {error(point):+.0%} |"


if __name__ == "__main__":
    for lines in (summary_lines, class_lines, detail_lines):
        print(*lines(), "", sep="\n")
