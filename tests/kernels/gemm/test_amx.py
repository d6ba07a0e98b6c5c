"""Micro-kernels of AMX: the instructions that LLVM selects for them, and their products of single tiles."""

from __future__ import annotations

import dataclasses
import platform

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from emu.kernels.core.jit import jit
from emu.kernels.gemm import amx
from emu.kernels.gemm.arguments import has_amx
from emu.kernels.gemm.microkernel import LAYOUT, choose_layout

AMX = ("amx-tile", "amx-int8", "amx-bf16")
AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni", "avx512bf16")

needs_amx = pytest.mark.skipif(
    not has_amx(), reason="this CPU has no AMX, or this process may not use it"
)


def test_a_cpu_has_amx_or_not() -> None:
    assert choose_layout(frozenset([*AVX512, *AMX]), True).amx
    assert not choose_layout(frozenset(AVX512), True).amx
    for left_out in AMX:
        features = frozenset([*AVX512, *AMX]) - {left_out}
        assert not choose_layout(features, True).amx
    assert not choose_layout(frozenset(["avx2", "fma", *AMX]), True).amx
    assert not choose_layout(frozenset(["neon", *AMX]), False).amx


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM may lack the target x86")
@pytest.mark.parametrize("instruction", [amx.INT8, amx.BF16])
@pytest.mark.parametrize(("down", "across"), [(2, 2), (1, 2), (2, 1), (1, 1)])
def test_llvm_selects_the_instructions(
    monkeypatch: pytest.MonkeyPatch, instruction: str, down: int, across: int
) -> None:
    """This needs no such CPU: it is compiled, and not run."""
    monkeypatch.setattr(amx, "LAYOUT", dataclasses.replace(LAYOUT, amx=True))
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 7)
    function = ir.Function(module, kind, "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    a, below, panel, steps, c, stride, further = function.args
    emitter = amx._Emitter(builder, instruction, down, across)
    emitter.emit((a, below), panel, steps, (c, stride), further)
    builder.ret_void()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-linux-gnu").create_target_machine(
        cpu="sapphirerapids", features=",".join(f"+{name}" for name in (*AVX512, *AMX))
    )
    text = machine.emit_assembly(llvm.parse_assembly(str(module)))
    counts = {word: text.count(f"\t{word}\t") for word in (instruction, "tilezero", "tilestored")}
    assert counts == {
        instruction: down * across,
        "tilezero": down * across,
        "tilestored": down * across,
    }
    # The sums that go on, and what a step takes of both operands.
    assert text.count("\ttileloadd\t") == down * across + down + across


@jit()
def int8_tile(a, panel, steps, c, stride, further, rows, columns, place):
    amx.configure(place, rows, columns)
    below = steps * amx.REGISTER_BYTES
    if rows > amx.SIDE and columns > amx.SIDE:
        amx.int8_whole(a, below, panel, steps, c, stride, further)
    elif rows > amx.SIDE:
        amx.int8_narrow(a, below, panel, steps, c, stride, further)
    elif columns > amx.SIDE:
        amx.int8_low(a, below, panel, steps, c, stride, further)
    else:
        amx.int8_small(a, below, panel, steps, c, stride, further)
    amx.release()


@needs_amx
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 32])
@pytest.mark.parametrize("columns", [1, 16, 17, 31, 32])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("further", [0, 1])
def test_a_tile_is_written_and_nothing_beside_it(
    rows: int, columns: int, steps: int, further: int
) -> None:
    rng = np.random.default_rng(rows)
    k = steps * amx.DEPTH
    a, b = rng.integers(-128, 128, (32, k), np.int8), rng.integers(-128, 128, (k, 32), np.int8)
    packed_a = a.reshape(2, 16, steps, 64).transpose(0, 2, 1, 3).copy()
    panel = b.reshape(k // 4, 4, 32).transpose(0, 2, 1).copy()
    around = rng.integers(-(2**31), 2**31, (40, 40)).astype(np.int32)
    expected, place = around.copy(), np.empty(amx.CONFIGURATION_BYTES, np.uint8)
    product = a.astype(np.int32) @ b.astype(np.int32)
    old = expected[3 : 3 + rows, 5 : 5 + columns] * further
    expected[3 : 3 + rows, 5 : 5 + columns] = old + product[:rows, :columns]
    int8_tile(
        *(packed_a.ctypes.data, panel.ctypes.data, steps),
        *(around[3:, 5:].ctypes.data, around.strides[0], further, rows, columns),
        place.ctypes.data,
    )
    np.testing.assert_array_equal(around, expected)
