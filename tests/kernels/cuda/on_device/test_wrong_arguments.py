"""Wrong arguments to what works on device memory end in errors that name them, and change nothing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from fuzzing import Fuzzer, Target

from emu.kernels.cuda import arrays, matmul, quant, tiles
from emu.kernels.errors import ArgumentError

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "4000")) // 4
BF16 = ml_dtypes.bfloat16


def on_device(dtype: Any, *shape: int) -> arrays.DeviceArray:
    return arrays.to_device(np.arange(np.prod(shape)).reshape(shape).astype(dtype))


class Calls:
    """Good calls, and what the last one was given."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {}

    def target(
        self, function: Callable[..., Any], good: Callable[[], dict[str, Any]], **also: Any
    ) -> Target:
        def arguments() -> dict[str, Any]:
            self.last = good()
            return dict(self.last)

        return Target(name=function.__name__, function=function, arguments=arguments, also=also)

    def state(self) -> dict[str, bytes]:
        return {
            name: value.copy_to_host().tobytes()
            for name, value in self.last.items()
            if isinstance(value, arrays.DeviceArray)
        }

    def targets(self) -> Iterator[Target]:
        for function in (tiles.set_tile, tiles.add_tile):
            yield self.target(
                function,
                lambda: {
                    "target": on_device(np.float32, 4, 6),
                    "source": on_device(np.float32, 4, 6),
                },
            )
        yield self.target(
            tiles.add_tile,
            lambda: {
                "target": on_device(np.int8, 4),
                "source": on_device(np.int8, 4),
                "atomic": True,
            },
        )
        for dtype, result in ((np.float32, np.float32), (np.int8, np.int32)):
            yield self.target(
                matmul.matmul,
                lambda dtype=dtype, result=result: {
                    "a": on_device(dtype, 3, 4), "b": on_device(dtype, 4, 5), "out": on_device(result, 3, 5),
                    "alpha": 2, "beta": 1, "bias": on_device(result, 5), "transpose_a": False, "transpose_b": False,
                },
                a=("out", "b must", "bias"),
                b=("out", "bias", "a and b"),
                transpose_a=("a and b",),
                transpose_b=("a and b",),
            )  # fmt: skip
        yield from self.quant_targets()
        yield self.target(arrays.to_device, lambda: {"array": np.ones((2, 3))})
        yield self.target(arrays.empty, lambda: {"shape": (2, 3), "dtype": np.float32})

    def quant_targets(self) -> Iterator[Target]:
        yield self.target(
            quant.quantize,
            lambda: {
                "x": on_device(np.float16, 4, 6), "scales": on_device(np.float32, 6),
                "zero_points": on_device(np.int8, 6), "axis": 1, "multiply": False, "out": on_device(np.int8, 4, 6),
            },
            x=("scales", "out"),
            axis=("scales",),
        )  # fmt: skip
        yield self.target(
            quant.dequantize,
            lambda: {
                "q": on_device(np.int8, 4, 6), "scales": on_device(np.float32, 6), "offsets": 1.5, "axis": 1,
                "dtype": np.float16, "out": on_device(np.float16, 4, 6),
            },
            q=("scales", "out"),
            axis=("scales",),
            dtype=("out",),
        )  # fmt: skip
        yield self.target(
            quant.quant_scatter,
            lambda: {
                "target": on_device(np.int8, 2, 5, 32), "indices": on_device(np.int64, 2),
                "updates": on_device(BF16, 2, 3, 32), "scales": on_device(BF16, 32),
                "zero_points": on_device(BF16, 32), "axis": 1, "quant_axis": 2, "align": 32, "overlap": "refuse",
            },
            target=("updates", "indices", "axis"),
            indices=("updates",),
            updates=("scales", "indices"),
            align=("updates",),
        )  # fmt: skip


def extra() -> list[Any]:
    shapes: list[tuple[Any, ...]] = [
        (np.float32, 4, 6),
        (np.int8, 4, 6),
        (np.float16, 4, 6),
        (np.int32, 3),
        (np.float32, 2),
    ]
    return [
        *(on_device(*shape) for shape in shapes),
        on_device(np.float32, 8, 6)[::2],
        on_device(np.int8, 4)[::-1],
    ]


def test_wrong_arguments():
    calls = Calls()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzzer = Fuzzer(
            list(calls.targets()), (ArgumentError,), seed=1, state=calls.state, extra=extra
        )
        fuzzer.run(CALLS).check()
