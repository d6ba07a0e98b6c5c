"""Our ``chlo-legalize-to-stablehlo`` beside jaxlib's: XLA computes both, from hard arguments.

    python tests/conformance/sdy/chlo.py [--only TEXT]

A line for each operation and dtype: how many units in the last place the two are
apart at most (in f16 and bf16 ours is the nearer one, since it computes in f32), or
that ours leaves the operation as it is. The status is 1 if that is over 4 units
(2 in the small formats).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import ml_dtypes
import numpy as np

import emu.sdy

DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "complex<f32>": np.complex64,
}
UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "conj", "cosh", "is_inf", "is_neg_inf"),
    *("is_pos_inf", "sinh", "square", "tan"),
)
HARD = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-3, 1e-30, -1e-30, 2.0, -2.0, 10.0, 88.0, -88.0, 89.2),
    *(-89.2, 1e18, -1e18, 3e38, -3e38, np.inf, -np.inf, np.nan, 1 + 1e-6, 1 - 1e-6, 5e-324, 1e-40),
]


def arguments(rng: np.random.Generator, dtype: Any) -> Any:
    """Numbers of all sizes, near 1, and those that no rule covers."""
    parts = [HARD, rng.normal(size=500), rng.normal(size=500) * 10, rng.uniform(-1, 1, 500)]
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.concatenate([*parts, 10.0 ** rng.uniform(-30, 30, 500)])
        if np.issubdtype(dtype, np.complexfloating):
            found = found + 1j * rng.permutation(found)
        return found.astype(dtype)


def legalized(text: str) -> str:
    """What jaxlib makes of it."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    with make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        manager = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
        passmanager.PassManager.parse(manager).run(module.operation)
        return str(module)


def execute(text: str, values: list[Any]) -> Any:
    """The only result of a program."""
    import jax
    from jax._src.lib import xla_client

    client = jax.devices()[0].client
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(text, devices, xla_client.CompileOptions())
    found = executable.execute_sharded([jax.device_put(value) for value in values])
    return np.asarray(found.disassemble_into_single_device_arrays()[0][0])


def apart(mine: Any, theirs: Any) -> float:
    """The largest distance in units in the last place."""
    if mine.dtype == np.bool_:
        return 0.0 if (mine == theirs).all() else np.inf
    kind = mine.real.dtype
    least, eps = float(ml_dtypes.finfo(kind).smallest_subnormal), float(ml_dtypes.finfo(kind).eps)
    wide = np.complex128 if np.issubdtype(mine.dtype, np.complexfloating) else np.float64
    x, y = mine.astype(wide), theirs.astype(wide)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore", over="ignore"):
        units = np.abs(x - y) / (np.abs(y) * eps + least)
    units = np.where(np.isnan(units), np.inf, units)
    return float(np.where(same, 0, units).max())


def compare(name: str, kind: str) -> str | float:
    """How far the two are apart, or why there is nothing to compare."""
    rng = np.random.default_rng(0)
    values = [arguments(rng, DTYPES[kind])]
    if name == "next_after":
        values.append(rng.permutation(values[0]))
        values[1][:50] = values[0][:50]
    of = f"tensor<{len(values[0])}x{kind}>"
    result = of.replace(kind, "i1") if name.startswith("is_") else of
    names = [f"%a{i}" for i in range(len(values))]
    text = (
        f"func.func @main({', '.join(f'{each}: {of}' for each in names)}) -> {result} {{\n"
        f"  %0 = chlo.{name} {', '.join(names)} : {', '.join([of] * len(names))} -> {result}\n"
        f"  return %0 : {result}\n}}\n"
    )
    module = emu.sdy.parse(text)
    if emu.sdy.run_passes(module, "chlo-legalize-to-stablehlo"):
        return "stays"
    return apart(execute(str(module), values), execute(legalized(text), values))


def main() -> int:
    """Compare, and print the table."""
    import jax

    parser = argparse.ArgumentParser(prog="chlo", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="operations that hold TEXT")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    wrong = 0
    for name in (*UNARY, "next_after"):
        for kind in DTYPES if options.only in name else ():
            found = compare(name, kind)
            bound = 2 if kind in {"f16", "bf16"} else 4
            wrong += not isinstance(found, str) and found > bound
            shown = found if isinstance(found, str) else f"{found:.2f}"
            sys.stdout.write(f"{name} {kind}: {shown}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
