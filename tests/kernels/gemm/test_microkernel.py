"""The sizes of the micro-kernels, for CPUs that may not be here."""

from __future__ import annotations

import dataclasses

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from emu.kernels.gemm import microkernel
from emu.kernels.gemm.microkernel import DOT, F32, F64, GROUP, LAYOUT, PAIRS, choose_layout


def test_layouts_fit_the_registers() -> None:
    found = {
        "avx512": choose_layout(
            frozenset(["avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni"]), True
        ),
        "avx2": choose_layout(frozenset(["avx2", "fma"]), True),
        "sse": choose_layout(frozenset(["sse2"]), True),
        "neon": choose_layout(frozenset(["neon"]), False),
    }
    registers = {"avx512": 32, "avx2": 16, "sse": 16, "neon": 32}
    for name, layout in found.items():
        # The sums, one step of B, and one broadcast.
        assert layout.rows * layout.vectors + layout.vectors + 1 <= registers[name]
    assert [layout.dot for layout in found.values()] == ["vnni", "madd", "plain", "plain"]
    assert not found["sse"].fused


def test_a_vector_of_each_element_fills_a_register() -> None:
    for element in (F32, F64, DOT):
        assert element.lanes * element.size == LAYOUT.vector_bytes
        assert element.vector.count == element.lanes
    assert GROUP in (1, 2, 4)


@pytest.mark.parametrize(
    ("pairs", "vector_bytes", "target", "features"),
    [
        ("vdpbf16ps", 64, ("x86_64-linux-gnu", "znver4"), "+avx512f,+avx512bf16"),
        ("bfdot", 16, ("aarch64-linux-gnu", "neoverse-v1"), "+neon,+bf16"),
    ],
)
def test_pairs_of_bf16_become_one_instruction(
    monkeypatch: pytest.MonkeyPatch,
    pairs: str,
    vector_bytes: int,
    target: tuple[str, str],
    features: str,
) -> None:
    layout = dataclasses.replace(LAYOUT, pairs=pairs, vector_bytes=vector_bytes)
    monkeypatch.setattr(microkernel, "LAYOUT", layout)
    vector = PAIRS.vector
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(vector, [vector] * 3), "pairs")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(PAIRS.multiply_add(builder, *function.args))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, cpu = target
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    assert pairs in machine.emit_assembly(llvm.parse_assembly(str(module)))


def test_a_cpu_has_pairs_of_bf16_or_not() -> None:
    avx512 = ("avx512f", "avx512bw", "avx512vl", "avx512dq")
    assert choose_layout(frozenset([*avx512, "avx512bf16"]), True).pairs == "vdpbf16ps"
    assert choose_layout(frozenset(["neon", "bf16"]), False).pairs == "bfdot"
    for features, x86 in ((avx512, True), (("avx2", "fma"), True), (("neon",), False)):
        assert choose_layout(frozenset(features), x86).pairs == ""
