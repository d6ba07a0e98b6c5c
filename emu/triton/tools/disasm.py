"""Instructions of compiled kernels, by the host's ``objdump``: ``triton.tools.disasm``.

The functions have the names that Triton gives them for NVIDIA's; here a kernel is native code of the CPU.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.runtime import checks

__all__ = ["extract", "get_sass"]

_ELF = b"\x7fELF"
_CUDA = 190
"""Number of NVIDIA's GPUs in the header of an ELF file."""


def get_sass(cubin_asm: Any, fun: str | None = None) -> str:
    """Return the instructions of a kernel as text.

    Args:
        cubin_asm: A compiled kernel, as a launch returns it, or the bytes of an object file.
        fun: Symbol of the one function to show. Default: all.

    Raises:
        TypeError: ``cubin_asm`` is neither.
        ValueError: It is an object file for NVIDIA's GPUs, or none at all.
        RuntimeError: The machine has no ``objdump``.
    """
    build = getattr(cubin_asm, "_build", None)
    code = cubin_asm if build is None else getattr(build.executable, "code", None)
    if not isinstance(code, (bytes, bytearray, memoryview)):
        given = shown(cubin_asm, with_type=True)
        raise TypeError(
            f"cubin_asm must be a kernel compiled for the CPU, or the bytes of an object file, but got {given}"
        )
    if bytes(code[:4]) != _ELF:
        raise ValueError(f"cubin_asm must be an object file, but got {shown(code)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.o")
        path.write_bytes(code)
        return extract(path, fun)


def extract(file_path: str | Path, fun: str | None = None) -> str:
    """Return the instructions of an object file as text.

    Args:
        file_path: The file.
        fun: Symbol of the one function to show. Default: all.

    Raises:
        TypeError: ``file_path`` is not a path, or ``fun`` not a text.
        ValueError: It is an object file for NVIDIA's GPUs, or none at all, or has no such function.
        OSError: The file cannot be read.
        RuntimeError: The machine has no ``objdump``.
    """
    if not isinstance(file_path, str | Path):
        raise TypeError(f"file_path must be a path, but got {shown(file_path, with_type=True)}")
    if fun is not None and not checks.check_text("fun", fun).isprintable():
        raise ValueError(f"fun must be a symbol, but got {shown(fun)}")
    header = Path(file_path).read_bytes()[:20]
    if header[:4] != _ELF:
        raise ValueError(f"file_path must be an object file, but {file_path} is none")
    if int.from_bytes(header[18:20], "little") == _CUDA:
        raise ValueError(f"{file_path} is for GPUs of NVIDIA, whose tools emu does not have")
    tool = shutil.which("objdump")
    if tool is None:
        raise RuntimeError("objdump must be installed to show instructions, but is not on the path")
    which = [] if fun is None else [f"--disassemble={fun}"]
    command = [tool, "--no-show-raw-insn", "-d", *which, str(file_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        raise ValueError(f"{file_path} cannot be read: {told.stderr.strip()[:200]}")
    if fun is not None and f"<{fun}>:" not in told.stdout:
        raise ValueError(f"fun must be a function of {file_path}, but there is no {fun!r}")
    return told.stdout
