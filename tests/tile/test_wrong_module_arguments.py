"""Wrong arguments to what reads, checks, changes and compiles modules: errors that name them."""

from __future__ import annotations

import pytest
from fuzzing import Fuzzer, Target

from emu.tile import cpu, cuda, passes, text, verify
from emu.tile.ir import Module, TileError

TEXT = """\
func @kernel(%x: ptr<f32>, %n: i32) {
  return
}
"""
ERRORS = (TypeError, ValueError, OverflowError, TileError)


def module() -> Module:
    return text.parse_module(TEXT)


TARGETS = [
    Target(
        name="parse_module",
        function=text.parse_module,
        arguments=lambda: {"text": TEXT},
        also={"text": ("expected", "unexpected", "ends")},  # where in the text it is wrong
    ),
    Target(name="print_module", function=text.print_module, arguments=lambda: {"module": module()}),
    Target(name="verify", function=verify.verify, arguments=lambda: {"module": module()}),
    Target(name="simplify", function=passes.simplify, arguments=lambda: {"module": module()}),
    Target(
        name="cpu.compile",
        function=cpu.compile,
        arguments=lambda: {"module": module(), "options": cpu.Options()},
    ),
    Target(
        name="cuda.compile_kernel",
        function=cuda.compile_kernel,
        arguments=lambda: {"module": module(), "threads": 32},
    ),
    Target(
        name="Kernel.from_bytes",
        function=lambda data: cpu.Kernel.from_bytes(data),
        arguments=lambda: {"data": b"no kernel"},
    ),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_wrong_arguments_are_named(target: Target) -> None:
    Fuzzer([target], ERRORS, seed=3).run(200).check()


def test_a_module_without_functions_is_refused() -> None:
    for function in (verify.verify, passes.simplify, cpu.compile, cuda.compile_kernel):
        with pytest.raises(TileError, match="a module must have a kernel"):
            function(Module())
