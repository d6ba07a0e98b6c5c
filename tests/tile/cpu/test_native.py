"""The CPU that code is compiled for."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from llvmlite import binding

from emu.tile.cpu import native

V3 = "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+movbe"

# Prints a digest of what a kernel of many kinds of operations computes, and whether its code has
# registers of 512 bits.
PROGRAM = """
import hashlib
import numpy as np
import triton, triton.language as tl
from emu.tile.cpu import native

@triton.jit
def kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    shifted = tl.exp(value - tl.max(value, 0))
    tl.store(y + at, shifted / tl.sum(shifted, 0) + tl.cumsum(value, 0))

x = np.random.default_rng(5).standard_normal(1024).astype(np.float32)
y = np.zeros_like(x)
compiled = kernel[(1,)](x, y, BLOCK=1024)
print(hashlib.sha256(y.tobytes()).hexdigest(), native.default_target().cpu, native.has_feature("avx512f"))
"""


class TestDefaultTarget:
    @pytest.fixture(autouse=True)
    def _fresh(self, monkeypatch):
        native.default_target.cache_clear()
        yield
        monkeypatch.undo()
        native.default_target.cache_clear()

    def test_this_machine(self, monkeypatch):
        monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
        monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
        features = binding.get_host_cpu_features().flatten()
        assert native.default_target() == native.Target(binding.get_host_cpu_name(), features)

    def test_name_and_features(self, monkeypatch):
        monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v3")
        monkeypatch.setenv("NUMBA_CPU_FEATURES", V3)
        assert native.default_target() == native.Target("x86-64-v3", V3)

    def test_generic_has_no_features(self, monkeypatch):
        monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
        monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
        assert native.default_target() == native.Target("generic", "")

    def test_features_of_a_name_alone_are_this_machines(self, monkeypatch):
        monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v3")
        monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
        features = binding.get_host_cpu_features().flatten()
        assert native.default_target() == native.Target("x86-64-v3", features)


def _digest(tmp_path, **environment: str) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", "1", str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()[-3:]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a CPU of x86-64")
def test_bits_do_not_depend_on_the_vectors(tmp_path):
    if not binding.get_host_cpu_features().get("avx2"):
        pytest.skip("this CPU has no AVX2")
    here = _digest(tmp_path)
    lesser = _digest(tmp_path, NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES=V3)
    assert lesser[0] == here[0]
    assert lesser[1:] == ["x86-64-v3", "False"]
