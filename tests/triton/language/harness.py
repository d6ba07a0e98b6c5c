"""Runs functions of the language on arrays: emits them into a kernel, and lets the reference run it."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import emu.triton.language as tl
from emu.tile import cpu, ir, reference
from emu.tile.text.printer import print_module
from emu.tile.verify import verify
from emu.triton.language.context import Context, building

DTYPES: dict[str, np.dtype[Any]] = {
    "int1": np.dtype(np.bool_),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
}
"""NumPy's dtype by Triton's name."""

NAMES = {d: n for n, d in DTYPES.items()}

ANY = np.linspace(-3, 3, 64)
POSITIVE = np.linspace(0.05, 9, 64)
MAKERS: dict[str, tuple[Any, Any]] = {
    "exp": (np.exp, ANY),
    "exp2": (np.exp2, ANY),
    "log": (np.log, POSITIVE),
    "log2": (np.log2, POSITIVE),
    "sin": (np.sin, ANY),
    "cos": (np.cos, ANY),
    "sqrt": (np.sqrt, POSITIVE),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "erf": (np.vectorize(math.erf), ANY),
    "floor": (np.floor, ANY),
    "ceil": (np.ceil, ANY),
}
"""Functions of floats: NumPy's or Python's function, and numbers that it is defined for."""


@dataclass(frozen=True)
class Scalar:
    """A number that a kernel gets as a scalar tensor."""

    value: Any
    dtype: str


@dataclass(frozen=True)
class Pointer:
    """An array that a function gets as a pointer to its first element."""

    array: np.ndarray[Any, Any]


class Kernel:
    """A kernel under construction."""

    def __init__(self, **options: Any) -> None:
        self.body = ir.Region()
        self.module = ir.Module({"kernel": ir.Function("kernel", self.body)})
        self.builder = ir.Builder(self.body)
        self.context = Context(self.builder, self.module, **options)
        self.values: list[Any] = []
        self.kept: list[np.ndarray[Any, Any]] = []

    def argument(self, type_: Any, value: Any) -> Any:
        handle = ir.Value(type_.to_ir())
        self.body.arguments.append(handle)
        self.values.append(value)
        return tl.tensor(handle, type_)

    def pointer(self, array: np.ndarray[Any, Any]) -> Any:
        assert array.flags.c_contiguous
        self.kept.append(array)
        return self.argument(tl.pointer_type(tl.dtype(NAMES[array.dtype])), array.ctypes.data)

    def places(self, shape: Sequence[int]) -> Any:
        return tl.arange(0, int(np.prod(shape))).reshape(*shape)

    def take(self, given: Any) -> Any:
        if isinstance(given, Pointer):
            return self.pointer(given.array)
        if isinstance(given, Scalar):
            return self.argument(tl.dtype(given.dtype), given.value)
        if not isinstance(given, np.ndarray):
            return given
        pointer = self.pointer(given)
        return tl.load(pointer if given.ndim == 0 else pointer + self.places(given.shape))

    def give(self, tensor: Any) -> np.ndarray[Any, Any]:
        shape = tensor.type.shape
        if tensor.dtype.is_ptr():
            tensor = tensor.to(tl.int64)
        array = np.zeros(shape, DTYPES[tensor.dtype.name])
        pointer = self.pointer(array)
        tl.store(pointer if not shape else pointer + self.places(shape), tensor)
        return array

    def run(self, grid: Sequence[int] = (1,), native: bool = False, **options: Any) -> None:
        self.builder.return_()
        verify(self.module)
        if native:
            x, y, z = (*grid, 1, 1)[:3]
            _compiled(self.module).bind(1)(x, y, z, self.values)
        else:
            reference.run(self.module, self.values, grid, **options)


_KERNELS: dict[str, Any] = {}
"""Native kernels of this process by their modules' text: other numbers need no other code."""


def _compiled(module: ir.Module) -> Any:
    text = print_module(module)
    if text not in _KERNELS:
        _KERNELS[text] = cpu.compile(module)
    return _KERNELS[text]


def tensors_of(result: Any) -> list[Any]:
    if isinstance(result, tl.tensor):
        return [] if result.type.is_void() else [result]
    if isinstance(result, tl.tuple | builtins.tuple | list):
        return [t for r in result for t in tensors_of(r)]
    return []


def evaluate(
    function: Callable[..., Any], *given: Any, grid: Sequence[int] = (1,), native: bool = False
) -> Any:
    """Return what a function gives, as arrays; a single one without a list.

    Args:
        function: Called once with a tensor for each array and each :class:`Scalar`, a pointer for each
            :class:`Pointer`, and all else as it is.
        given: Its arguments; tensors must have contiguous arrays of extents that are powers of two.
        grid: Programs.
        native: Whether the CPU compiler runs it, not the reference.
    """
    kernel = Kernel()
    with building(kernel.context):
        results = [kernel.give(t) for t in tensors_of(function(*map(kernel.take, given)))]
        kernel.run(grid, native)
    return results[0] if len(results) == 1 else results


def emit(function: Callable[..., Any], *given: Any, **options: Any) -> tuple[Any, ir.Module]:
    """Return what a function gives while it is compiled, and the module so far."""
    kernel = Kernel(**options)
    with building(kernel.context):
        return function(*map(kernel.take, given)), kernel.module


def value(name: str, shape: Sequence[int] = ()) -> Any:
    """A tensor of a dtype and shape that no kernel gives: for tests of types and errors."""
    element = tl.dtype(name) if not name.startswith("*") else tl.pointer_type(tl.dtype(name[1:]))
    type_ = tl.block_type(element, list(shape)) if shape else element
    return tl.tensor(ir.Value(type_.to_ir()), type_)


def on_both(kernel: Any, *arguments: Any, **constants: Any) -> list[Any]:
    """What a kernel leaves in copies of its arguments; both back ends must leave the same."""
    left = []
    for backend in ("cpu", "reference"):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        kernel[(1,)](*own, backend=backend, **constants)
        left.append(own)
    for compiled, wanted in zip(*left, strict=True):
        np.testing.assert_array_equal(compiled, wanted)
    return left[0]
