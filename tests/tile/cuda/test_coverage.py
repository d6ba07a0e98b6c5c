"""What is not covered is said, with its place and types."""

from __future__ import annotations

import pytest
from tile_harness import Kernel

from emu.tile.cuda import NotCoveredError, compile_kernel
from emu.tile.cuda.coverage import COVERED
from emu.tile.ir import Location, TileError
from emu.tile.ops import Code


def test_the_error_names_operation_place_and_types() -> None:
    k = Kernel()
    k.builder.location = Location("kernel.py", 12, 5)
    k.builder.print_("x", [k.builder.arange(0, 4)], hex_=True)
    k.builder.return_()
    message = (
        r"kernel\.py:12:5: the CUDA compiler does not cover print\(tile<4xi32>\) -> \(\): hexa"
    )
    with pytest.raises(NotCoveredError, match=message):
        compile_kernel(k.module)


def test_all_operations_but_calls_are_covered() -> None:
    # Observers are asked by the CPU's compiler and the reference alone.
    # Nor are PEs on devices: the machine is asked by the CPU's compiler and the reference.
    machine = {Code.MACHINE_WORD, Code.MACHINE_CALL}
    assert set(Code) - COVERED == {Code.CALL, Code.OBSERVE} | machine


def test_a_module_that_breaks_a_rule_is_refused() -> None:
    k = Kernel()
    k.builder.store(k.number(1), k.number(1))
    k.builder.return_()
    with pytest.raises(TileError, match="store"):
        compile_kernel(k.module)
