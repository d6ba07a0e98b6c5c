"""Lets the package's launches run compiled code: :mod:`ptx` interprets what Numba's compiler makes.

Imported in the simulator, :func:`install` replaces the launches. The compiler does not work there, so
this file is also a program, which compiles what it is asked for: ``compiled.py <descriptor>``.
"""

from __future__ import annotations

import functools
import inspect
import os
import struct
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from emu.kernels.cuda import geometry, matmul_kernels, quant_kernels, tiles

TABLES = {
    "set": tiles.SET_KERNELS,
    "add": tiles.ADD_KERNELS,
    "atomic": tiles.ATOMIC_KERNELS,
    "convert": quant_kernels.CONVERT_KERNELS,
    "scatter": quant_kernels.SCATTER_KERNELS,
    "product": matmul_kernels.PRODUCT_KERNELS,
}


def serve(pipe: Connection) -> None:
    """Compile kernels by table and key, until the pipe is closed."""
    from numba import cuda
    from numba.cuda import dispatcher

    from emu.kernels.cuda.intrinsics import types

    class Device:
        compute_capability = (9, 0)

    dispatcher.get_current_device = Device
    while True:
        try:
            table, key = pipe.recv()
        except EOFError:
            return
        function = TABLES[table][key].py_func
        axes = geometry.FEW if key[-1] is True else geometry.MANY
        outer = types.UniTuple(types.int64, axes * (4 if table == "convert" else 3))
        kinds = {"int": types.int64, "float": types.float64, "Outer": outer}
        arguments = []
        for parameter in inspect.signature(function).parameters.values():
            kind = kinds.get(parameter.annotation)
            if kind is None:  # a record of integers
                record = function.__globals__[parameter.annotation]
                kind = types.UniTuple(types.int64, len(record._fields))
            arguments.append(kind)
        pipe.send(cuda.compile_ptx(function, types.void(*arguments), cc=(9, 0))[0])


def install() -> None:
    """Run compiled code wherever the package launches a kernel."""
    import ptx

    from emu.kernels.cuda import matmul, quant

    ours, theirs = Pipe()
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    theirs.close()
    names = {id(k): (table, key) for table, keys in TABLES.items() for key, k in keys.items()}

    @functools.cache
    def program(table: str, key: Any) -> ptx.Program:
        ours.send((table, key))
        return ptx.Program(ours.recv())

    def launch(
        kernel: Any,
        grid: Any,
        block: Any,
        *arguments: Any,
        touches: Any = (),
        shared_bytes: int = 0,
    ) -> None:
        flat: list[int] = []
        for argument in arguments:
            for value in argument if isinstance(argument, tuple) else (argument,):
                packed = struct.pack("<d", value) if isinstance(value, float) else None
                bits = struct.unpack("<Q", packed)[0] if packed else int(value) & (1 << 64) - 1
                flat.append(bits)
        program(*names[id(kernel)]).launch(grid, block, flat, shared_bytes)

    for module in (tiles, quant, matmul):
        module.launch = launch


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
