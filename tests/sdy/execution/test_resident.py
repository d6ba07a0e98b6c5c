"""PEs that stay: what they load, and what their launcher does not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import emu.sdy
from emu.sdy.execution import resident
from emu.sdy.execution.executable import compile

TEXT = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> tensor<4x6xf32> {
  %0 = stablehlo.tanh %a : tensor<4x6xf32>
  %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0]
      : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
  %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
      : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
"""
SCRIPT = """
import sys
import numpy as np
import emu.sdy

if __name__ == "__main__":
    with emu.sdy.compile(emu.sdy.parse(open(sys.argv[1]).read())) as program:
        program(np.ones((4, 6), np.float32))
        heavy = ("numba", "llvmlite", "scipy", "emu.comm.world.world", "emu.sdy.passes", "emu.tile")
        print([name for name in heavy if name in sys.modules])
"""


def test_the_launcher_of_a_program_on_disk_loads_no_compiler_and_no_passes(tmp_path) -> None:
    compile(emu.sdy.parse(TEXT))
    script, text = tmp_path / "script.py", tmp_path / "text.mlir"
    script.write_text(SCRIPT)
    text.write_text(TEXT)
    done = subprocess.run(
        [sys.executable, str(script), str(text)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_pes_are_forked_from_has_loaded_the_program() -> None:
    with compile(emu.sdy.parse(TEXT)) as program:
        found = program(np.ones((4, 6), np.float32))
        assert program._resident.session._world._server.is_ready
        again = program(np.ones((4, 6), np.float32))
    np.testing.assert_array_equal(found, again)


def test_loading_loads_the_kernels_that_are_on_disk(monkeypatch) -> None:
    from emu.tile.fusion import cache

    program = compile(emu.sdy.parse(TEXT))._program
    monkeypatch.setattr(resident, "_loaded", [])
    monkeypatch.setattr(cache, "_kernels", {})
    resident.load(program.code)
    assert resident._loaded == [program.compiled]
    assert len(cache._kernels) == 1  # tanh
    monkeypatch.setattr(cache, "_kernels", {})
    monkeypatch.setattr(cache, "_load", lambda digest, front_end: None)
    resident.load(program.code)  # they are compiled where they are called
    assert cache._kernels == {}


def test_a_program_of_the_reference_needs_no_loading(monkeypatch) -> None:
    monkeypatch.setattr(resident, "_loaded", [])
    program = compile(emu.sdy.parse(TEXT), path="reference")
    resident.load(program._program.code)
    assert resident._loaded == []
    with program:
        (found,) = program(np.ones((4, 6), np.float32))
    assert found.shape == (4, 6)
