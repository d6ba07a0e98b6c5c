"""Tests of programs of each system, as their authors would write them: PyPTO, tiling data, torch_npu, Triton, Shardy."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest_plugins = "pytester"
EXAMPLES = Path(__file__).parents[2] / "examples"

TEXT = """
import os, runpy, struct
import numpy as np
import pytest

EXAMPLES = os.environ["EXAMPLES"]

@pytest.fixture
def all_gather():
    return runpy.run_path(f"{EXAMPLES}/pypto/allgather.py")["check"]

@pytest.mark.pes(2, 3)
@pytest.mark.emu(seed="random", poison=True)
@pytest.mark.parametrize("dtype", ["DT_FP32", "DT_INT32"])
def test_shmem_in_any_order(all_gather, dtype, world):
    import pypto
    all_gather(getattr(pypto, dtype))

@pytest.mark.pes(8)
def test_the_stores_of_the_page():
    runpy.run_path(f"{EXAMPLES}/pypto/shmem_store_fixed.py")["check"]()

def test_tiling_data():
    from emu.comm.tiling import TilingData, uint8, uint32
    class Message(TilingData):
        preparePosition: uint32
        sendOff: uint32
        commAlg: uint8
    assert Message(preparePosition=1, commAlg=2).to_bytes() == struct.pack("<IIBxxxxxxx", 1, 0, 2)

def test_scatter():
    runpy.run_path(f"{EXAMPLES}/torch_npu/quant_scatter.py", run_name="__main__")

def test_softmax(capsys):
    softmax = runpy.run_path(f"{EXAMPLES}/triton/fused_softmax.py")["softmax"]
    import torch
    x = torch.randn(5, 300, device="cuda")
    assert torch.allclose(softmax(x), torch.softmax(x, 1), atol=1e-6)

def test_sharding():
    from emu import sdy
    module = sdy.parse('''
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = sdy.constant dense<1.0> : tensor<4xf32>
  %1 = stablehlo.add %a, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}''')
    assert "sdy.mesh" in str(module)
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=str)
def test_programs_of_each_system(arguments, pytester: pytest.Pytester, monkeypatch) -> None:
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EXAMPLES", str(EXAMPLES))
    pytester.makepyfile(TEXT)
    result = pytester.runpytest_subprocess("--emu", *arguments, timeout=110)
    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(["emu: 1 test launched * Triton kernels, 8 tests launched none"])
