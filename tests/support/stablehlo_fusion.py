"""Functions of modules run with fused kernels, and compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import emu.sdy
from emu.mlir.ir import Operation
from emu.stablehlo.compiled.fusion import Group, compile_group, find_groups
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.scope import HANDLERS, Program, Scope

Array = np.ndarray[Any, Any]

FLOATS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
INTEGERS = {
    **{f"i{n}": np.dtype(f"i{n // 8}").type for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"u{n // 8}").type for n in (8, 16, 32, 64)},
}
DTYPES = {**FLOATS, **INTEGERS, "i1": np.bool_}


def steps_of(module: Operation) -> list[Operation | Group]:
    """Return what a module's function does, in order."""
    return find_groups(Program(module, SingleDevice(), {}).function("main").body())


def evaluate_fused(module: Operation, *inputs: Array) -> list[Array]:
    """Run a module's function: groups by their kernels, all else by the reference."""
    program = Program(module, SingleDevice(), {})
    body = program.function("main").body()
    values: dict[Any, Array] = dict(zip(body.arguments, inputs, strict=True))
    scope = Scope(program, values)
    for step in find_groups(body):
        if isinstance(step, Group):
            outputs = [empty(v.type) for v in step.outputs]
            kernel = compile_group(step)
            kernel.run([values[v] for v in step.inputs], outputs)
            values.update(zip(step.outputs, outputs, strict=True))
            continue
        with np.errstate(all="ignore"):
            found = HANDLERS[step.name](step, [values[v] for v in step.operands], scope)
        values.update(zip(step.results, found, strict=True))
    return [values[v] for v in body.terminator.operands]


def empty(type_: Any) -> Array:
    """Return an array of a tensor type, with bytes that no result should have kept."""
    dtype = dtype_of(type_.element)
    return np.full((*type_.shape, dtype.itemsize), 0xA5, np.uint8).view(dtype).reshape(type_.shape)


def bits(x: Array) -> Array:
    """Return the bits of an array, with one pattern for all NaN."""
    if x.dtype == np.bool_ or x.dtype.kind in "iu":
        return np.asarray(x)
    found = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").copy().reshape(x.shape)
    found[is_nan(x)] = np.iinfo(found.dtype).max
    return found


def is_nan(x: Array) -> Array:
    """Return where an array is NaN; ml_dtypes warns of some bits."""
    with np.errstate(invalid="ignore"):
        return np.isnan(x)


def ulps(found: Array, wanted: Array) -> Array:
    """Return how many numbers of the dtype lie between; 0 for two NaN, very many for one."""
    ordered = []
    for each in (found, wanted):
        size = each.dtype.itemsize
        whole = np.ascontiguousarray(each).view(f"i{size}").reshape(each.shape).astype(np.int64)
        # Both zeros are 0, and negative numbers descend from there.
        ordered.append(np.where(whole < 0, -(1 << (8 * size - 1)) - whole, whole))
    nan = is_nan(found), is_nan(wanted)
    x, y = (part.astype(np.float64) for part in ordered)
    # Far apart the difference of floats is exact enough, and near each other that of integers does not wrap.
    distance = np.where(np.abs(x - y) > 2.0**60, np.abs(x - y), np.abs(ordered[0] - ordered[1]))
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] ^ nan[1], np.inf, distance))


def check_same(found: Sequence[Array], wanted: Sequence[Array], what: object = "") -> None:
    """Check that arrays are equal to the bit; NaN equals NaN."""
    for index, (x, y) in enumerate(zip(found, wanted, strict=True)):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        wrong = np.flatnonzero(bits(x) != bits(np.asarray(y)))
        if wrong.size:
            where = wrong[:5]
            raise AssertionError(
                f"{what}: result {index} differs in {wrong.size} of {x.size} elements, first at "
                f"{where}: {x.reshape(-1)[where]} instead of {np.asarray(y).reshape(-1)[where]}"
            )


def edge_values(name: str, size: int, seed: int) -> Array:
    """Return elements of a dtype: edges, special numbers, and random ones of all magnitudes."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[name])
    if name == "i1":
        return rng.random(size) < 0.5
    if name in INTEGERS:
        info = np.iinfo(dtype)
        edges = [
            info.min,
            info.max,
            info.min + 1,
            0,
            1,
            2,
            7,
            8,
            info.bits - 1,
            info.bits,
            33,
            65,
            100,
        ]
        edges += [-1, -2, -7] * (info.min < 0)
        wide = rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
        small = rng.integers(max(info.min, -9), 9, size).astype(dtype)
        found = np.where(rng.random(size) < 0.4, small, wide)
        chosen = np.asarray(edges, dtype)[rng.integers(0, len(edges), size)]
        return np.where(rng.random(size) < 0.4, chosen, found)
    numbers = rng.integers(0, 1 << (8 * min(dtype.itemsize, 4)), size, dtype=np.uint64)
    if dtype.itemsize == 8:
        numbers = numbers << np.uint64(32) | rng.integers(0, 1 << 32, size, dtype=np.uint64)
    raw = numbers.astype(f"u{dtype.itemsize}").view(dtype)
    edges = np.asarray(
        [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-45, 1e-40, 2]
    )
    special = edges.astype(dtype)[rng.integers(0, len(edges), size)]
    usual = (rng.normal(size=size) * 3).astype(dtype)
    kind = rng.random(size)
    return np.where(kind < 0.3, special, np.where(kind < 0.6, raw, usual))


def parse(text: str) -> Operation:
    """Parse a module."""
    return emu.sdy.parse(text)


def reference(module: Operation, *inputs: Array) -> list[Array]:
    """Evaluate a module's function."""
    return evaluate(module, *inputs)
