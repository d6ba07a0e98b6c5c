"""Generation of the Python text of a kernel from a module."""

from __future__ import annotations

import re
from dataclasses import dataclass

from emu.tile.cuda import coverage, statements
from emu.tile.cuda.emitter import Emitter
from emu.tile.cuda.plan import plan
from emu.tile.ir import Function, Module
from emu.tile.passes import simplify
from emu.tile.types import DType, Pointer
from emu.tile.verify import verify

TRAILING = ("grid_x", "grid_y", "grid_z", "status", "scratch")
"""Parameters of a generated kernel behind its own: three i32, two addresses."""

_SCALARS = re.compile(r"(?<![.\w])(?:u?int(?:8|16|32|64)|float32|float64)(?=\()")
_CALLS = re.compile(r"\b([a-z][a-z0-9_]*)\(")
_OTHERS = frozenset(("range", "print", "int32", "int64", "syncthreads", "syncthreads_or"))


@dataclass(frozen=True)
class Generated:
    """A kernel's text and what its launch must provide.

    Attributes:
        name: The kernel's.
        text: A module in Python with one function, ``kernel``.
        arguments: Types of the kernel's own arguments.
        shared_bytes: Dynamic shared memory of a block.
        scratch_bytes: Global memory of a block.
        messages: Of assertions.
    """

    name: str
    text: str
    arguments: tuple[DType | Pointer, ...]
    shared_bytes: int
    scratch_bytes: int
    messages: tuple[str, ...]


def generate(module: Module, threads: int) -> Generated:
    """Compile a module to Python.

    Args:
        module: Its first function is the kernel; it is not changed.
        threads: Threads of a block, which runs one program.

    Raises:
        NotCoveredError: Something in it is not covered.
        TileError: It breaks a rule of the tile IR.
    """
    verify(module)
    kernel = simplify(module).kernel
    coverage.check(kernel)
    k = Emitter(plan(kernel), threads, statements.emit_region)
    parameters = _parameters(k, kernel)
    k.body(kernel.body)
    text = "\n".join([*_head(k, kernel, parameters), *_prologue(k), *k.lines])
    types = tuple(a.type for a in kernel.body.arguments)
    return Generated(
        kernel.name,
        _imports(text) + text + "\n",
        tuple(t for t in types if isinstance(t, DType | Pointer)),
        k.memory.shared_bytes,
        k.memory.scratch_bytes,
        tuple(k.messages),
    )


def _parameters(k: Emitter, kernel: Function) -> list[str]:
    taken: set[str] = set(TRAILING)
    for number, argument in enumerate(kernel.body.arguments):
        stem = re.sub(r"\W", "_", argument.name) if argument.name.isascii() else ""
        # The suffix keeps a name apart from functions', keywords and the names of values.
        name = f"{stem}_" if stem and stem[0].isalpha() else f"argument{number}_"
        if name in taken:
            name = f"{name}{number}_"
        taken.add(name)
        k.names[argument] = name
    return [k.names[a] for a in kernel.body.arguments]


def _head(k: Emitter, kernel: Function, parameters: list[str]) -> list[str]:
    what = f"{kernel.name}: one program a block of {k.threads} threads."
    types = ", ".join(str(a.type) for a in kernel.body.arguments)
    return [
        "",
        "",
        "@cuda.jit",
        f"def kernel({', '.join([*parameters, *TRAILING])}):",
        f'    """{what} Arguments: {types or "none"}."""',
    ]


def _prologue(k: Emitter) -> list[str]:
    lines = ["t = cuda.threadIdx.x", "block = cuda.blockIdx.x"]
    body = "\n".join(k.lines)
    used = [axis for axis in "xyz" if re.search(rf"\bprogram_{axis}\b", body)]
    ids = {
        "x": "int32(block % grid_x)",
        "y": "int32(block // grid_x % grid_y)",
        "z": "int32(block // grid_x // grid_y)",
    }
    lines += [f"program_{axis} = {ids[axis]}" for axis in used]
    lines += [
        f"programs_{axis} = int32(grid_{axis})"
        for axis in "xyz"
        if re.search(rf"\bprograms_{axis}\b", body)
    ]
    if k.memory.scratch_bytes:
        lines.append(f"scratch = address(scratch, int64(block), {k.memory.scratch_bytes})")
    for view, kind in sorted(k.memory.views.items()):
        lines.append(f"{view} = cuda.shared.array(0, types.{kind})")
    for name, (length, kind) in k.arrays.items():
        lines.append(f"{name} = cuda.local.array({length}, types.{kind})")
    return ["    " + line for line in lines]


def _imports(text: str) -> str:
    scalars = sorted(set(_SCALARS.findall(text)))
    calls = {c for c in _CALLS.findall(text.split('"""', 2)[2]) if c not in _OTHERS}
    calls = {c for c in calls if "_" in c or c == "address"} - set(scalars)
    lines = ["from numba import cuda, types" if "types." in text else "from numba import cuda"]
    if scalars:
        lines.append(f"from numpy import {', '.join(scalars)}")
    if calls:
        lines += ["", "from emu.tile.cuda.functions import ("]
        lines += [*(f"    {c}," for c in sorted(calls)), ")"]
    for name, value in (("INF", "inf"), ("NAN", "nan")):
        if re.search(rf"\b{name}\b", text):
            lines.append(f'{name} = float("{value}")')
    return "\n".join(lines) + "\n"
