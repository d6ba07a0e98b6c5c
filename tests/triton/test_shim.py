"""`emu run`: `import triton` gives emu.triton, as one and the same module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def emu_run(tmp_path, text, n_pes=1):
    script = tmp_path / "script.py"
    script.write_text(text)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "emu", "run", "-n", str(n_pes), "--no-prefix", str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=100,
        check=False,
    )


def output(tmp_path, text, n_pes=1):
    done = emu_run(tmp_path, text, n_pes)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


IMPORTS = """
import triton.language as tl
import triton
from triton.language.extra import libdevice
import triton.runtime.driver
import triton.runtime.jit
import triton.compiler.errors
from triton.runtime.errors import InterpreterError
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource
import emu.triton.runtime.jit
from emu.triton.language.extra import libdevice as home

assert triton.language is tl is emu.triton.language
assert triton.runtime is emu.triton.runtime
assert triton.runtime.jit is emu.triton.runtime.jit
assert triton.jit is emu.triton.jit
assert libdevice is home
assert triton.runtime.driver.active.is_active()
assert triton.__version__.startswith("3.9.0")
assert triton.compiler.CompilationError is triton.CompilationError
assert issubclass(triton.CompilationError, triton.TritonError)
try:
    import triton.nothing
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.slow
def test_there_is_one_module_whatever_the_way_in(tmp_path):
    assert output(tmp_path, IMPORTS) == ["No module named 'triton.nothing'"]


DEVICE = """
import torch, triton
import triton.language as tl

active = triton.runtime.driver.active
print(active.get_active_torch_device(), active.get_current_target().backend)
print(active.get_device_interface() is torch.cuda, active.get_device_capability())
torch.cuda.set_device(1)
print(active.get_active_torch_device(), active.get_current_device())

@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)

x = torch.arange(4, device="cuda", dtype=torch.float32)
double[(1,)](x, BLOCK=4)
print(x.is_cuda, x.tolist())
"""


def test_the_device_is_the_emulated_one(tmp_path):
    pytest.importorskip("torch")
    found = output(tmp_path, DEVICE, n_pes=2)
    assert sorted(found) == sorted(
        [
            "cuda:0 cuda",
            "True (8, 0)",
            "cuda:1 1",
            "True [0.0, 2.0, 4.0, 6.0]",
        ]
        * 2
    )


def test_a_program_without_torch_runs_on_arrays(tmp_path):
    text = DEVICE[DEVICE.index("@triton") : DEVICE.index("x = torch")]
    program = (
        "import sys, numpy as np, triton\nimport triton.language as tl\n"
        f"{text}\n"
        "x = np.arange(4.0)\ndouble[(1,)](x, BLOCK=4)\n"
        "print(x.tolist(), triton.runtime.driver.active.get_current_target().backend)\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert output(tmp_path, program) == ["[0.0, 2.0, 4.0, 6.0] cpu"]


def test_a_module_of_the_script_comes_first(tmp_path):
    (tmp_path / "triton.py").write_text("mine = True\n")
    assert output(tmp_path, "import triton\nprint(triton.mine)\n") == ["True"]


# In a new interpreter: another test of this one may have given emu.triton the name.
OUTSIDE = """
import emu.triton, importlib.util, sys
print("triton" in sys.modules)
spec = importlib.util.find_spec("triton")
print("" if spec is None else spec.origin)
"""


def test_outside_emu_run_triton_is_what_is_installed():
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    loaded, origin = done.stdout.splitlines()
    assert loaded == "False"
    assert f"{os.sep}emu{os.sep}triton{os.sep}" not in origin
