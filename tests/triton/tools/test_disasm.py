"""Instructions of kernels as text."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.tools import disasm


@triton.jit
def put(p):
    tl.store(p, 7.5)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_a_kernel_has_instructions() -> None:
    kernel = put.warmup(np.zeros(1, np.float32), grid=(1,))
    text = disasm.get_sass(kernel)
    assert "ret" in text
    code = kernel._build.executable.code
    assert disasm.get_sass(code).splitlines()[4:] == text.splitlines()[4:]
    symbol = kernel._build.executable.symbol
    assert f"<{symbol}>:" in disasm.get_sass(kernel, symbol)
    with pytest.raises(ValueError, match=r"fun must be a function of .*, but there is no 'other'"):
        disasm.get_sass(kernel, "other")


def test_without_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = put.warmup(np.zeros(1, np.float32), grid=(1,))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="objdump must be installed"):
        disasm.get_sass(kernel)


def test_what_is_no_code_for_a_cpu(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"cubin_asm must be a kernel .* but got 3"):
        disasm.get_sass(3)
    with pytest.raises(ValueError, match="must be an object file"):
        disasm.get_sass(b"text")
    header = b"\x7fELF" + bytes(14) + (190).to_bytes(2, "little")
    path = tmp_path / "kernel.cubin"
    path.write_bytes(header)
    with pytest.raises(ValueError, match="is for GPUs of NVIDIA"):
        disasm.extract(path, None)
