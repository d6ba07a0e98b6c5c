"""Where there is neither a GPU nor the simulator: everything can be imported, nothing called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import cuda

import emu

MODULES = sorted(
    path.stem
    for path in (Path(emu.__file__).parent / "kernels" / "cuda").glob("*.py")
    if path.stem != "__init__"
)
PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module("emu.kernels.cuda." + name)
import numpy as np
from emu.kernels.cuda import arrays, matmul, quant, tiles
from emu.kernels.cuda.device import CudaUnavailableError
host = np.ones((2, 2), np.float32)
for call in (
    lambda: arrays.to_device(host),
    lambda: arrays.empty(3, np.int8),
    lambda: tiles.set_tile(host, host),
    lambda: quant.quantize(host, 1.0),
    lambda: matmul.matmul(host, host),
):
    try:
        call()
    except CudaUnavailableError as error:
        print(error)
"""


def run(*arguments, **settings):
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    root = str(Path(emu.__file__).parents[1])
    env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env={**env, **settings},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.skipif(cuda.is_available(), reason="there is a CUDA device")
def test_modules_are_imported_and_calls_say_what_is_missing():
    done = run("-c", PROGRAM, *MODULES)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert line.startswith("a CUDA device must be available, but got ")
        assert line.endswith("set NUMBA_ENABLE_CUDASIM=1 before Python starts")


def test_modules_are_imported_in_the_simulator():
    names = [name for name in MODULES if name != "intrinsics"]  # compiled code only
    program = "import importlib, sys; [importlib.import_module(n) for n in sys.argv[1:]]"
    done = run(
        "-c", program, *(f"emu.kernels.cuda.{name}" for name in names), NUMBA_ENABLE_CUDASIM="1"
    )
    assert done.returncode == 0, done.stderr
