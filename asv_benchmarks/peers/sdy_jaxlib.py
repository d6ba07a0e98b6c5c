"""Shardy itself, as it is in jaxlib: reads requests, one a line, and writes the seconds each took.

Started with a file of MLIR text. A request is ``[task, passes, calls]`` in JSON: "parse" and "print" with
``passes`` empty, "round trip" (parse, which verifies, and print), "round trip with locations", or "run",
which is given a fresh module for each call and counts the passes only. Seconds are the processor's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo


def context() -> ir.Context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    made.enable_multithreading(False)
    for dialect in (sdy, stablehlo, chlo):
        dialect.register_dialect(made)
    return made


def task(name: str, passes: str, text: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Return what comes before each call, and the call."""
    if name == "run":
        manager = passmanager.PassManager.parse(f"builtin.module({passes})")
        return lambda: ir.Module.parse(text), lambda module: manager.run(module.operation)
    module = ir.Module.parse(text)
    calls: dict[str, Callable[[Any], object]] = {
        "parse": lambda _: ir.Module.parse(text),
        "print": lambda _: str(module),
        "round trip": lambda _: str(ir.Module.parse(text)),
        "round trip with locations": lambda _: ir.Module.parse(text).operation.get_asm(
            enable_debug_info=True
        ),
    }
    return lambda: None, calls[name]


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    with context(), ir.Location.unknown():
        for line in sys.stdin:
            name, passes, calls = json.loads(line)
            prepare, call = task(name, passes, text)
            spent = 0.0
            for _ in range(calls):
                given = prepare()
                start = time.process_time()
                result = call(given)
                spent += time.process_time() - start
                del result, given
            print(spent, flush=True)


if __name__ == "__main__":
    main()
