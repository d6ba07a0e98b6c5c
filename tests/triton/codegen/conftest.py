"""Compiling kernels and running them by the reference interpreter."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from emu.tile import reference
from emu.tile.ir import Module
from emu.tile.types import FROM_NUMPY
from emu.triton import language as tl
from emu.triton.codegen.code_generator import build_module
from emu.triton.language.types import FROM_TILE, pointer_type
from emu.triton.source import JITCallable


def type_of(value: Any) -> Any:
    """The type that a launch gives an argument."""
    if isinstance(value, np.ndarray):
        return pointer_type(FROM_TILE[FROM_NUMPY[value.dtype]])
    if isinstance(value, tuple):
        fields = getattr(type(value), "_fields", None)
        return tl.tuple_type([type_of(v) for v in value], fields)
    if isinstance(value, tl.constexpr):
        return value
    if isinstance(value, bool):
        return tl.int1
    if isinstance(value, int):
        return tl.int32 if -(2**31) <= value < 2**31 else tl.int64
    return tl.float32


def numbers(value: Any) -> list[Any]:
    """What the interpreter takes for an argument."""
    if isinstance(value, np.ndarray):
        return [value.ctypes.data]
    if isinstance(value, tuple):
        return [n for v in value for n in numbers(v)]
    return [] if isinstance(value, tl.constexpr) else [value]


def compiled(kernel: JITCallable, *arguments: Any, debug: bool = False, **constants: Any) -> Module:
    """The verified module of a kernel for arguments as a launch has them."""
    names = [p.name for p in kernel.params if p.name not in constants]
    signature = {n: type_of(a) for n, a in zip(names, arguments, strict=False)}
    module = build_module(kernel, signature, constants, {"debug": debug})
    if importlib.util.find_spec("emu.tile.verify"):
        from emu.tile.verify import verify

        verify(module)
    return module


@pytest.fixture
def compile_() -> Callable[..., Module]:
    """``compile_(kernel, *arguments, **constants)`` gives the verified module."""
    return compiled


@pytest.fixture
def launch() -> Callable[..., list[str]]:
    """``launch(kernel, *arguments, grid=(1,), **constants)`` runs it; returns what it prints."""

    def run(
        kernel: JITCallable, *arguments: Any, grid: tuple[int, ...] = (1,), **constants: Any
    ) -> list[str]:
        module = compiled(kernel, *arguments, **constants)
        printed: list[str] = []
        flat = [n for a in arguments for n in numbers(a)]
        # Where launches are compared with kernels that run as Python, these are, too.
        plugin = sys.modules.get("triton_interpreted")
        compare: Any = nullcontext()
        if plugin is not None and "debug" not in constants:
            compare = plugin.compared((kernel, module), arguments, grid, constants, (type_of, flat))
        with compare:
            reference.run(module, flat, grid, write=printed.append)
        return printed

    return run
