"""`emu doctor --warm`: afterwards nothing is compiled any more."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from emu.kernels.precompile import STEPS

# Counts what the cache has, and has not, while every step runs.
PROBE = """
import json
from emu.kernels.core import jit
from emu.kernels.precompile import STEPS
from emu.stablehlo.compiled.precompile import precompile

load, loaded, missing = jit._DigestCache.load_overload, [], []

def counted(self, *arguments):
    found = load(self, *arguments)
    (missing if found is None else loaded).append(self._py_func.__qualname__)
    return found

jit._DigestCache.load_overload = counted
for step in [*STEPS.values(), precompile]:
    step()
print(json.dumps([loaded, missing]))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_doctor_warm_compiles_all() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "emu", "doctor", "--warm"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in [*STEPS, "a world of PEs", "sharded programs"]:
        assert f" s  {name}\n" in done.stdout
    assert "All kernels are compiled" in done.stdout
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=100, check=True
    )
    loaded, missing = json.loads(probe.stdout)
    assert missing == []
    assert {
        "_multiply_arrays",
        "_multiply_shared",
        "_cast_arrays",
        "reduce_run",
        "_add_rows",
    } <= set(loaded)
