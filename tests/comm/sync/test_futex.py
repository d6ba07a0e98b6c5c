"""The hint of spin loops, on each CPU that has one."""

from __future__ import annotations

import pytest
from llvmlite import binding

from emu.comm.sync import futex

TRIPLES = {
    "x86_64": ("x86_64-unknown-linux-gnu", "pause"),
    "aarch64": ("aarch64-unknown-linux-gnu", "isb"),
    "arm64": ("arm64-apple-darwin", "isb"),
}


@pytest.mark.parametrize("machine", sorted(futex._PAUSE))
def test_the_hint_is_one_instruction_that_takes_a_moment(machine: str) -> None:
    triple, instruction = TRIPLES[machine]
    name, *numbers = futex._PAUSE[machine]
    kinds = ", ".join("i32" for _ in numbers)
    values = ", ".join(f"i32 {number}" for number in numbers)
    text = f"declare void @{name}({kinds})\ndefine void @f() {{\n  call void @{name}({values})\n  ret void\n}}\n"
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine_ = binding.Target.from_triple(triple).create_target_machine()
    module = binding.parse_assembly(text)
    module.triple = triple
    assert f"\t{instruction}" in machine_.emit_assembly(module)
