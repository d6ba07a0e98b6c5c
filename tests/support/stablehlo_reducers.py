"""Dtypes, regions and values of reductions and windows."""

from __future__ import annotations

import ml_dtypes
import numpy as np

DTYPES = {
    "f32": (np.float32, 1e-5),
    "f64": (np.float64, 1e-13),
    "bf16": (ml_dtypes.bfloat16, 3e-2),
    "i32": (np.int32, 0),
    "ui8": (np.uint8, 0),
}
NAMES = ["add", "maximum", "minimum", "multiply", "subtract"]
STARTS = {"add": 0, "multiply": 1, "maximum": -3, "minimum": 3, "subtract": 2}


def tensor(shape: tuple[int, ...], name: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + name + ">"


def region(combine: str, name: str) -> str:
    e = f"tensor<{name}>"
    return (
        f"({{\n^bb0(%l: {e}, %r: {e}):\n%s = stablehlo.{combine} %l, %r : {e}\n"
        f"stablehlo.return %s : {e}\n}})"
    )


def values(shape: tuple[int, ...], name: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape) * 3
    if name in ("f32", "f64"):
        found = np.where(
            rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -0.0, 0.0], shape), found
        )
    with np.errstate(invalid="ignore"):
        return np.abs(found).astype(np.uint8) if name == "ui8" else found.astype(DTYPES[name][0])
