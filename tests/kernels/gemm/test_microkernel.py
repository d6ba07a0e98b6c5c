"""The sizes of the micro-kernels, for CPUs that may not be here."""

from __future__ import annotations

from emu.kernels.gemm.microkernel import DOT, F32, F64, GROUP, LAYOUT, choose_layout


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
