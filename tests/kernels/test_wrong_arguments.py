"""Wrong arguments to the kernels' public functions end in errors that name them, and change nothing.

``EMU_FUZZ_CALLS`` sets how many calls are made. Default: some thousand.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fuzzing import Fuzzer, Target

from emu.kernels import cast, matmul, quant, tiles
from emu.kernels.elementwise import rows
from emu.kernels.errors import ArgumentError

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "4000"))
BF16 = ml_dtypes.bfloat16
MODULES = (cast, matmul, quant, rows, tiles)


def target(function: Callable[..., Any], good: Callable[[], dict[str, Any]], **more: Any) -> Target:
    return Target(name=function.__name__, function=function, arguments=good, **more)


def arrays(dtype: Any, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in shapes]


def targets() -> Iterator[Target]:
    yield from tile_targets()
    yield from matmul_targets()
    yield from quant_targets()
    yield from row_targets()


def tile_targets() -> Iterator[Target]:
    a, b = arrays(np.float32, (4, 6), (4, 6))
    for function in (tiles.set_tile, tiles.add_tile):
        yield target(function, lambda: {"target": a.copy(), "source": b})
        yield target(function, lambda: {"target": a.copy()[::-1, ::2], "source": b[:, :3]})
    yield target(
        cast.cast,
        lambda: {"source": a, "dtype": BF16, "saturate": True, "out": np.zeros((4, 6), BF16)},
        also={"dtype": ("out",), "source": ("out",)},
    )


def matmul_targets() -> Iterator[Target]:
    for dtype, result in ((np.float32, np.float32), (np.int8, np.int32), (BF16, BF16)):
        a, b, c = arrays(dtype, (3, 4), (4, 5), (3, 5))
        yield target(
            matmul.matmul,
            lambda a=a, b=b, c=c, result=result: {
                "a": a, "b": b, "out": c.astype(result), "dtype": result, "alpha": 2, "beta": 1,
                "bias": np.ones(5, result), "transpose_a": False, "transpose_b": False, "deterministic": True,
                "precision": "native",
            },
            also={"a": ("out", "b must", "bias"), "b": ("out", "bias", "a and b"), "dtype": ("out",),
                  "transpose_a": ("a's k",), "transpose_b": ("a's k",)},
        )  # fmt: skip
        yield target(
            matmul.pack,
            lambda b=b: {
                "b": b, "transpose_b": True, "reuse": matmul.pack(b), "precision": "native",
            },
        )  # fmt: skip


def quant_targets() -> Iterator[Target]:
    (x,), (s,), (q, z) = (
        arrays(np.float16, (4, 6)),
        arrays(np.float32, (6,)),
        arrays(np.int8, (4, 6), (6,)),
    )
    also = {"x": ("scales", "out"), "q": ("scales", "out"), "axis": ("scales",), "dtype": ("out",)}
    yield target(
        quant.quantize,
        lambda: {
            "x": x,
            "scales": s + 1,
            "zero_points": z,
            "axis": 1,
            "multiply": False,
            "out": q.copy(),
        },
        also=also,
    )
    yield target(
        quant.dequantize,
        lambda: {
            "q": q,
            "scales": s,
            "offsets": 1.5,
            "axis": 1,
            "dtype": np.float16,
            "out": x.copy(),
        },
        also=also,
    )
    yield target(
        quant.dynamic_quantize,
        lambda: {"x": x, "out": q.copy(), "scales_out": np.ones(4, np.float32)},
        also={"x": ("out",)},
    )
    updates = np.ones((2, 3, 32), BF16)
    for indices in (np.array([0, 1]), np.array([[1, 0], [0, 2]], np.int32)):
        yield target(
            quant.quant_scatter,
            lambda indices=indices: {
                "target": np.ones((2, 5, 32), np.int8), "indices": indices, "updates": updates,
                "scales": np.ones(32, BF16), "zero_points": np.ones(32, BF16), "axis": 1, "quant_axis": 2,
                "align": 32, "overlap": "refuse",
            },
            also={
                "target": ("updates", "indices", "axis"),
                "indices": ("updates",),
                "updates": ("scales", "indices"),
                "align": ("updates",),
            },
        )  # fmt: skip


def row_targets() -> Iterator[Target]:
    (x, extra), (p,) = arrays(BF16, (5, 4), (2, 4)), arrays(np.int32, (2, 4))
    also = {"rows": ("extra", "out", "index"), "index": ("weights", "extra", "out")}
    yield target(
        rows.weighted_row_sum,
        lambda: {
            "rows": x, "index": np.array([[0, 4, -1], [1, 1, 2]], np.int32),
            "weights": np.ones((2, 3), np.float32), "extra": extra, "out": extra.copy(),
        },
        also=also,
    )  # fmt: skip
    yield target(
        rows.scale_product,
        lambda: {
            "product": p, "columns": np.ones(4, np.float32), "rows": np.ones(2, np.float32),
            "dtype": np.float16, "out": np.zeros((2, 4), np.float16),
        },
        also={"product": ("columns", "rows", "out"), "dtype": ("out",)},
    )  # fmt: skip
    yield target(rows.scale_product, lambda: {"product": p, "columns": np.ones(4, np.float32), "dtype": BF16},
                 also={"product": ("columns",)})  # fmt: skip


def test_every_public_function_is_called_with_wrong_arguments() -> None:
    """Those that take arguments; not kernels, for who calls these has checked the addresses."""
    public = {
        name
        for module in MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(function).parameters and function.__module__.startswith("emu.kernels.")
        and function.__module__.split(".")[-1] in (module.__name__.split(".")[-1], "quant_scatter")
        and (name in getattr(module, "__all__", [name]))
    }  # fmt: skip
    assert public - {target.name for target in targets()} == set()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_wrong_arguments(seed: int) -> None:
    Fuzzer(list(targets()), (ArgumentError,), seed=seed).run(CALLS // 2).check()


@pytest.mark.parametrize("threads", [0, -1, 1.0, "2", 1 << 40, np.zeros(2, int), object()])
def test_a_wrong_number_of_threads_starts_none(threads: Any) -> None:
    (a,) = arrays(np.float32, (3, 3))
    with pytest.raises(
        ArgumentError, match=r"threads must be (an integer|in \[1, 1024\]), but got"
    ):
        matmul.matmul(a, a, threads=threads)
