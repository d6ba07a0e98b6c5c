"""The functions' LLVM IR, compiled for this machine's CPU, gives what their simulated twins give.

Left out is what only a device has: functions of libdevice, single instructions of PTX, its memory.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from tile_harness import equal, values

from emu.tile.cpu import native
from emu.tile.cuda import compiled, simulated
from emu.tile.types import DTYPES, DType

INTEGERS = [d.name for d in DTYPES.values() if d.is_integer]
REGISTERS = ["i1", *INTEGERS, "f32", "f64"]
NARROW = ["f16", "bf16", "f8e4m3fn", "f8e5m2"]
COUNT = 400

OF_INTEGERS = (
    *("neg", "not", "abs", "add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor"),
    *("shl", "shr", "mulhi", "fma"),
)
OF_BOOLEANS = ("not", "add", "sub", "mul", "min", "max", "and", "or", "xor")

NAMES = [
    *(
        f"{op}_{d}"
        for d in INTEGERS
        for op in OF_INTEGERS
        if not (op == "mulhi" and d.endswith("64"))
    ),
    *(f"{op}_i1" for op in OF_BOOLEANS),
    *(f"{op}_{d}" for d in ("f32", "f64") for op in ("neg", "abs", "minnan", "maxnan")),
    *(f"cast_{a}_{b}" for a in REGISTERS for b in REGISTERS if a != b),
    *(f"{op}_{d}" for d in NARROW for op in ("round", "truncate")),
    *(f"{op}_{d}" for d in (*NARROW, "f32", "f64") for op in ("bits", "from")),
    "castodd_f64_f32",
    "castodd_i64_f64",
    "castodd_u64_f64",
    "address",
]


def operands(name: str, dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    """Elements of an argument: any, or those that the function promises something for."""
    if name.startswith("bits_"):
        narrow = DTYPES[name.partition("_")[2]]
        return values(narrow, COUNT, seed).astype(dtype.numpy)
    if name == "castodd_f64_f32" or name.startswith(("round_", "truncate_")):
        rng = np.random.default_rng(seed)
        scale = np.exp2(rng.integers(-30, 20, COUNT).astype(np.float64))
        near = rng.integers(-64, 64, COUNT) / 16 + rng.choice([0, 2.0**-20, -(2.0**-20)], COUNT)
        some = np.where(rng.random(COUNT) < 0.5, near * scale, values(dtype, COUNT, seed))
        return some.astype(dtype.numpy)
    return values(dtype, COUNT, seed)


def storage(dtype: DType) -> Any:
    if dtype.is_float:
        return ir.DoubleType() if dtype.bits == 64 else ir.FloatType()
    return ir.IntType(dtype.bytes * 8)


def add_function(module: ir.Module, symbol: str, recipe: compiled.Recipe) -> None:
    """A function of the addresses of the operands and of the result, each one element."""
    kinds = [storage(d) for d in (*recipe.arguments, recipe.result)]
    word = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [word] * len(kinds)), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    pointers = [
        builder.inttoptr(a, k.as_pointer()) for a, k in zip(function.args, kinds, strict=True)
    ]
    loaded = [builder.load(p, typ=k) for p, k in zip(pointers[:-1], kinds, strict=False)]
    one = ir.IntType(1)
    args = [
        builder.trunc(v, one) if d.bits == 1 else v
        for v, d in zip(loaded, recipe.arguments, strict=True)
    ]
    result = recipe.build(builder, *args)
    if recipe.result.bits == 1:
        result = builder.zext(result, kinds[-1])
    builder.store(result, pointers[-1])
    builder.ret_void()


@pytest.fixture(scope="module")
def functions() -> dict[str, Any]:
    module = ir.Module()
    symbols = {name: native.new_name(f"tested.{name}") for name in NAMES}
    for name, symbol in symbols.items():
        add_function(module, symbol, compiled.definition(name))
    code = native.to_object(str(module))
    found: dict[str, Any] = {}
    for name, symbol in symbols.items():
        count = len(compiled.definition(name).arguments) + 1
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * count)
        found[name] = prototype(native.load(code, symbol))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_simulated_functions_agree(functions: dict[str, Any], name: str) -> None:
    recipe = compiled.definition(name)
    arguments = [operands(name, d, seed) for seed, d in enumerate(recipe.arguments)]
    got = np.zeros(COUNT, recipe.result.numpy)
    for i in range(COUNT):
        places = [a.ctypes.data + i * a.itemsize for a in (*arguments, got)]
        functions[name](*places)
    twin = simulated.make(name)
    with np.errstate(all="ignore"):
        expected = [twin(*(a[i] for a in arguments)) for i in range(COUNT)]
    want = np.array(expected).astype(recipe.result.numpy)
    bad = np.flatnonzero(~equal(want, got))
    assert not bad.size, [([a[i] for a in arguments], want[i], got[i]) for i in bad[:3]]
